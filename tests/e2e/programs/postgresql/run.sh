# A cluster is made, started, written to by several, stopped, and read again; the server listens on a socket file only.
set -eu
export PATH="$1:$PATH" PGHOST="$PWD" PGDATABASE=postgres PGDATA="$PWD/data" LC_ALL=C.UTF-8
initdb --auth=trust --username=tester --no-instructions >made 2>&1 || { cat made; exit 1; }
export PGUSER=tester
start() { pg_ctl start --silent --wait --log="$PWD/log" -o "-c listen_addresses= -k '$PWD'" || { cat log; exit 1; }; }
start
psql -qAtX -v ON_ERROR_STOP=1 <<'SQL'
create table words(n serial primary key, word text unique, at timestamptz default now());
insert into words(word) select md5(n::text) from generate_series(1, 5000) n;
select count(*), min(word), max(word) from words;
create function twice(n int) returns int language plpgsql as $$ begin return 2 * n; end $$;
select twice(21);
copy (select n, word from words order by n limit 3) to stdout;
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select count(*) from words where word like '%a%';
SQL
for client in 1 2 3; do
    psql -qAtX -c "insert into words(word) select '$client-' || n from generate_series(1, 200) n" &
done
wait
psql -qAtX -c 'select count(*) from words' -c 'vacuum full analyze words' -c checkpoint
pg_dump --schema-only --table=words | grep -c '^CREATE'
psql -qAtX -c 'select 1/0' 2>&1 || echo "psql says $?"
pg_ctl stop --silent --mode=fast
start
psql -qAtX -c 'select count(*), sum(n) from words'
pg_ctl stop --silent --mode=smart
pg_ctl status || echo "pg_ctl says $?"
rm -r data log made
