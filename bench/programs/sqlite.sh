# SPDX-License-Identifier: MIT
# sqlite3 with a database in memory: rows, an index, groups, full-text, deletion.
# needs: sqlite3
# serves: sqlite3
. "$PROGRAMS/lib.sh"

prepare() {
    cat >work.sql <<'END'
create table t(id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into t select i, 'name ' || (i * 7919 % 100003), i * 1.5 from n;
create index by_name on t(name);
select count(distinct substr(name, 1, 8)) from t;
select count(*) from (select name, group_concat(id) from t group by name);
update t set name = name || ' changed' where id % 3 = 0;
delete from t where id % 5 < 3;
create table u as select a.id, b.name from t a join t b on b.id = a.id + 1 order by b.name desc;
select count(*), sum(length(name)) from u;
vacuum;
END
}

run() {
    under sqlite3 :memory: <work.sql >out
}

"$1"
