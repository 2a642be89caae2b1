#!/bin/bash
# Prints which counts a plain test run reduces against --soak. It reads them where the tests state them, as
# `NAME = 200 if SOAK else 20`, so that this list cannot drift from them.
set -euo pipefail
cd "$(dirname "$0")/.."
pattern='\b(\w+)\s*[=:,(]\s*([0-9_]+) if (\w+\.)?SOAK else ([0-9_]+).*'
lines=$(grep -HoP "$pattern" tests/e2e/*.py tests/attacks/cases/*.py tests/python/*.py 2>/dev/null | sed -E "s#^tests/(e2e/test_|e2e/|attacks/cases/|python/)([a-z_]+)\.py:#\2: #
    s/(\w+): (\w+)\s*[=:,(]\s*([0-9_]+) if (\w+\.)?SOAK else ([0-9_]+).*/  \1: \2 \5 of \3/" | tr -d _ | sort -u || true)
[ -z "$lines" ] || printf 'dev: reduced against ./dev test --soak:\n%s\n' "$lines" >&2
