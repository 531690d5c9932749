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

# protocol_program(NAME STEM ...): one program of some files, each of which is a test.
function(protocol_program name)
  if(NOT can_explore)
    foreach(stem IN LISTS ARGN)
      mallow_skipped(protocol-${stem} "needs makecontext and a compiler that knows -fsanitize=thread")
    endforeach()
    return()
  endif()
  set(text "/* Written by protocol.cmake. */\n")
  foreach(stem IN LISTS ARGN)
    string(APPEND text "#include \"${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${stem}.c\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.c CONTENT "${text}" @ONLY)
  add_library(${name}_objects OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  target_link_libraries(${name}_objects PRIVATE test_flags)
  target_compile_options(${name}_objects PRIVATE -O1 -fsanitize=thread -Wno-address
                                                 -Wno-unused-function)
  add_executable(${name} $<TARGET_OBJECTS:${name}_objects> $<TARGET_OBJECTS:explorer_objects>)
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  foreach(stem IN LISTS ARGN)
    mallow_test(protocol-${stem} COMMAND ${name} ${stem})
  endforeach()
endfunction()

# What takes in the whole allocator is compiled together; what has no asserts is a program of its own.
set(protocol_alone memory_of_the_explorer)
set(protocol_unchecked slab_emptied slab_without_owner)
set(protocol_together)
foreach(source IN LISTS protocol_sources)
  get_filename_component(stem ${source} NAME_WE)
  list(APPEND protocol_together ${stem})
endforeach()
list(REMOVE_ITEM protocol_together ${protocol_alone} ${protocol_unchecked})

protocol_program(protocol-memory ${protocol_alone})
protocol_program(protocol-unchecked ${protocol_unchecked})
protocol_program(protocol ${protocol_together})
