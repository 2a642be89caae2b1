# A wheel with a module in C is built from source without network, and used from where it was installed.
# The distribution's own Python: setuptools and wheel are its packages.
set -eu
export SOURCE_DATE_EPOCH=1000000000
python=/usr/bin/python3
$python -m pip wheel --quiet --no-index --no-build-isolation --no-deps --no-cache-dir --wheel-dir wheels .
$python -m zipfile -l wheels/counting-2.1-*.whl
$python -m pip install --quiet --no-index --no-deps --no-compile --target installed wheels/counting-2.1-*.whl
PYTHONPATH=installed $python -B installed/bin/counting 1 2 3
