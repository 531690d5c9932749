# SPDX-License-Identifier: MIT
#
# Each file runs small threads of the allocator's own functions in every order, see explorer.h. The
# compiler instruments the allocator for a thread sanitizer; the library of it is not linked.

include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "-Werror")
check_c_source_compiles("#include <ucontext.h>
int main(void) { ucontext_t context; getcontext(&context); makecontext(&context, (void (*)(void))main, 0); return 0; }"
                        MALLOW_HAS_UCONTEXT)
unset(CMAKE_REQUIRED_FLAGS)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # to compile is enough
check_c_compiler_flag(-fsanitize=thread MALLOW_COMPILES_FOR_TSAN)
unset(CMAKE_TRY_COMPILE_TARGET_TYPE)

file(GLOB protocol_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
list(FILTER protocol_sources EXCLUDE REGEX "/(explorer|tsan_calls)\\.c$")

set(can_explore FALSE)
if(MALLOW_HAS_UCONTEXT AND MALLOW_COMPILES_FOR_TSAN)
  set(can_explore TRUE)
  mallow_objects(explorer_objects ${CMAKE_CURRENT_LIST_DIR}/explorer.c
                 ${CMAKE_CURRENT_LIST_DIR}/tsan_calls.c test_main.c)
  target_compile_options(explorer_objects PRIVATE -O2)
endif()

foreach(source IN LISTS protocol_sources)
  get_filename_component(stem ${source} NAME_WE)
  set(name protocol-${stem})
  if(NOT can_explore)
    mallow_skipped(${name} "needs makecontext and a compiler that knows -fsanitize=thread")
    continue()
  endif()
  add_library(${name}_objects OBJECT ${source})
  target_link_libraries(${name}_objects PRIVATE test_flags)
  target_compile_options(${name}_objects PRIVATE -O1 -fsanitize=thread -Wno-address
                                                 -Wno-unused-function)
  add_executable(${name} $<TARGET_OBJECTS:${name}_objects> $<TARGET_OBJECTS:explorer_objects>)
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  mallow_test(${name} COMMAND ${name})
endforeach()
