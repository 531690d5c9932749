# SPDX-License-Identifier: MIT
# Redis's own tests of its types and of its memory, with Mallow in the place of the jemalloc that it brings along: what
# Redis calls slow is left out, and of active defragmentation all but the test that a busy machine does not upset
# (docs/experiments.md). All of them: make test-redis, and the target soak.
# kind: direct
# needs: cmake make cc tclsh timeout
# timeout: 1800
. "$CASES/lib.sh"

folder=${MALLOW_REDIS:-$ROOT/build/redis}
status=0
programs=$("$CASES/redis/build" "$folder") || status=$?
[ "$status" != 77 ] || skip "$programs"
[ "$status" = 0 ] || fail "Redis was not built"

# passes OPTIONS UNIT ...: in the foreground, so that what a limit leaves behind goes with this case.
passes() {
    options=$1
    shift
    REDIS_OPTIONS="$options" timeout --foreground 400 "$CASES/redis/run-suite" "$folder" "$@" >suite.log 2>&1 ||
        { echo "status $?" >>suite.log && return 1; }
    grep -q 'All tests passed without errors' suite.log
}

# suite OPTIONS UNIT ...: twice if it fails, for some of the tests look at how chance is spread, and at times.
suite() {
    passes "$@" && return
    passes "$@" || fail "$*: $(tail -n 40 suite.log)"
    echo "flaky: redis_suite failed, and passed when it was repeated" >&2
}

suite '--tags -slow' unit/type/string unit/type/incr unit/type/list unit/type/set unit/type/zset unit/type/hash \
    unit/type/stream unit/type/stream-cgroups
suite '--no-latency --config slowlog-log-slower-than -1 --only /efficiency --only /edge.case' unit/memefficiency
