#!/bin/bash
# Dependencies point one way: rules <- agent <- supervisor. An include against the arrow is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
wrong=$( { grep -rnE '#include "(agent|supervisor)/' rules || true; grep -rnE '#include "supervisor/' agent || true; } )
# The agent runs between fork and exec: of Boost only the result type, and no JSON.
wrong+=$(grep -rnE '#include <(boost/|nlohmann/|CLI/)' agent | grep -v '<boost/system/' || true)
if [ -n "$wrong" ]; then
    printf 'layers: an include points the wrong way:\n%s\n' "$wrong" >&2
    exit 1
fi
