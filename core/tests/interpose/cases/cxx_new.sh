# SPDX-License-Identifier: MIT
# Every form of operator new and delete from a C++ program, bad_alloc, containers, threads.
# needs: g++
# serves: cxx_new
# modes: fast secure debug
. "$CASES/lib.sh"
g++ -std=c++17 -O1 -fno-builtin -pthread -o cxx_new "$CASES/programs/cxx_new.cc"
under ./cxx_new
