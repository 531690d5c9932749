# SPDX-License-Identifier: MIT
# redis-server on a Unix socket under redis-benchmark (which is not served by the allocator): small
# values, large values, sets, lists, expiry. The time is that of the load, the memory the server's.
# needs: redis-server redis-cli redis-benchmark
# serves: redis-
. "$PROGRAMS/lib.sh"

# Debian's server is linked with jemalloc.
C_LIBRARY=libc.so.6

prepare() { :; }

load() {
    redis-benchmark -s "$WORK/socket" -c 20 -P 16 -q "$@" >>load.log
}

run() {
    under redis-server --port 0 --unixsocket "$WORK/socket" --dir "$WORK" --save '' \
        >server.log 2>&1 &
    server=$!
    wait_for 10 redis-cli -s "$WORK/socket" ping
    start=$(now)
    load -n 150000 -r 30000 -d 64 -t set,get,sadd,hset
    load -n 60000 -r 3000 -d 700 -t set,lpush,lpop
    load -n 20000 -r 3000 -d 20 -t zadd,lrange_100
    seconds "$start" "$(now)"
    redis-cli -s "$WORK/socket" shutdown nosave
    wait $server
}

"$1"
