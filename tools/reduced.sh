#!/bin/bash
# Says which counts a plain test run reduces against --soak. The tests state both where they use them, as
# scaled(REDUCED, SOAK, "what"), so that this list cannot drift from them.
set -euo pipefail
cd "$(dirname "$0")/.."
lines=$(grep -hoP 'scaled\(\s*\d[\d_]*\s*,\s*\d[\d_]*\s*,\s*"[^"]+"' tests/e2e/*.py 2>/dev/null |
    sed -E 's/scaled\(\s*([0-9_]+)\s*,\s*([0-9_]+)\s*,\s*"([^"]+)"/  \3: \1 of \2/' | sort -u || true)
[ -z "$lines" ] || printf 'dev: reduced against ./dev test --soak:\n%s\n' "$lines" >&2
