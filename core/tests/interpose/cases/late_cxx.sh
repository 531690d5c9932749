# SPDX-License-Identifier: MIT
# A C program that loads a C++ library: operator new calls its new-handler and throws its bad_alloc.
# The same in a C++ program, with the library there from the start.
# needs: g++
# serves: late_cxx cxx_main
# modes: fast secure debug
. "$CASES/lib.sh"
g++ -std=c++17 -O1 -fno-builtin -shared -fPIC -o libcxx_part.so "$CASES/programs/late_cxx.cc"
cc -O1 -o late_cxx "$CASES/programs/late_cxx.c" -ldl
under ./late_cxx ./libcxx_part.so
g++ -std=c++17 -O1 -fno-builtin -DWITH_MAIN -o cxx_main "$CASES/programs/late_cxx.cc"
under ./cxx_main
