# SPDX-License-Identifier: MIT
#
# Unit tests: each file takes the whole source in, in debug mode with the slow checks as well; and with
# ASan and UBSan, where these link. -O0: to compile them takes far longer than to run them.

file(GLOB unit_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
set(unit_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=undefined)
foreach(source IN LISTS unit_sources)
  get_filename_component(stem ${source} NAME_WE)
  add_executable(unit-${stem} ${source} ${CMAKE_CURRENT_SOURCE_DIR}/test_main.c)
  target_link_libraries(unit-${stem} PRIVATE test_flags)
  target_compile_options(unit-${stem} PRIVATE -O0 -Wno-address -Wno-unused-function)
  mallow_test(unit-${stem} COMMAND unit-${stem})
  # These crash on purpose, in ASan's way then; unwind is held against backtrace(), which ASan replaces.
  if(MALLOW_CAN_asan AND NOT stem MATCHES "lock|meta|unwind")
    target_compile_options(unit-${stem} PRIVATE ${unit_sanitizers})
    target_link_options(unit-${stem} PRIVATE ${unit_sanitizers})
    set_tests_properties(unit-${stem} PROPERTIES ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
  endif()
endforeach()
