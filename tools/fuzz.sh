#!/bin/bash
# ./dev fuzz [SECONDS] [NAME]...: libFuzzer on every parser of untrusted bytes, family by family (tests/fuzz/families).
#
# SECONDS (300) is for all of them together. Starts from the inputs that are kept in tests/fuzz/corpus; what is found
# on the way goes to build-fuzz/corpus, and an input that fails to build-fuzz/findings: mend what it shows, and keep
# it with the others. `--keep` writes back to tests/fuzz/corpus, smallest, what reaches new code.
set -euo pipefail
cd "$(dirname "$0")/.."
keep=0 seconds=300 only=()
for word in "$@"; do
    case $word in
        --keep) keep=1 ;;
        -*) echo "dev: fuzz: unknown option $word; known: SECONDS, --keep, NAME" >&2; exit 1 ;;
        *[!0-9]*)
            grep -q "^$word " tests/fuzz/families || { echo "dev: fuzz: no $word in tests/fuzz/families" >&2; exit 1; }
            only+=("$word") ;;
        *) seconds=$word ;;
    esac
done
build=$PWD/build-fuzz kept=$PWD/tests/fuzz/corpus  # absolute: the calls that are run change the directory
mapfile -t families < <(grep -vE '^(#|$)' tests/fuzz/families | grep -E "^($(IFS='|'; echo "${only[*]:-.*}")) ")
each=$(( (seconds + ${#families[@]} - 1) / ${#families[@]} ))
mkdir -p "$build/findings"
failed=() lines=()
for entry in "${families[@]}"; do
    read -r name program calls <<<"$entry"
    fuzzer=$build/tests/fuzz/fuzz_$program options=()
    [ -z "$calls" ] || options=(-ignore_remaining_args=1 "--calls=$calls")
    grown=$build/corpus/$name log=$build/$name.log
    mkdir -p "$grown" "$kept/$name"
    printf 'dev: fuzz: %s, %s s\n' "$name" "$each" >&2
    status=0
    nice -n 10 "$fuzzer" "$grown" "$kept/$name" -max_total_time="$each" -max_len=16384 -len_control=20 \
        -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$build/findings/$name-" \
        "${options[@]}" >"$log" 2>&1 || status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(grep -oP 'cov: \K\d+' "$log" | tail -1 || true)
    lines+=("$(printf '| %s | %s | %s | %s |' "$name" "${runs:-0}" "${edges:-0}" "$([ $status = 0 ] && echo none || echo FOUND)")")
    if [ $status != 0 ]; then
        failed+=("$name")
        tail -40 "$log" | cut -c1-300 >&2
    elif [ $keep = 1 ]; then
        rm -rf "$grown.kept"
        mkdir "$grown.kept"
        "$fuzzer" -set_cover_merge=1 -max_len=1024 "$grown.kept" "$kept/$name" "$grown" "${options[@]}" >>"$log" 2>&1
        rm -rf "${kept:?}/$name"
        cp -r "$grown.kept" "$kept/$name"
    fi
done
echo '| bytes of | inputs tried | edges reached | findings |'
echo '|---|---|---|---|'
printf '%s\n' "${lines[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    echo "dev: fuzz: findings in build-fuzz/findings: ${failed[*]}" >&2
    exit 1
fi
