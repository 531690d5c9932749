# SPDX-License-Identifier: MIT
# MariaDB: it asks the allocator that it finds for mallctl's "version" and names it in version_malloc_library;
# tables, threads and temporary results must come out the same.
# needs: mariadbd mariadb-install-db mariadb
# serves: mariadbd
# timeout: 180
# modes: fast secure debug
. "$CASES/lib.sh"

# As root it runs as a user of its own.
user=$(id -un)
if [ "$user" = root ]; then
    user=mysql
    id mysql >/dev/null 2>&1 || skip "root here, and there is no user mysql"
    chown mysql .
fi

mariadb-install-db --no-defaults --user="$user" --datadir="$WORK/data" --auth-root-authentication-method=normal \
    --skip-test-db >install.log 2>&1 || fail "mariadb-install-db: $(tail -n 5 install.log)"
under mariadbd --no-defaults --user="$user" --datadir="$WORK/data" --socket="$WORK/socket" --skip-networking \
    --pid-file="$WORK/pid" --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=0 \
    --secure-file-priv= >server.log 2>&1 &
server=$!
ask() {
    mariadb --no-defaults -S "$WORK/socket" -N -B "$@"
}
wait_for 60 ask -e 'select 1'

malloc=$(ask -e 'select @@version_malloc_library')
if [ -n "$PRELOAD" ]; then
    case $malloc in
    "jemalloc "*mallow*) ;;
    *) fail "version_malloc_library is '$malloc'" ;;
    esac
fi

ask -e "
create database work; use work;
create table item (id int primary key, word varchar(400), number int, key (number)) engine=innodb;
insert into item select seq, repeat(md5(seq), seq % 12), seq * 7919 % 1009 from seq_1_to_40000;
create table note (id int auto_increment primary key, item int, text text) engine=aria;
insert into note (item, text) select id, concat(word, word) from item where number < 200;
update item set word = concat(word, 'x') where number % 3 = 0;
delete from item where number % 7 = 0;
select count(*), sum(length(word)), sum(number) from item;
select number, count(*), max(length(word)) from item group by number order by number limit 5;
select md5(group_concat(word order by id separator '')) from item where id < 2000;
select count(*), sum(length(text)) from note join item on note.item = item.id;"
for i in 1 2 3 4 5 6 7 8; do
    ask work -e "select sum(length(a.word) + length(b.word)) from item a join item b on a.number = b.number
                 where a.id % 8 = $i - 1 and b.id < 4000" >"part.$i" &
    parts="${parts:-} $!"
done
for part in $parts; do
    wait "$part" || fail "a query failed"
done
cat part.*
ask -e shutdown
wait $server || fail "the server ended with status $?: $(tail -n 20 server.log)"
