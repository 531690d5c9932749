# SPDX-License-Identifier: MIT
# A program that runs on its libc's malloc opens the library late: little TLS, so that it loads, and
# its mw_ functions work beside the libc's.
# kind: direct
# modes: fast secure debug
. "$CASES/lib.sh"
check_self cc -O2 -pthread -o late_dlopen "$CASES/programs/late_dlopen.c" -ldl
./late_dlopen "$LIBRARY"
