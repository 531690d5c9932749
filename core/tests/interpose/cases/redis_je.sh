# SPDX-License-Identifier: MIT
# Redis built with Mallow in the place of the jemalloc that it brings along: what it says of its memory
# adds up, active defragmentation, which asks je_get_defrag_hint, gives pages back, and the data survive it.
# kind: direct
# needs: cmake make cc
# timeout: 900
. "$CASES/lib.sh"

status=0
programs=$("$CASES/redis/build" "${MALLOW_REDIS:-$ROOT/build/redis}") || status=$?
[ "$status" != 77 ] || skip "$programs"
[ "$status" = 0 ] || fail "Redis was not built"

"$programs/redis-server" --port 0 --unixsocket "$WORK/socket" --dir "$WORK" --save '' \
    --enable-debug-command yes >server.log 2>&1 &
server=$!
wait_for 10 "$programs/redis-cli" -s "$WORK/socket" ping

ask() {
    "$programs/redis-cli" -s "$WORK/socket" "$@"
}

# field NAME: of INFO.
field() {
    ask info | tr -d '\r' | sed -n "s/^$1://p"
}

[ "$(field mem_allocator)" = jemalloc-5.3.0 ] || fail "not built with jemalloc's interface"
ask debug mallctl-str version | grep -q mallow || fail "the jemalloc is not Mallow"
[ "$(ask debug mallctl arenas.quantum)" = 16 ] || fail "arenas.quantum"

# Many keys of a few sizes, of which every tenth stays: slabs with holes.
ask eval "
for i = 1, 200000 do redis.call('set', 'k:' .. i, string.rep('x', i % 7 * 40 + 30)) end
for i = 1, 200000 do if i % 10 ~= 0 then redis.call('del', 'k:' .. i) end end
for i = 1, 300 do redis.call('hset', 'h:' .. i % 30, 'f' .. i, string.rep('v', 100)) end
return redis.call('dbsize')" 0
digest=$(ask debug digest)
sleep 0.3 # INFO's figures are read ten times a second
allocated=$(field allocator_allocated)
active=$(field allocator_active)
resident=$(field allocator_resident)
[ "$allocated" -gt 4000000 ] && [ "$active" -gt "$allocated" ] && [ "$resident" -gt "$active" ] ||
    fail "allocated $allocated, active $active, resident $resident"
[ "$active" -gt $((allocated * 4)) ] || fail "nothing to defragment: $allocated of $active"

# Resident when all that is free has gone back to the kernel: what is left are the pages that have data on them.
purged_rss() {
    [ "$(ask memory purge)" = OK ] || fail "memory purge"
    awk '$1 == "VmRSS:" { print $2 * 1024 }' "/proc/$server/status"
}
before=$(purged_rss)

ask config set active-defrag-ignore-bytes 1mb
ask config set active-defrag-threshold-lower 10
ask config set active-defrag-cycle-min 50
ask config set active-defrag-cycle-max 75
ask config set activedefrag yes
is_dense() {
    [ "$(field allocator_active)" -lt $((active / 2)) ]
}
wait_for 60 is_dense
[ "$(field active_defrag_hits)" -gt 10000 ] || fail "nothing was moved"
ask config set activedefrag no
[ "$(ask debug digest)" = "$digest" ] || fail "the data changed"

# The data lie on fewer pages: at least half of the holes are gone.
after=$(purged_rss)
[ "$after" -lt $((before - (active - allocated) / 2)) ] ||
    fail "RSS $before, $after after defragmentation; $allocated of $active were data"
ask memory malloc-stats | grep -q 'End jemalloc statistics' || fail "memory malloc-stats"
ask memory stats | grep -q allocator.resident || fail "memory stats"
echo "active $active -> $(field allocator_active), RSS $before -> $after"
ask shutdown nosave || true
wait $server || fail "the server ended with status $?: $(tail -n 20 server.log)"
