# A script as people write them: modules of its own, threads, processes, a pool, sub-programs, temporary files.
set -eu
python3 main.py
