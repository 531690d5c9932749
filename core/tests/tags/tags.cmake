# SPDX-License-Identifier: MIT
#
# Memory tags of the secure build, on an emulated CPU that has them and on one that has not.

if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND NOT is_native AND "secure" IN_LIST MALLOW_MODES)
  add_executable(tags ${CMAKE_CURRENT_LIST_DIR}/tags.c ${CMAKE_CURRENT_SOURCE_DIR}/test_main.c)
  target_link_libraries(tags PRIVATE test_flags mallow-secure-static)
  target_compile_options(tags PRIVATE -O1)
  # Guarded blocks, which are chosen by chance, have no tags; but traps are to be told of. Of glibc's functions those
  # are taken that qemu 7.2 can carry out with tags.
  foreach(case "tags|1|max|,memory_tags:true" "tags-of-no-cpu|0|cortex-a72|,memory_tags:true" "tags-off|0|max|")
    string(REPLACE "|" ";" words "${case}")
    list(GET words 0 name)
    list(GET words 1 expected)
    list(GET words 2 cpu)
    list(GET words 3 setting)
    mallow_test(${name} COMMAND tags)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
      "QEMU_CPU=${cpu};EXPECT_TAGS=${expected};GLIBC_TUNABLES=glibc.cpu.name=kunpeng920;MALLOW_CONF=guard_sample:1000000000${setting}")
  endforeach()
endif()
