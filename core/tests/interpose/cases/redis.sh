# SPDX-License-Identifier: MIT
# redis-server under load from redis-benchmark, then a known data set, a background save (fork) and
# a reload: the digest of the data must be the same.
# needs: redis-server redis-cli redis-benchmark
# serves: redis-
# modes: fast secure debug
. "$CASES/lib.sh"

start_server() {
    under redis-server --port 0 --unixsocket "$WORK/socket" --dir "$WORK" --save '' \
        --dbfilename dump.rdb --enable-debug-command yes --lazyfree-lazy-user-del yes \
        --io-threads 2 >server.log 2>&1 &
    server=$!
    wait_for 10 redis-cli -s "$WORK/socket" ping
}

ask() {
    redis-cli -s "$WORK/socket" "$@"
}

start_server
# The rates differ from run to run; that each test ended is the result.
under redis-benchmark -s "$WORK/socket" -n 20000 -c 20 -r 5000 -d 300 -P 8 --threads 2 --csv \
    -t set,get,incr,lpush,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset | cut -d, -f1
ask flushall
ask eval "
for i = 1, 20000 do
    redis.call('set', 'text:' .. i, string.rep(tostring(i), i % 50 + 1))
    redis.call('hset', 'hash:' .. i % 300, 'f' .. i, string.rep('v', i % 90))
    redis.call('zadd', 'rank:' .. i % 20, i * 7919 % 1009, 'member' .. i)
    redis.call('rpush', 'list:' .. i % 11, i)
    if i % 3 == 0 then redis.call('del', 'text:' .. i - 1) end
    if i % 5 == 0 then redis.call('append', 'big', string.rep('abc', 40)) end
end
return redis.call('dbsize')" 0
before=$(ask debug digest)
echo "$before"
ask bgsave
wait_for 20 sh -c "redis-cli -s '$WORK/socket' info persistence | grep -q rdb_bgsave_in_progress:0"
ask info persistence | grep -o 'rdb_last_bgsave_status:[a-z]*'
ask shutdown nosave || true
wait $server || fail "the server ended with status $?: $(tail -n 20 server.log)"

start_server
[ "$(ask debug digest)" = "$before" ] || fail "the reloaded data differ"
ask memory purge
ask shutdown nosave || true
wait $server || fail "the server ended with status $?: $(tail -n 20 server.log)"
