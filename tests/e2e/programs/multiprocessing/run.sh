# Python's pools and what its processes share.
set -eu
python3 main.py
