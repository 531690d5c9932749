# SPDX-License-Identifier: MIT
# Programs that replace some forms of operator new and delete, and leave the others, which must come to
# theirs.
# needs: g++
# serves: cxx_replaced
# modes: fast secure debug
. "$CASES/lib.sh"
for forms in -DPLAIN "-DPLAIN -DARRAY" -DARRAY -DALIGNED "-DPLAIN -DALIGNED"; do
    # shellcheck disable=SC2086
    g++ -std=c++17 -O1 -fno-builtin $forms -o cxx_replaced "$CASES/programs/cxx_replaced.cc"
    under ./cxx_replaced || fail "$forms"
done
