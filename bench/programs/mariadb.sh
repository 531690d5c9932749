# SPDX-License-Identifier: MIT
# MariaDB on a Unix socket under mariadb-slap (which is not served by the allocator): look-ups and
# updates from four clients, each a thread of the server, then sorts, groups and JSON. The time is that
# of the load, the memory the server's.
# needs: mariadb mariadb-slap mariadb-admin mariadb-install-db
# serves: mariadbd
. "$PROGRAMS/lib.sh"

# Where Debian has the server.
PATH=$PATH:/usr/sbin
command -v mariadbd >/dev/null || skip "no mariadbd here"

server() {
    "$@" mariadbd --no-defaults --user="$(id -un)" --datadir="$WORK/data" --socket="$WORK/socket" \
        --pid-file="$WORK/pid" --skip-networking --skip-grant-tables --innodb-buffer-pool-size=16M \
        --innodb-log-file-size=8M --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 \
        --innodb-use-native-aio=0 --performance-schema=OFF >server.log 2>&1 &
    server=$!
    # It must not outlive a script that fails.
    trap 'kill "$(cat pid)"' EXIT
    wait_for 30 mariadb-admin --no-defaults -S "$WORK/socket" ping
}

stop() {
    mariadb-admin --no-defaults -S "$WORK/socket" shutdown
    wait $server
    trap - EXIT
}

ask() {
    mariadb --no-defaults -S "$WORK/socket" -N -B -e "$1" shop
}

load() {
    mariadb-slap --no-defaults -S "$WORK/socket" --create-schema=shop --no-drop --delimiter=';' \
        --silent "$@" >>load.log 2>&1
}

prepare() {
    rm -rf data
    mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$WORK/data" \
        --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1 ||
        { tail -1 install.log; exit 1; }
    server env
    mariadb --no-defaults -S "$WORK/socket" -e 'create database shop'
    ask "create table account (id int primary key, balance int not null, filler varchar(200)) engine=innodb;
        insert into account select seq, 0, repeat(md5(seq), 1 + seq % 5) from seq_1_to_20000"
    stop
    for i in $(seq 50); do
        echo "select balance, filler from account where id = $((i * 397 % 20000 + 1));"
        echo "select count(*), sum(length(filler)) from account
            where id between $((i * 300)) and $((i * 300 + 90));"
        echo "update account set balance = balance + 1 where id = $((i * 211 % 20000 + 1));"
    done >small.sql
    cat >large.sql <<'END'
select count(*) from (select distinct filler from account order by reverse(filler)) t;
select length(group_concat(filler order by filler desc)) from account where id < 4000 group by id % 7;
select count(*) from (select json_object('id', id, 'v', json_array(balance, filler)) j
    from account where id < 8000) t where json_value(j, '$.v[1]') like '%9%';
END
}

run() {
    server under
    before=$(ask 'select sum(balance) from account')
    start=$(now)
    load --concurrency=4 --iterations=1 --number-of-queries=12000 --query=small.sql
    load --concurrency=2 --iterations=1 --number-of-queries=12 --query=large.sql
    seconds "$start" "$(now)"
    # A third of the statements add one.
    after=$(ask 'select sum(balance) from account')
    stop
    [ $((after - before)) = 4000 ] || { echo "$((after - before)) updates of 4000" >&2; exit 1; }
}

"$1"
