# SPDX-License-Identifier: MIT
# The library cross-compiled for aarch64, preloaded and linked statically, under qemu with pages of
# 4, 16 and 64 KiB; of the other builds the shared library alone.
# needs: cmake
# modes: fast secure debug
# timeout: 120
# kind: direct
. "$CASES/lib.sh"
"$ROOT/tools/can" emulate || skip "no gcc for aarch64, or no qemu, that works here"
root=/usr/aarch64-linux-gnu
# Those of its own are compiled with -O1, in half the time.
name=libmallow-$MODE targets="mallow-$MODE-shared" static= build=$WORK/build level=-DCMAKE_C_FLAGS_RELEASE=-O1
# The fast build is that of the step aarch64 (tools/test).
[ "$MODE" != fast ] || name=libmallow targets="mallow-shared mallow-static" static=./static build=$ROOT/build-aarch64 level=
cmake -S "$ROOT" -B "$build" -DMALLOW_MODES="$MODE" ${level:+"$level"} \
    -DCMAKE_TOOLCHAIN_FILE="$ROOT/tools/aarch64.cmake" >cmake.log
cmake --build "$build" --target $targets >>cmake.log 2>&1 || fail "$(tail -n 40 cmake.log)"
READELF=aarch64-linux-gnu-readelf "$ROOT/tools/check-library" "$build/$name.so"

check_self aarch64-linux-gnu-gcc -O2 -pthread -o dynamic "$CASES/programs/self_check.c"
[ -z "$static" ] || check_self aarch64-linux-gnu-gcc -O2 -pthread -static -o static \
    "$CASES/programs/self_check.c" "$build/libmallow.a"
for page in 4096 16384 65536; do
    qemu-aarch64 -p $page -L $root -E LD_PRELOAD="$build/$name.so" ./dynamic >out
    cat out
    grep -q "page $page," out || fail "the program does not see pages of $page bytes"
    [ -z "$static" ] || qemu-aarch64 -p $page $static
done
