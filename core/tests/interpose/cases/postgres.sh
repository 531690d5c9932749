# SPDX-License-Identifier: MIT
# PostgreSQL: initdb, a server on a Unix socket, pgbench, and what pgbench leaves must add up.
# serves: initdb postgres pgbench
# modes: fast secure debug
. "$CASES/lib.sh"

for folder in /usr/lib/postgresql/*/bin /usr/libexec/postgresql* /usr/bin; do
    [ -x "$folder/initdb" ] && [ -x "$folder/pgbench" ] && bin=$folder
done
[ -n "${bin:-}" ] || skip "no initdb and pgbench here"

# PostgreSQL refuses to run as root.
if [ "$(id -u)" = 0 ]; then
    id postgres >/dev/null 2>&1 || skip "root here, and there is no user postgres"
    command -v setpriv >/dev/null || skip "no setpriv here"
    chown postgres .
    as_user() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
else
    as_user() { "$@"; }
fi

preloaded() {
    as_user env HOME="$WORK" ${PRELOAD:+LD_PRELOAD="$PRELOAD"} "$@"
}

ask() {
    preloaded "$bin/psql" -X -A -t -h "$WORK" -p 5999 -U owner -d postgres -c "$1"
}

preloaded "$bin/initdb" -D "$WORK/data" -U owner --locale=C -E UTF8 -N >initdb.log
# Under env the preload reaches postgres itself and each of its children.
preloaded "$bin/postgres" -D "$WORK/data" -k "$WORK" -p 5999 -h '' -c fsync=off \
    -c shared_buffers=16MB -c max_parallel_workers_per_gather=2 >server.log 2>&1 &
server=$!
wait_for 20 as_user "$bin/pg_isready" -h "$WORK" -p 5999
preloaded "$bin/pgbench" -h "$WORK" -p 5999 -U owner -i -s 2 -q postgres 2>init.log
preloaded "$bin/pgbench" -h "$WORK" -p 5999 -U owner -c 4 -j 2 -t 300 postgres 2>&1 |
    grep 'transactions actually processed\|failed'
ask "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
            (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history),
            (select count(*) from pgbench_history), (select count(*) from pgbench_accounts)"
ask "select md5(string_agg(v, ',' order by v)), count(distinct length(v)) from
     (select repeat(md5(i::text), i % 20) || i as v from generate_series(1, 60000) i) t"
ask "select sum(a.aid::bigint * b.bid) from pgbench_accounts a join pgbench_branches b using (bid)"
ask "vacuum full analyze"
as_user "$bin/pg_ctl" stop -s -w -m fast -D "$WORK/data"
wait $server || fail "the server ended with status $?: $(tail -n 20 server.log)"
