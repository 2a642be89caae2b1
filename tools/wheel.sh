#!/bin/bash
# tools/wheel.sh BINARY [PYTHON]: makes build/wheel/callgate-VERSION-py3-none-PLATFORM.whl, and prints its path.
#
# The platform is the oldest C library whose symbols the program uses: pip then refuses the wheel where it could not
# run. Everything happens in copies, and nothing is fetched: setuptools and wheel are the distribution's.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(readlink -f "$1")
python=${2:-/usr/bin/python3}
place=build/wheel
rm -rf "$place" && mkdir -p "$place/source"
cp -r python/callgate python/pyproject.toml python/setup.py "$place/source/"
rm -rf "$place"/source/callgate/{__pycache__,_bin}
mkdir "$place/source/callgate/_bin"
strip -o "$place/source/callgate/_bin/callgate" "$binary"
chmod 755 "$place/source/callgate/_bin/callgate"
library=$(objdump -T "$binary" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
library=${library#GLIBC_}
CALLGATE_WHEEL_PLATFORM="manylinux_${library//./_}_$(uname -m)" "$python" -m pip wheel --quiet --no-deps --no-index \
    --no-build-isolation --disable-pip-version-check --wheel-dir "$place" "$place/source" </dev/null >&2
rm -rf "$place/source"
ls "$place"/callgate-*.whl
