#!/bin/bash
# tools/package.sh [KIND]...: packages of the program in build/, into build/package/: wheel, npm, deb, tar. When none is named,
# it makes all, and beside them a bill of materials and SHA256SUMS. CALLGATE_BUILD_DIRECTORY names another build.
#
# Each holds the static program, the manual pages, completions and the licence. Tar and deb also hold callgate-tls: they install
# services. The same build makes the same bytes: all times are SOURCE_DATE_EPOCH, by default the time of the last commit. CALLGATE_PACKAGES names another directory, absolute.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
kinds=("$@")
[ $# -gt 0 ] || kinds=(wheel npm deb tar)
for kind in "${kinds[@]}"; do
    case $kind in
        tar | wheel | npm | deb) ;;
        *) echo "tools/package.sh: unknown package $kind; known: wheel, npm, deb, tar" >&2 && exit 1 ;;
    esac
done
build=${CALLGATE_BUILD_DIRECTORY:-build}
place=${CALLGATE_PACKAGES:-$PWD/$build/package}
stage=$place/stage
version=$(sed -n 's/^project(callgate VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
machine=$(tools/machine.sh "$build/callgate")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}
export LC_ALL=C TZ=UTC
rm -rf "$place"
mkdir -p "$place"
summary='run a program that you do not trust, under rules'

# staged PREFIX [COMPONENT]...: installs what users need into the stage, and these components.
staged() {
    local component prefix=$1
    shift
    rm -rf "$stage"
    for component in runtime "$@"; do
        cmake --install "$build" --component "$component" --prefix "$stage$prefix" >/dev/null
    done
}

make_tar() {
    local name=callgate-$version-linux-$machine
    staged "/$name" tls
    tar -C "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        -cf - "$name" | gzip -9n >"$place/$name.tar.gz"
}

make_wheel() {
    cp "$(CALLGATE_WHEELS=$stage tools/wheel.sh "$build/callgate")" "$place/"
}

# npm sets all times of a package itself, and makes no difference between two runs.
make_npm() {
    local cpu=$machine pages
    [ "$machine" != x86_64 ] || cpu=x64
    [ "$machine" != aarch64 ] || cpu=arm64
    staged /package
    rm -r "$stage/package/share/doc"
    cp LICENSE README.md "$stage/package/"
    pages=$(cd "$stage/package" && printf '"./%s",' share/man/man?/*)
    cat >"$stage/package/package.json" <<TEXT
{
  "name": "callgate",
  "version": "$version",
  "description": "$summary",
  "license": "Apache-2.0",
  "os": ["linux"],
  "cpu": ["$cpu"],
  "bin": {"callgate": "bin/callgate"},
  "files": ["bin", "share"],
  "man": [${pages%,}]
}
TEXT
    (cd "$stage/package" && npm pack --silent --offline --pack-destination "$place" >/dev/null </dev/null)
}

# The deb is made by dpkg-deb, without CPack: so all times and owners are fixed, and there is less to write.
make_deb() {
    local architecture doc=$stage/usr/share/doc/callgate date
    architecture=$machine
    [ "$machine" != x86_64 ] || architecture=amd64
    [ "$machine" != aarch64 ] || architecture=arm64
    date=$(date -u -R -d "@$SOURCE_DATE_EPOCH")
    staged /usr tls
    mkdir -p "$stage/DEBIAN" "$stage/usr/share/lintian/overrides"
    mv "$stage/usr/share/zsh/site-functions" "$stage/usr/share/zsh/vendor-completions"
    rm "$doc/LICENSE"  # Debian has this licence in one place
    gzip -9n "$doc"/CHANGELOG.md
    gzip -9n >"$doc/changelog.gz" <<TEXT
callgate ($version) unstable; urgency=medium

  * What has changed is in the upstream changelog beside this file.

 -- $maintainer  $date
TEXT
    cat >"$doc/copyright" <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: callgate

Files: *
Copyright: 2026 The callgate contributors
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
TEXT
    cat >"$stage/usr/share/lintian/overrides/callgate" <<TEXT
# The programs must run beside any C library, also that of a container, and have nothing to load at their start.
callgate: statically-linked-binary [usr/bin/callgate]
$([ ! -e "$stage/usr/bin/callgate-tls" ] || echo 'callgate: statically-linked-binary [usr/bin/callgate-tls]')
# They hold libsodium, c-ares, OpenSSL and the rest for the same reason. The bill of materials names their versions.
callgate: embedded-library *
TEXT
    sed -i '/^$/d' "$stage/usr/share/lintian/overrides/callgate"
    cat >"$stage/DEBIAN/control" <<TEXT
Package: callgate
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: utils
Priority: optional
Installed-Size: $(du -sk --apparent-size "$stage/usr" | cut -f1)
Description: $summary
 callgate is a sandbox for untrusted code, such as that of AI agents. Calls
 that the rules leave open wait in the kernel until they are decided, and
 each decision is recorded first. It needs neither root nor a container.
TEXT
    (cd "$stage" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$stage" "$place/callgate_${version}_$architecture.deb" >/dev/null
}
maintainer='callgate maintainers <maintainers@callgate.invalid>'

for kind in "${kinds[@]}"; do
    "make_$kind"
done
rm -rf "$stage"
if [ $# -eq 0 ]; then
    tools/sbom.py "$build" "$version" >"$place/callgate-$version.cdx.json"
    (cd "$place" && sha256sum -- * >SHA256SUMS)
fi
ls "$place"/*
