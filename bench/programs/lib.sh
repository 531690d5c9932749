# SPDX-License-Identifier: MIT
# What the programs share. A program is a script with two functions: `prepare` makes its input in the
# current folder, once a run of the suite; `run` is what is measured, and starts what is to be served
# by the allocator with `under`. Where the measured part is less than the whole of `run`, it says
# `seconds FROM TO` with two values of `now`.
set -eu

# PRELOAD is empty for the C library's own. C_LIBRARY then puts it before an allocator that the
# program is linked with.
under() {
    if [ -n "$PRELOAD" ]; then
        env LD_PRELOAD="$WITNESS:$PRELOAD" "$@"
    else
        env LD_PRELOAD="$WITNESS${C_LIBRARY:+:$C_LIBRARY}" "$@"
    fi
}

now() {
    date +%s.%N
}

seconds() {
    awk "BEGIN { printf \"time %.4f\\n\", $2 - $1 }"
}

skip() {
    echo "skip $*"
    exit 77
}

# wait_for SECONDS COMMAND ...: until it succeeds.
wait_for() {
    tries=$(($1 * 50))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "gave up waiting for: $*" >&2; exit 1; }
        sleep 0.02
    done
}

system_python() {
    [ -x /usr/bin/python3 ] && echo /usr/bin/python3 || command -v python3
}
