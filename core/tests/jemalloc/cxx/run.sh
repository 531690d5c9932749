#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh LIBRARY INCLUDES: builds requests.cc, with an arena for each request, against a shared library of
# Mallow, and runs it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
g++ -std=c++17 -O1 -Wall -Wextra -pthread -I"$2" "$here/requests.cc" "$1" -Wl,-rpath,"$(dirname "$1")" \
    -o "$work/requests"
[ "$("$work/requests")" = ok ]
