# SPDX-License-Identifier: MIT
# gcc and g++ on large generated files: the object files must be the same to the last byte.
# needs: gcc g++ perl
# serves: cc1 cc1plus
# modes: fast secure debug
. "$CASES/lib.sh"
perl "$CASES/programs/generate_source.pl" c > big.c
perl "$CASES/programs/generate_source.pl" c++ > big.cc
under gcc -O2 -c big.c -o big_c.o
under g++ -O1 -c big.cc -o big_cc.o
sha256sum big_c.o big_cc.o
