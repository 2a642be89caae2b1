#!/bin/bash
# tools/install.sh install ARCHIVE [PREFIX]: unpacks what `tools/package.sh tar` made.
# tools/install.sh remove [PREFIX]: takes away all that it brought.
#
# PREFIX is /usr/local for root, else ~/.local. PREFIX/share/callgate/installed lists the files, and the directories that
# were made for them: removing leaves nothing behind, and nothing that was there before is lost.
set -euo pipefail
umask 022
verb=${1:-} archive=
if [ "$verb" = install ]; then
    [ $# -ge 2 ] || { echo 'usage: tools/install.sh install ARCHIVE [PREFIX]' >&2; exit 2; }
    archive=$2
    shift
fi
if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
prefix=$(realpath -m -- "${2:-$prefix}")
list=$prefix/share/callgate/installed

take_away() {
    local path
    tac "$list" | while IFS= read -r path; do
        if [ "${path%/}" = "$path" ]; then rm -f -- "$path"; else rmdir --ignore-fail-on-non-empty -- "$path"; fi
    done
}

# directory PATH: makes it and what is missing above, and notes what was made.
directory() {
    [ -d "$1" ] || { directory "$(dirname -- "$1")"; mkdir -- "$1"; made+=("$1/"); }
}

case $verb in
    install)
        [ ! -e "$list" ] || take_away
        made=()
        directory "$(dirname "$list")"
        # The first part of each name is the archive's own directory.
        while IFS= read -r name; do
            case $name in
                '') ;;
                */) directory "$prefix/${name%/}" ;;
                *) made+=("$prefix/$name") ;;
            esac
        done < <(tar -tzf "$archive" | cut -d/ -f2-)
        printf '%s\n' "${made[@]}" "$list" >"$list"
        tar -xzf "$archive" -C "$prefix" --strip-components=1 --no-same-owner --no-overwrite-dir
        echo "installed: $prefix/bin/callgate"
        case :$PATH: in *":$prefix/bin:"*) ;; *) echo "$prefix/bin is not in PATH: add it there" ;; esac
        ;;
    remove)
        [ -e "$list" ] || { echo "nothing is installed in $prefix: $list is missing" >&2; exit 1; }
        take_away
        echo "removed: $prefix/bin/callgate"
        ;;
    *) echo 'usage: tools/install.sh install ARCHIVE [PREFIX] | remove [PREFIX]' >&2; exit 2 ;;
esac
