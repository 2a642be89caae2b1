#!/bin/bash
# same_output.sh PAGE PROGRAM: fails where PAGE is not what PROGRAM prints.
set -euo pipefail
if ! "$2" | diff -u "$1" - ; then
    printf '%s is out of date: ./dev docs writes it\n' "$1" >&2
    exit 1
fi
