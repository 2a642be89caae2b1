#!/bin/bash
# tools/roots.sh SUITE...: makes roots of bookworm (Debian 12), trixie (Debian 13) and noble (Ubuntu 24.04) for the tests of the
# packages: what a small machine has, with Python. SUITE-build also has what a build needs.
#
# For aarch64 packages are unpacked only, and nothing of them is run. SUITE-build-aarch64 has the libraries that a build on another
# processor links, and a database of dpkg's with their names. SUITE-guest-aarch64-NUMBER has a kernel, and the packages that
# GUEST_PACKAGES names, separated by commas, whose checksum is the number.
#
# Each is made once from its distribution's archive, whose keys must be on this machine: on Debian 12 those of Ubuntu are not.
# It is kept as a file (CALLGATE_ROOTS, else /var/cache; only root can write there). A root that cannot be had is named, its
# tests are skipped, and the exit status is 1 then.
set -euo pipefail
cache=${CALLGATE_ROOTS:-/var/cache}/callgate-test-roots
if [ "${1:-}" = --where ]; then echo "$cache"; exit 0; fi
cd "$(dirname "$0")/.."
. tools/packages.sh
umask 022
mkdir -p "$cache" || exit 1

# What `list_packages` writes is as dpkg would write it: dpkg-query then knows the package of each file.
list_packages='set -e
    admin=$1/var/lib/dpkg
    mkdir -p "$admin/info"
    echo 1 >"$admin/info/format"
    for archive in "$1"/var/cache/apt/archives/*.deb; do
        name=$(dpkg-deb -f "$archive" Package)
        [ "$(dpkg-deb -f "$archive" Multi-Arch)" != same ] || name=$name:$(dpkg-deb -f "$archive" Architecture)
        dpkg-deb --fsys-tarfile "$archive" | tar -t | sed "s#^\.##; s#/\$##; s#^\$#/.#" >"$admin/info/$name.list"
        dpkg-deb -f "$archive" | sed "1a Status: install ok installed" >>"$admin/status"
        echo >>"$admin/status"
    done'

# needs SUITE: what a build there needs, separated by commas.
needs() {
    case $1 in
        bookworm) choose_distribution debian 12 ;;
        trixie) choose_distribution debian 13 ;;
        noble) choose_distribution ubuntu 24.04 ;;
    esac
    for entry in $packages_build; do echo "${entry%%=*}"; done | paste -sd,
}

result=0
for name in "$@"; do
    began=$SECONDS
    [ ! -e "$cache/$name.tar" ] || continue
    suite=${name%%-*}
    options=(--variant=minbase --components=main --include=apt,python3-venv)
    [ $suite != noble ] || options+=(--components=main,universe)  # python3-venv is there
    case $name in
        *-build) options+=(--include="git,$(needs $suite)") ;;
        *-build-aarch64)
            libraries=$(needs $suite | tr , '\n' | grep -E -- '-dev$|^publicsuffix$' | paste -sd,)
            options=(--variant=extract --architectures=arm64 --include="libc6-dev,$libraries" --extract-hook="$list_packages") ;;
        *-guest-aarch64-*) options=(--variant=extract --architectures=arm64 --include="linux-image-cloud-arm64,$GUEST_PACKAGES") ;;
    esac
    if [ "$(id -u)" = 0 ] || [[ $name == *-aarch64* ]] &&
        mmdebstrap --quiet "${options[@]}" "$suite" "$cache/$name.part.tar" </dev/null >&2; then
        mv "$cache/$name.part.tar" "$cache/$name.tar"
        echo "dev: made for the tests: a root of $name ($((SECONDS - began)) s)" >&2
    else
        rm -f "$cache/$name.part.tar"
        echo "dev: cannot be made: a root of $name" >&2
        [ "$(id -u)" = 0 ] || echo 'dev: roots that are run are made by root only' >&2
        result=1
    fi
done
exit $result
