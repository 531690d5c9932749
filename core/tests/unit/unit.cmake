# SPDX-License-Identifier: MIT
#
# Unit tests: each file takes the whole source in, in debug mode with the slow checks as well. -O0: to
# compile them takes far longer than to run them.

file(GLOB unit_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
foreach(source IN LISTS unit_sources)
  get_filename_component(stem ${source} NAME_WE)
  add_executable(unit-${stem} ${source} ${CMAKE_CURRENT_SOURCE_DIR}/test_main.c)
  target_link_libraries(unit-${stem} PRIVATE test_flags)
  target_compile_options(unit-${stem} PRIVATE -O0 -Wno-address -Wno-unused-function)
  mallow_test(unit-${stem} COMMAND unit-${stem})
endforeach()
