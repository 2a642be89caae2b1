# A server on 127.0.0.1:$1 and on a socket file, saved, restarted with its data, and a benchmark through it.
set -eu
serve() {
    redis-server --port "$1" --bind 127.0.0.1 --unixsocket "$PWD/redis.sock" --dir "$PWD" --save '' --logfile server.log "${@:2}" &
    server=$!
    until redis-cli -p "$1" ping >/dev/null 2>&1; do
        kill -0 "$server" || { cat server.log; exit 1; }
        sleep 0.02
    done
}
serve "$1"
redis-cli -p "$1" set word value
redis-cli -s redis.sock append word s
redis-benchmark -p "$1" -n 400 -c 8 -P 4 -t set,get,lpush,lrange_100 --csv 2>/dev/null | cut -d, -f1
redis-benchmark -s redis.sock -n 200 -c 4 -t ping_inline --csv 2>/dev/null | cut -d, -f1
redis-cli -p "$1" save
redis-cli -p "$1" bgrewriteaof >/dev/null
# Only when the child has written the file does the server write its manifest.
until [ -e appendonlydir/appendonly.aof.manifest ]; do kill -0 "$server"; sleep 0.02; done
redis-cli -p "$1" shutdown nosave || true
wait "$server"
serve "$1" --appendonly no
redis-cli -p "$1" get word
redis-cli -p "$1" shutdown nosave || true
wait "$server"
ls redis.sock 2>/dev/null || echo 'socket gone'
