# SPDX-License-Identifier: MIT
# Static musl programs with libmallow.a: plain and position-independent.
# kind: direct
# modes: fast secure debug
. "$CASES/lib.sh"
use_musl_cc
need_static_library
check_self "$musl_cc" -O2 -pthread -static -o program "$CASES/programs/self_check.c" \
    "$LIBRARY_STATIC"
./program

# musl-gcc does not know -static-pie, so its start files are named one by one.
[ "$musl_cc" = musl-gcc ] || {
    check_self cc -O2 -pthread -static-pie -fPIE -o program_pie "$CASES/programs/self_check.c" \
        "$LIBRARY_STATIC"
    ./program_pie
    exit 0
}
start=$(ls /usr/lib/*-linux-musl/rcrt1.o | head -n 1)
folder=$(dirname "$start")
check_self musl-gcc -O2 -pthread -fPIE -c -o program.o "$CASES/programs/self_check.c"
cc -static-pie -nostdlib -o program_pie "$start" "$folder/crti.o" \
    "$(cc -print-file-name=crtbeginS.o)" program.o "$LIBRARY_STATIC" -L"$folder" -lc -lgcc \
    -lgcc_eh -lc "$(cc -print-file-name=crtendS.o)" "$folder/crtn.o"
./program_pie
