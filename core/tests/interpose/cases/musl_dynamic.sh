# SPDX-License-Identifier: MIT
# The same shared object preloaded into a musl program, and a musl program linked with it.
# kind: direct
# modes: fast secure debug
. "$CASES/lib.sh"
use_musl_cc
check_self "$musl_cc" -O2 -pthread -o preloaded "$CASES/programs/self_check.c"
if ./preloaded 2>/dev/null; then fail "without the preload the check must fail"; fi
LD_PRELOAD="$LIBRARY" ./preloaded
check_self "$musl_cc" -O2 -pthread -o linked "$CASES/programs/self_check.c" "$LIBRARY" \
    -Wl,-rpath,"$(dirname "$LIBRARY")"
./linked
