#!/bin/bash
# ./dev test --soak: every build, every test with the full counts, and the table docs/soak.md.
#
# Arguments go to ctest (a filter). gcc's release build, the one that users run, runs everything with the full counts,
# clang's everything with the counts of a plain run; under the sanitizers the unit tests run, because a sanitizer's
# runtime makes system calls of its own between fork and exec.
set -euo pipefail
cd "$(dirname "$0")/.."
table=()
result=0

# stage NAME COUNTS DIRECTORY CTEST-ARGUMENTS...   (COUNTS: 1 full, empty as in a plain run)
stage() {
    local name=$1 counts=$2 directory=$3 log start=$SECONDS status=passed total
    shift 3
    log=$directory/soak.log
    if ! CALLGATE_SOAK=$counts ctest --test-dir "$directory" --output-on-failure --no-tests=error "$@" </dev/null | tee "$log"; then
        status=FAILED result=1
    fi
    total=$(grep -oP '\d+(?= tests? failed out of)|(?<=out of )\d+' "$log" | tail -1)
    table+=("| $name | ${total:-0} | $status | $((SECONDS - start)) |")
}

for preset in release switches clang asan tsan; do
    CALLGATE_SOAK=1 ./dev build "$preset"
done
stage 'gcc, release, full counts' 1 build "$@"
stage 'clang, plain counts' '' build-clang "$@"
stage 'gcc, address and undefined behaviour' 1 build-asan -R '^(unit|fuzz\.)'
stage 'gcc, threads' 1 build-tsan -R '^unit$'

# other NAME COMMAND...: what reports by itself; its own table goes into the page.
other() {
    local name=$1 start=$SECONDS status=passed page
    shift
    page=$("$@" </dev/null) || status=FAILED result=1
    pages+=('' "$page")
    table+=("| $name | - | $status | $((SECONDS - start)) |")
}
pages=()
if [ $# -eq 0 ]; then
    other 'libFuzzer' ./dev fuzz 300
    other 'other kernels' ./dev test kernels
fi

# A filtered run says nothing about the whole: the table is left alone.
if [ $# -eq 0 ]; then
    {
        echo '# The last long run'
        echo
        echo 'Written by `./dev test --soak`, which runs every test with its full counts (clang: with those of a plain run).'
        echo
        echo "$(uname -sr), $(nproc) CPUs, $(gcc --version | head -1), $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)."
        echo
        echo '| build | test programs | result | seconds |'
        echo '|---|---|---|---|'
        printf '%s\n' "${table[@]}" "${pages[@]}"
    } >docs/soak.md
fi
printf '%s\n' "${table[@]}"
exit $result
