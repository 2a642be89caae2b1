#!/bin/bash
# ./dev lint: format, folders, language, citations, a clang build, clang-tidy, unit tests and kept inputs under sanitizers.
#
# Every check runs, then the ones that failed are named. --all: clang-tidy on every source, not only on those that
# differ from the commit on which this branch stands (or from HEAD~1 where there is no upstream).
set -euo pipefail
cd "$(dirname "$0")/.."
all=0
case "${1:-}" in
    '') ;;
    --all) all=1 ;;
    *) echo "dev: lint: unknown option $1; known: --all" >&2; exit 1 ;;
esac
failed=()
check() {
    local name=$1; shift
    printf 'dev: lint: %s\n' "$name" >&2
    "$@" || failed+=("$name")
}

sources() { find base rules agent relay supervisor tls tests bench cmake tools \( -name '*.cpp' -o -name '*.hpp' \) | sort; }

# Another version of clang-format lays some lines out differently: then there is nothing to compare with.
format() {
    local tool
    tool=$(command -v clang-format-14 || command -v clang-format)
    if ! "$tool" --version | grep -q 'version 14\.'; then
        echo 'dev: lint: format skipped: needs clang-format 14' >&2
        return 0
    fi
    sources | xargs "$tool" --dry-run -Werror
}

changed() {
    local base
    base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD~1 2>/dev/null || true)
    { [ -z "$base" ] || git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
        grep -E '^(base|rules|agent|relay|supervisor|tls)/.*\.cpp$' | sort -u || true
}

tidy() {
    local files tool
    tool=$(command -v clang-tidy-14 || command -v clang-tidy)
    if [ $all = 1 ]; then files=$(find base rules agent relay supervisor tls -name '*.cpp'); else files=$(changed); fi
    [ -n "$files" ] || { echo 'dev: lint: no source has changed (--all looks at every one)' >&2; return 0; }
    xargs -P "$(nproc)" -n 4 "$tool" -p build-clang --quiet <<<"$files"
}

unit_under() { ./dev build "$1" && ctest --test-dir "build-$1" -R "$2" --output-on-failure --no-tests=error; }

# ruff and mypy, in an environment of their own (tests/python/requirements/lint.txt). As elsewhere, tests have no types.
python_package() {
    local tools
    [ "${CALLGATE_NO_DEPS:-}" = 1 ] || tools/venvs.sh lint || true
    tools=$(tools/venvs.sh --where)/lint/bin
    if [ ! -x "$tools/mypy" ]; then
        echo 'dev: lint: Python skipped: needs tools/venvs.sh lint' >&2
        return 0
    fi
    "$tools/ruff" check --quiet --no-cache --config python/pyproject.toml python tests/python &&
        (cd python && "$tools/mypy" --no-error-summary --cache-dir /dev/null callgate)
}

check 'format' format
check 'Python' python_package
check 'folders' tools/folders.py
check 'language' tools/prose.py --max 20
check 'citations' tools/citations.py
check 'shell syntax' bash -n dev tools/*.sh demo/*.sh .ci/run
check 'clang build' ./dev build clang
check 'clang-tidy' tidy
check 'address and undefined-behaviour sanitizers' unit_under asan '^(unit|fuzz\.)'
check 'thread sanitizer' unit_under tsan '^unit$'

tools/figures.py
if [ ${#failed[@]} -gt 0 ]; then
    printf 'dev: lint failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
echo 'dev: lint: clean' >&2
