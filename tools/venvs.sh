#!/bin/bash
# tools/venvs.sh NAME...: makes the virtual environments of the frameworks that the Python package has adapters for.
#
# One for each file of tests/python/requirements, made once and kept (CALLGATE_VENVS, else /var/cache for root, whose
# own cache others cannot read, else the user's cache); a changed file makes it anew. With pip's own settings. What
# cannot be installed is said by name, and its tests are skipped; the exit status is 1 then. A file may say "# python 3.12"
# (the oldest one that the framework takes) and "# no dependencies".
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" = 0 ]; then cache=/var/cache; else cache=${XDG_CACHE_HOME:-$HOME/.cache}; fi
cache=${CALLGATE_VENVS:-$cache/callgate-test-venvs}
if [ "${1:-}" = --where ]; then echo "$cache"; exit 0; fi
umask 022
mkdir -p "$cache"

# new_enough VERSION: the distribution's Python, or another one that is at least of this version.
new_enough() {
    local one
    for one in /usr/bin/python3 python3.14 python3.13 python3.12; do
        if "$one" -c "import sys; sys.exit(sys.version_info < tuple(map(int, '${1:-3}'.split('.'))))" 2>/dev/null; then
            echo "$one"
            return 0
        fi
    done
    return 1
}

make() {
    local name=$1 place=$cache/$1 wanted=tests/python/requirements/$1.txt began=$SECONDS python more=()
    if cmp -s "$wanted" "$place/installed.txt"; then return 0; fi
    rm -rf "$place"
    ! grep -q '^# no dependencies' "$wanted" || more=(--no-deps)
    python=$(new_enough "$(sed -n 's/^# python //p' "$wanted")") || {
        echo "dev: not installed: $name (no Python here is new enough for it)" >&2
        return 0
    }
    if "$python" -m venv "$place" && "$place/bin/pip" install --quiet --disable-pip-version-check --no-input "${more[@]}" \
        -r "$wanted" </dev/null >&2; then
        cp "$wanted" "$place/installed.txt"
        echo "dev: installed for the tests: $name ($((SECONDS - began)) s)" >&2
        return 0
    fi
    echo "dev: cannot be installed: $name" >&2
    return 1
}

# At most three at a time: much of it is waiting for the network.
result=0
for name in "$@"; do
    [ -f "tests/python/requirements/$name.txt" ] || {
        echo "dev: no such environment: $name; known: $(cd tests/python/requirements && ls | sed 's/\.txt//' | tr '\n' ' ')" >&2
        exit 1
    }
    while [ "$(jobs -pr | wc -l)" -ge 3 ]; do wait -n || result=1; done
    make "$name" &
done
while [ -n "$(jobs -p)" ]; do wait -n || { [ $? = 127 ] && break; result=1; }; done
exit $result
