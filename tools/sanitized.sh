#!/bin/bash
# ./dev test asan|tsan FILE [pytest options]: one end-to-end file, with the program built with these sanitizers.
#
# The programs of the test are those of the plain build. A report fails, whichever process made it. A test that fails
# without one is mostly the sanitizer's own doing (docs/dev/testing.md).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 file=${2:-}
[ -e "tests/e2e/test_$file.py" ] || { echo "dev: test: no tests/e2e/test_$file.py" >&2; exit 1; }
shift 2
reports=$(mktemp -d /tmp/callgate-reports.XXXXXX)
chmod 1777 "$reports"
# A child that shares the memory has descriptors of its own, which the thread sanitizer takes for its maker's.
echo 'race:place_descriptors' >"$reports.suppressions"
chmod 644 "$reports.suppressions"
trap 'rm -f "$reports.suppressions"' EXIT
# callgate ends without joining its threads, and with its memory.
export ASAN_OPTIONS=detect_leaks=0:log_path=$reports/asan
export UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports/ubsan
export TSAN_OPTIONS=report_thread_leaks=0:exitcode=0:suppressions=$reports.suppressions:log_path=$reports/tsan
export CALLGATE=$PWD/build-$preset/callgate PROGRAMS=$PWD/build/programs CALLGATE_SWITCHED=$PWD/build/switched/callgate
export CALLGATE_TABLES=$PWD/build-$preset/tables CALLGATE_TEST_NAME=$file PYTHONDONTWRITEBYTECODE=1
status=0
(cd tests/e2e && /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider "test_$file.py" "$@") </dev/null || status=$?
shopt -s nullglob
found=("$reports"/*)
if [ ${#found[@]} -gt 0 ]; then
    grep -hoE '(SUMMARY: |[A-Z][a-z]+Sanitizer: |runtime error: ).*' "${found[@]}" | sort | uniq -c >&2 || true
    echo "dev: test: ${#found[@]} reports in $reports" >&2
    exit 1
fi
rmdir "$reports"
exit $status
