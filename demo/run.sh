#!/bin/bash
# demo/run.sh CALLGATE: one supervised Python program from start to end, in a home made for the purpose.
#
# The program works in its directory, then tries a planted key and a loopback server. It is run bare first: so the two
# denials are seen to be callgate's doing. Exits 1 where the run did not go as described.
set -euo pipefail
callgate=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")

place=$(mktemp -d "${TMPDIR:-/tmp}/callgate-demo.XXXXXX")
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$place"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

home=$place/home work=$place/home/project
mkdir -p "$home/.ssh" "$work" "$place/site"
printf '%s\n' '-----BEGIN OPENSSH PRIVATE KEY-----' 'planted by the demonstration, opens nothing' \
    '-----END OPENSSH PRIVATE KEY-----' >"$home/.ssh/id_ed25519"
chmod 700 "$home/.ssh"; chmod 600 "$home/.ssh/id_ed25519"
cp "$here/main.py" "$work/"
printf 'run,milliseconds\n' >"$work/measurements.csv"
for n in 1 2 3 4 5 6 7 8; do echo "$n,$((n * n)).5" >>"$work/measurements.csv"; done

exec 3< <(exec /usr/bin/python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$place/site" 2>"$place/requests.log")
server=$!
read -r line <&3
port=$(sed -nE 's/.* port ([0-9]+) .*/\1/p' <<<"$line")

step() { printf '\n== %s\n' "$*"; }
command=(/usr/bin/python3 main.py "$port")
cd "$work"
export HOME=$home
unset XDG_STATE_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR "${!CALLGATE_@}"

step "bare: ${command[*]}"
"${command[@]}" | tee "$place/bare.out"
requests=$(grep -c GET "$place/requests.log" || true)
echo "(the server saw $requests request)"

step "supervised: callgate run -- ${command[*]}"
status=0
"$callgate" run -- "${command[@]}" >"$place/run.out" 2>"$place/run.err" </dev/null || status=$?
cat "$place/run.out" "$place/run.err"
echo "(exit status $status; the server saw $(($(grep -c GET "$place/requests.log" || true) - requests)) requests)"

step "the record: callgate audit show"
shown=0
"$callgate" audit show >"$place/audit.out" 2>&1 || shown=$?
cat "$place/audit.out"

wrong() { printf '\ndemo: not as described: %s\n' "$*" >&2; exit 1; }
[ "$requests" = 1 ] && grep -q 'it read the key' "$place/bare.out" || wrong 'the bare run did not reach its two goals'
[ "$status" = 0 ] || wrong "callgate ended with $status"
grep -q 'the work is done' "$place/run.out" || wrong 'the program did not finish its work'
if grep -q 'it read the key' "$place/run.out"; then wrong 'the key was read'; fi
[ "$(grep -c GET "$place/requests.log")" = "$requests" ] || wrong 'the server was reached'
grep -q 'id_ed25519' "$place/run.err" || wrong 'the footer does not name the key'
grep -q -- "--connect.*127.0.0.1:$port" "$place/run.err" || wrong 'the footer has no option for the server'
[ "$shown" = 0 ] && grep -q 'id_ed25519' "$place/audit.out" && grep -q "127.0.0.1:$port" "$place/audit.out" ||
    wrong 'the audit log does not show both denials'
