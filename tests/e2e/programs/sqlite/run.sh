# A journal and a write-ahead log with its shared memory, two writers that wait for each other, a dump and a restore.
set -eu
sqlite3 one.db 'create table t(n integer primary key, word text); begin;' \
    'with recursive c(n) as (select 1 union all select n + 1 from c where n < 2000) insert into t select n, hex(n) from c;' \
    'commit; select count(*), sum(n) from t;'
sqlite3 one.db 'pragma journal_mode = wal'
insert() { for number in $(seq 20); do sqlite3 -cmd '.timeout 60000' one.db "insert into t(word) values('$1$number')"; done; }
insert a &
insert b &
wait
sqlite3 one.db 'select count(*) from t; create index by_word on t(word); vacuum; pragma integrity_check;'
sqlite3 one.db .dump >dump.sql
sqlite3 two.db <dump.sql
sqlite3 two.db 'select count(distinct word) from t' ".backup three.db"
sqlite3 one.db "attach 'three.db' as three; select count(*) from t join three.t using(word)"
sqlite3 missing/x.db 'select 1 from t' 2>&1 || echo "says $?"
