# SPDX-License-Identifier: MIT
# The library cross-compiled for aarch64, preloaded and linked statically, under qemu with pages of
# 4, 16 and 64 KiB.
# needs: cmake
# kind: direct
. "$CASES/lib.sh"
"$ROOT/tools/can" emulate || skip "no gcc for aarch64, or no qemu, that works here"
root=/usr/aarch64-linux-gnu
cmake -S "$ROOT" -B build -DMALLOW_MODES=fast \
    -DCMAKE_TOOLCHAIN_FILE="$ROOT/tools/aarch64.cmake" >cmake.log
cmake --build build --target libraries >>cmake.log 2>&1 || fail "$(tail -n 40 cmake.log)"
READELF=aarch64-linux-gnu-readelf "$ROOT/tools/check-library" build/libmallow.so

check_self aarch64-linux-gnu-gcc -O2 -pthread -o dynamic "$CASES/programs/self_check.c"
check_self aarch64-linux-gnu-gcc -O2 -pthread -static -o static "$CASES/programs/self_check.c" \
    build/libmallow.a
for page in 4096 16384 65536; do
    qemu-aarch64 -p $page -L $root -E LD_PRELOAD="$WORK/build/libmallow.so" ./dynamic >out
    cat out
    grep -q "page $page," out || fail "the program does not see pages of $page bytes"
    qemu-aarch64 -p $page ./static
done
