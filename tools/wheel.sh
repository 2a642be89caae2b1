#!/bin/bash
# tools/wheel.sh BINARY [PYTHON]: makes build/wheel/callgate-VERSION-py3-none-PLATFORM.whl, and prints its path.
#
# The program brings all that it needs, so any Linux of this architecture will do, with glibc or musl. One that was linked
# against the C library here (CALLGATE_STATIC=OFF) needs the oldest whose symbols it uses: pip then refuses the wheel where
# it could not run. Everything happens in copies, and nothing is fetched: setuptools and wheel are the distribution's.
# Manual pages and completions lie beside the program of a build, and go with it.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(readlink -f "$1")
python=${2:-/usr/bin/python3}
machine=$(tools/machine.sh "$binary")
place=${CALLGATE_WHEELS:-build/wheel}
rm -rf "$place" && mkdir -p "$place/source"
cp -r LICENSE python/callgate python/pyproject.toml python/setup.py "$place/source/"
rm -rf "$place"/source/callgate/{__pycache__,_bin}
mkdir "$place/source/callgate/_bin"
[ ! -d "$(dirname "$binary")/share" ] || cp -r "$(dirname "$binary")/share" "$place/source/share"
"$machine-linux-gnu-strip" -o "$place/source/callgate/_bin/callgate" "$binary"
chmod 755 "$place/source/callgate/_bin/callgate"
if objdump -p "$binary" | grep -q NEEDED; then
    library=$(objdump -T "$binary" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
    library=${library#GLIBC_}
    platform=manylinux_${library//./_}_$machine
else
    platform=manylinux_2_17_$machine.musllinux_1_1_$machine
fi
CALLGATE_WHEEL_PLATFORM=$platform "$python" -m pip wheel --quiet --no-deps --no-index \
    --no-build-isolation --disable-pip-version-check --wheel-dir "$place" "$place/source" </dev/null >&2
rm -rf "$place/source"
ls "$place"/callgate-*.whl
