# SPDX-License-Identifier: MIT
#
# Read by every case: . "$CASES/lib.sh". The runner sets CASES, ROOT, WORK (the current folder),
# MODE, LIBRARY, LIBRARY_STATIC, PRELOAD (empty in the plain run).

# under CMD ...: the program under test, preloaded or plain. In the background too: it execs.
under() {
    if [ -n "$PRELOAD" ]; then
        env LD_PRELOAD="$PRELOAD" "$@"
    else
        "$@"
    fi
}

skip() {
    echo "$*"
    exit 77
}

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# wait_for SECONDS CMD ...: until the command succeeds.
wait_for() {
    tries=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited in vain for: $*"
        sleep 0.1
    done
}

# The python3 in PATH, or the system's, whichever has Python's own tests.
python_with_tests() {
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import test.test_json' 2>/dev/null; then
            # A wrapper script would be what is preloaded, so ask for the program itself.
            "$python" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

# python_result MODULE[:PATTERN] ...: the outcome of each of Python's own tests.
python_result() {
    python=$(python_with_tests)
    [ -n "$python" ] || skip "no python3 with its test package here"
    export PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
    under "$python" "$CASES/programs/python_tests.py" "$@"
}

# check_self CC ARGUMENT ...: compiles a program that looks into Mallow by itself.
check_self() {
    "$@" -Wall -Werror -I"$ROOT/core/include"
}

need_static_library() {
    [ -n "$LIBRARY_STATIC" ] || skip "no static library beside $LIBRARY"
}

# musl_cc: the compiler for musl, which is the usual one on a musl system.
use_musl_cc() {
    if "$ROOT/tools/can" link musl-gcc; then
        musl_cc=musl-gcc
    elif ldd --version 2>&1 | grep -q musl; then
        musl_cc=cc
    else
        skip "no musl-gcc here that works"
    fi
}
