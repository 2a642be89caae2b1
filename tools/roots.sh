#!/bin/bash
# tools/roots.sh SUITE...: makes roots of bookworm (Debian 12), trixie (Debian 13) and noble (Ubuntu 24.04) for the tests of the
# packages: what a small machine has, with Python. Only root can make and use them. trixie-build also has what a build needs.
#
# Each is made once from its distribution's archive, whose keys must be on this machine: on Debian 12 those of Ubuntu are not.
# It is kept as a file (CALLGATE_ROOTS, else /var/cache). A root that cannot be had is named, its tests are skipped, and the
# exit status is 1 then.
set -euo pipefail
cache=${CALLGATE_ROOTS:-/var/cache}/callgate-test-roots
if [ "${1:-}" = --where ]; then echo "$cache"; exit 0; fi
[ "$(id -u)" = 0 ] || { echo 'dev: roots for the tests of packages are made by root only' >&2; exit 1; }
cd "$(dirname "$0")/.."
umask 022
mkdir -p "$cache"
result=0
for suite in "$@"; do
    began=$SECONDS
    [ ! -e "$cache/$suite.tar" ] || continue
    components=main
    [ "$suite" != noble ] || components=main,universe  # python3-venv is there
    include=apt,python3-venv
    if [ "$suite" = trixie-build ]; then
        include+=,git,$(. tools/packages.sh; choose_distribution debian 13
            for entry in $packages_build; do echo "${entry%%=*}"; done | paste -sd,)
    fi
    if mmdebstrap --quiet --components="$components" --variant=minbase --include="$include" "${suite%-build}" "$cache/$suite.part.tar" </dev/null >&2; then
        mv "$cache/$suite.part.tar" "$cache/$suite.tar"
        echo "dev: made for the tests: a root of $suite ($((SECONDS - began)) s)" >&2
    else
        rm -f "$cache/$suite.part.tar"
        echo "dev: cannot be made: a root of $suite" >&2
        result=1
    fi
done
exit $result
