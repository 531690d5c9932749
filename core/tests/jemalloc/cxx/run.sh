#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh LIBRARY INCLUDES: builds requests.cc, with an arena for each request, and weak.cc, which declares
# jemalloc's functions anew, against a shared library of Mallow, and runs them. weak.cc is also what clang++
# takes, where it is installed, and both take it with the header of prefixed names.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in requests weak; do
    # Names that are weak alone do not make a library needed.
    g++ -std=c++17 -O1 -Wall -Wextra -pthread -I"$2" "$here/$program.cc" -Wl,--no-as-needed "$1" \
        -Wl,-rpath,"$(dirname "$1")" -o "$work/$program"
done
[ "$("$work/requests")" = ok ]
"$work/weak"
for compiler in g++ clang++; do
    command -v "$compiler" >"$work/found" || continue
    for header in compat prefixed; do
        "$compiler" -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$2/../$header" "$here/weak.cc"
    done
done
