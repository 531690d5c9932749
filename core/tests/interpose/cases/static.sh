# SPDX-License-Identifier: MIT
# Static programs with libmallow.a: plain and position-independent, and with the archive in a dynamic
# program.
# kind: direct
# modes: fast secure debug
. "$CASES/lib.sh"
need_static_library
for how in "-static" "-static-pie -fPIE" "-pie -fPIE"; do
    check_self cc -O2 -pthread $how -o program "$CASES/programs/self_check.c" "$LIBRARY_STATIC"
    ./program
done
