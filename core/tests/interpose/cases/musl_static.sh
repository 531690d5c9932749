# SPDX-License-Identifier: MIT
# Static musl programs with libmallow.a: plain and position-independent; and the heap profile of one, with its leaks.
# kind: direct
# modes: fast secure debug
. "$CASES/lib.sh"
use_musl_cc
need_static_library
check_self "$musl_cc" -O2 -pthread -static -o program "$CASES/programs/self_check.c" \
    "$LIBRARY_STATIC"
./program

# It never frees 4,000 blocks of 1,000 bytes; a sample is taken every 4 KiB.
"$musl_cc" -O2 -fno-builtin -pthread -static -no-pie -o leaker "$ROOT/core/tests/profile/client.c" \
    "$LIBRARY_STATIC"
MALLOC_CONF=prof:true,prof_final:true,prof_leak:true,lg_prof_sample:12,prof_prefix:out \
    MALLOW_CONF=prof_thinning:false ./leaker leak 2>said
leaked=$(sed -n 's/.*Leak approximation summary: ~\([0-9]*\) bytes, .*/\1/p' said)
[ "${leaked:-0}" -gt 3000000 ] && [ "$leaked" -lt 5500000 ] || fail "4 MB leaked: $(cat said)"
profile=$(ls out.*.0.f.heap)
[ "$(head -n 1 "$profile")" = heap_v2/4096 ] || fail "what begins $profile"
# It names the function that leaks, by addresses between its own and that of the next.
set -- $(nm -n leaker | grep -A 1 ' T leaking$' | cut -d ' ' -f 1)
named=0
for address in $(sed -n 's/^@ //p' "$profile"); do
    [ $((address)) -le $((0x$1)) ] || [ $((address)) -gt $((0x$2)) ] || named=$((named + 1))
done
[ "$named" -gt 0 ] || fail "no stack of $profile goes through leaking"

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
