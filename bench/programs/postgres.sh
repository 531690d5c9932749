# SPDX-License-Identifier: MIT
# PostgreSQL on a Unix socket under pgbench (which is not served by the allocator): look-ups from two
# clients, then sorts and aggregates. The time is that of the load, the memory that of all processes.
# needs: setpriv
# serves: postgres
. "$PROGRAMS/lib.sh"

bin=
for folder in /usr/lib/postgresql/*/bin /usr/libexec/postgresql* /usr/bin; do
    [ -x "$folder/initdb" ] && [ -x "$folder/pgbench" ] && bin=$folder
done
[ -n "$bin" ] || skip "no initdb and pgbench here"

# PostgreSQL refuses to run as root.
as_user() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$WORK" "$@"
    else
        "$@"
    fi
}

server() {
    "$@" "$bin/postgres" -D "$WORK/data" -k "$WORK" -p 5997 -h '' -c fsync=off \
        -c shared_buffers=16MB -c max_parallel_workers_per_gather=0 -c autovacuum=off \
        -c bgwriter_lru_maxpages=0 >server.log 2>&1 &
    server=$!
    wait_for 20 as_user "$bin/pg_isready" -h "$WORK" -p 5997
}

stop() {
    as_user "$bin/pg_ctl" stop -s -w -m fast -D "$WORK/data"
    wait $server || true
}

bench() {
    as_user "$bin/pgbench" -h "$WORK" -p 5997 -U owner "$@" postgres >load.log 2>&1
}

prepare() {
    [ "$(id -u)" != 0 ] || id postgres >/dev/null 2>&1 || skip "root here, and no user postgres"
    [ "$(id -u)" != 0 ] || chown postgres "$WORK"
    rm -rf data
    as_user "$bin/initdb" -D "$WORK/data" -U owner --locale=C -E UTF8 -N >initdb.log
    server as_user
    bench -i -s 2 -q
    stop
    cat >sorts.sql <<'END'
select count(*) from (select md5(string_agg(v, ',' order by v)) from
    (select i % 50 as g, repeat(md5(i::text), i % 5) || i as v from generate_series(1, 15000) i) t
    group by g) s;
select count(*) from (select json_build_object('k', aid, 'v', repeat(filler, 2))::text as j
    from pgbench_accounts where aid < 8000) t where j like '%9%';
END
}

run() {
    server under_user
    start=$(now)
    bench -n -S -c 2 -j 2 -t 2500
    bench -n -f sorts.sql -c 2 -j 2 -t 4
    seconds "$start" "$(now)"
    stop
}

under_user() {
    as_user env LD_PRELOAD="$WITNESS${PRELOAD:+:$PRELOAD}" "$@"
}

"$1"
