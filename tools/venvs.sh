#!/bin/bash
# tools/venvs.sh NAME...: makes the virtual environments of the frameworks that the Python package has adapters for.
#
# One for each file of tests/python/requirements, made once and kept (CALLGATE_VENVS, else /var/cache for root, whose
# own cache others cannot read, else the user's cache); a changed file makes it anew. With pip's own settings. What
# cannot be installed is said by name, and its tests are skipped; the exit status is 1 then.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" = 0 ]; then cache=/var/cache; else cache=${XDG_CACHE_HOME:-$HOME/.cache}; fi
cache=${CALLGATE_VENVS:-$cache/callgate-test-venvs}
if [ "${1:-}" = --where ]; then echo "$cache"; exit 0; fi
umask 022
mkdir -p "$cache"
result=0
for name in "$@"; do
    wanted=tests/python/requirements/$name.txt
    [ -f "$wanted" ] || { echo "dev: no such environment: $name; known: $(cd tests/python/requirements && ls | sed 's/\.txt//' | tr '\n' ' ')" >&2; exit 1; }
    place=$cache/$name
    if cmp -s "$wanted" "$place/installed.txt"; then continue; fi
    began=$SECONDS
    rm -rf "$place"
    if /usr/bin/python3 -m venv "$place" && "$place/bin/pip" install --quiet --disable-pip-version-check --no-input \
        -r "$wanted" </dev/null >&2; then
        cp "$wanted" "$place/installed.txt"
        echo "dev: installed for the tests: $name ($((SECONDS - began)) s)" >&2
    else
        echo "dev: cannot be installed: $name" >&2
        result=1
    fi
done
exit $result
