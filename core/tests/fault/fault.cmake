# SPDX-License-Identifier: MIT
#
# Misuse by the program, and failures of the kernel.

file(GLOB misuse_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/misuse/*.c)
set(misuse_dir ${CMAKE_CURRENT_BINARY_DIR}/misuse)
set(misuse_programs "")
if(is_native)
  foreach(source IN LISTS misuse_sources)
    get_filename_component(stem ${source} NAME_WE)
    add_executable(misuse_${stem} ${source})
    set_target_properties(misuse_${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${misuse_dir})
    target_link_libraries(misuse_${stem} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    # -w: misuse is what compilers warn of. Names that only the preload has are weak references.
    target_compile_options(misuse_${stem} PRIVATE -O0 -w -fno-builtin)
    # An operator new in a program is what the whole process calls, as it would be in C++.
    target_link_options(misuse_${stem} PRIVATE LINKER:-z,dynamic-undefined-weak
                        LINKER:--export-dynamic-symbol=_Znwm)
  endforeach()
  foreach(mode IN LISTS MALLOW_MODES)
    string(REPLACE "mallow-fast" "mallow" library mallow-${mode})
    mallow_test(misuse-${mode} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run.py
                ${mode} $<TARGET_FILE:${library}-shared> ${misuse_dir} ${misuse_sources})
  endforeach()
endif()

# Leaks, at the end of a program.
if(is_native AND "debug" IN_LIST MALLOW_MODES)
  add_executable(fault-leaks ${CMAKE_CURRENT_LIST_DIR}/leaks.c)
  target_link_libraries(fault-leaks PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_options(fault-leaks PRIVATE -O0 -w)
  mallow_test(fault-leaks-debug COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/leaks.py
              $<TARGET_FILE:mallow-debug-shared> $<TARGET_FILE:fault-leaks>)
endif()

# The debug build under valgrind.
if(is_native AND "debug" IN_LIST MALLOW_MODES)
  add_executable(fault-memcheck ${CMAKE_CURRENT_LIST_DIR}/memcheck/memcheck.c)
  target_compile_options(fault-memcheck PRIVATE -O0 -w)
  mallow_test(fault-memcheck-debug COMMAND ${Python3_EXECUTABLE}
              ${CMAKE_CURRENT_LIST_DIR}/memcheck/memcheck.py $<TARGET_FILE:mallow-debug-shared>
              $<TARGET_FILE:fault-memcheck>)
  set_tests_properties(fault-memcheck-debug PROPERTIES SKIP_RETURN_CODE 77)
endif()

# Guarded blocks of the fast build.
if(is_native AND "fast" IN_LIST MALLOW_MODES)
  add_executable(fault-sampled ${CMAKE_CURRENT_LIST_DIR}/sampled/sampled.c)
  target_link_libraries(fault-sampled PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_definitions(fault-sampled PRIVATE _GNU_SOURCE)
  target_compile_options(fault-sampled PRIVATE -O1 -w -fno-builtin)
  target_link_options(fault-sampled PRIVATE LINKER:-z,dynamic-undefined-weak)
  foreach(mode fast secure)
    list(FIND MALLOW_MODES ${mode} at)
    if(at GREATER -1)
      set(library mallow)
      if(NOT mode STREQUAL fast)
        set(library mallow-${mode})
      endif()
      mallow_test(fault-sampled-${mode} COMMAND ${Python3_EXECUTABLE}
                  ${CMAKE_CURRENT_LIST_DIR}/sampled/sampled.py ${mode}
                  $<TARGET_FILE:${library}-shared> $<TARGET_FILE:fault-sampled>)
    endif()
  endforeach()
endif()

# The fault suite (suite/) and the exploit probes (probes/): a program each, run once for each line
# of cases.txt and probes.txt; where blocks come to lie (layout/); misuse at places where it is hard
# to say so (places/). What is wrong in the programs hides from compilers behind volatile. The long
# form, beside all other allocators: make faults. The target fault-record writes what the builds do
# into cases.txt and probes.txt.
if(is_native)
  foreach(program suite probes layout places)
    file(GLOB ${program}_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/${program}/*.c)
    add_executable(fault-${program} ${${program}_sources})
    target_link_libraries(fault-${program} PRIVATE test_flags)
    target_compile_options(fault-${program} PRIVATE -O1)
    # The operators of C++ and free_sized are weak references: not every allocator has them.
    target_link_options(fault-${program} PRIVATE LINKER:-z,dynamic-undefined-weak)
  endforeach()
  foreach(mode IN LISTS MALLOW_MODES)
    string(REPLACE "mallow-fast" "mallow" library mallow-${mode})
    mallow_test(fault-suite-${mode} COMMAND ${Python3_EXECUTABLE}
                ${CMAKE_CURRENT_LIST_DIR}/suite/suite.py ${mode} $<TARGET_FILE:${library}-shared>
                $<TARGET_FILE:fault-suite>)
    mallow_test(fault-suite-probes-${mode} COMMAND ${Python3_EXECUTABLE}
                ${CMAKE_CURRENT_LIST_DIR}/probes/probes.py ${mode} $<TARGET_FILE:${library}-shared>
                $<TARGET_FILE:fault-probes>)
    mallow_test(fault-suite-places-${mode} COMMAND ${Python3_EXECUTABLE}
                ${CMAKE_CURRENT_LIST_DIR}/places/places.py $<TARGET_FILE:${library}-shared>
                $<TARGET_FILE:${library}-static> $<TARGET_FILE:fault-places>
                ${CMAKE_CURRENT_LIST_DIR}/places/places.c)
    foreach(table suite probes)
      list(APPEND record_commands COMMAND ${Python3_EXECUTABLE}
           ${CMAKE_CURRENT_LIST_DIR}/${table}/${table}.py --record ${mode}
           $<TARGET_FILE:${library}-shared> $<TARGET_FILE:fault-${table}>)
    endforeach()
    list(APPEND layout_of ${mode}=$<TARGET_FILE:${library}-shared>)
  endforeach()
  mallow_test(fault-suite-layout COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/layout/layout.py
              --runs 300 $<TARGET_FILE:fault-layout> ${layout_of})
  if("debug" IN_LIST MALLOW_MODES)
    mallow_test(fault-suite-seed COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/layout/seed.py
                $<TARGET_FILE:fault-layout> ${layout_of})
    set_tests_properties(fault-suite-seed PROPERTIES SKIP_RETURN_CODE 77)
  endif()
  add_custom_target(fault-record ${record_commands} USES_TERMINAL VERBATIM)
endif()

# Every system call that the allocator makes is made to fail in turn; sites.py checks "every". It
# needs one call instruction for each call in the source, at an address that it can read off. Without
# a table of its functions the program's own call stacks need an index, for which memory is mapped.
if(is_native)
  foreach(mode IN LISTS MALLOW_MODES)
    add_executable(injection-${mode} ${CMAKE_CURRENT_LIST_DIR}/injection.c)
    set_target_properties(injection-${mode} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_link_libraries(injection-${mode} PRIVATE test_flags)
    # Of the debug build the layers below its tracking of blocks, with their asserts.
    target_compile_definitions(injection-${mode} PRIVATE MW_MODE=${mode_number_${mode}} MW_TRACK=0)
    target_compile_options(injection-${mode} PRIVATE -O1 -fno-pie -fno-inline
                           -fno-optimize-sibling-calls -fno-omit-frame-pointer -Wno-address -Wno-frame-address
                           $<$<C_COMPILER_ID:GNU>:-fno-ipa-cp -fno-ipa-sra -fno-ipa-icf>)
    target_link_options(injection-${mode} PRIVATE -no-pie LINKER:--no-eh-frame-hdr)
  endforeach()
  mallow_test(injection-fast COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/sites.py
              fast $<TARGET_FILE:injection-fast>)
  mallow_test(injection-secure COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/sites.py
              secure $<TARGET_FILE:injection-secure> --quick)
  # Which block is guarded is left to chance, unless a setting of the program asks for guards.
  set_tests_properties(injection-secure PROPERTIES ENVIRONMENT MALLOW_CONF=guard_sample:0)
  mallow_test(injection-debug COMMAND injection-debug --quick)
endif()
