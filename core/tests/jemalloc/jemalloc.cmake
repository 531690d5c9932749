# SPDX-License-Identifier: MIT
#
# Programs written for jemalloc: they include <jemalloc/jemalloc.h>.

file(GLOB jemalloc_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)

add_library(jemalloc_flags INTERFACE)
target_include_directories(jemalloc_flags INTERFACE ${PROJECT_SOURCE_DIR}/core/include/mallow/compat)
target_link_libraries(jemalloc_flags INTERFACE test_flags)

# Not linked with Mallow; names that only the preload has are weak references.
add_executable(jemalloc_client ${CMAKE_CURRENT_LIST_DIR}/conf/client.c)
target_link_libraries(jemalloc_client PRIVATE jemalloc_flags)
target_link_options(jemalloc_client PRIVATE LINKER:-z,dynamic-undefined-weak)

find_program(has_gxx g++)

foreach(mode IN LISTS MALLOW_MODES)
  string(REPLACE "mallow-fast" "mallow" library mallow-${mode})
  add_executable(jemalloc-${mode} ${jemalloc_sources} test_main.c)
  target_compile_definitions(jemalloc-${mode} PRIVATE TEST_MODE=${mode_number_${mode}})
  target_link_libraries(jemalloc-${mode} PRIVATE jemalloc_flags ${library}-static)
  mallow_test(jemalloc-${mode} COMMAND jemalloc-${mode})
  if(NOT mode STREQUAL "debug")
    mallow_test(jemalloc-slab_sizes-${mode} COMMAND jemalloc-${mode} defrag)
    set_tests_properties(jemalloc-slab_sizes-${mode} PROPERTIES ENVIRONMENT
                         "MALLOC_CONF=slab_sizes:1-5000:1;MALLOW_CONF=guard_sample:0")
  endif()
  if(mode STREQUAL "secure")
    # The first guarded block, whenever chance has it, brings the places of all that come.
    set_tests_properties(jemalloc-secure PROPERTIES ENVIRONMENT MALLOW_CONF=guard_sample:0)
  endif()
  if(mode STREQUAL "debug")
    # Many look at what is counted or given back when a block is freed, where a block between guards is
    # as large as these. Those of arenas and hooks run with a quarantine too: nothing of an explicit
    # arena may be in it.
    set_tests_properties(jemalloc-debug PROPERTIES
                         ENVIRONMENT MALLOW_CONF=quarantine:0,guard_first:0,guard_sample:0)
    mallow_test(jemalloc-quarantine-debug COMMAND jemalloc-debug hooks reset_takes_all_blocks_back
                other_threads_free_what_is_reset a_bound_thread_allocates_from_its_arena
                threads_end_while_they_are_bound the_child_of_a_fork_has_arenas_whole)
  endif()

  add_executable(jemalloc_client_${mode} ${CMAKE_CURRENT_LIST_DIR}/conf/client.c)
  target_compile_definitions(jemalloc_client_${mode} PRIVATE OWN_CONF)
  target_link_libraries(jemalloc_client_${mode} PRIVATE jemalloc_flags ${library}-static)
  add_executable(jemalloc_linked_${mode} ${CMAKE_CURRENT_LIST_DIR}/conf/client.c)
  target_compile_definitions(jemalloc_linked_${mode} PRIVATE OWN_CONF)
  target_link_libraries(jemalloc_linked_${mode} PRIVATE jemalloc_flags ${library}-shared)
  if(is_native AND has_gxx AND NOT mode STREQUAL "debug")
    mallow_test(jemalloc-cxx-${mode}
      COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/cxx/run.sh $<TARGET_FILE:${library}-shared>
              ${PROJECT_SOURCE_DIR}/core/include/mallow/compat)
  elseif(is_native)
    mallow_skipped(jemalloc-cxx-${mode} "no g++ here, or the debug build")
  endif()
  if(is_native)
    mallow_test(jemalloc-conf-${mode}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/conf/run.py ${mode}
              $<TARGET_FILE:${library}-shared> $<TARGET_FILE:jemalloc_client>
              $<TARGET_FILE:jemalloc_client_${mode}> $<TARGET_FILE:jemalloc_linked_${mode}>)
    mallow_test(jemalloc-system-conf-${mode}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/conf/system.py $<TARGET_FILE:jemalloc_linked_${mode}>)
    set_tests_properties(jemalloc-system-conf-${mode} PROPERTIES SKIP_RETURN_CODE 77)
    mallow_test(jemalloc-types-${mode}
      COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}-shared>
              MALLOC_CONF=prof:true,prof_active:false MALLOW_CONF=guard_first:0,guard_sample:0
              ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/types.py)
  endif()
endforeach()

if(is_native)
  mallow_test(jemalloc-prefixed-conf
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/conf/prefixed.py
            $<TARGET_FILE:${prefixed_library}-shared> ${MALLOW_JEMALLOC_PREFIX})
endif()

mallow_test(jemalloc-docs COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/docs.py)
