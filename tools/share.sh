#!/bin/bash
# tools/share.sh PROGRAM MANUAL DIRECTORY DATE [EMULATOR...]: manual pages and completions, as they are installed beneath
# share/ (cmake/share.cmake). Programs of another processor are run by the emulator.
set -euo pipefail
program=$1 manual=$2 place=$3 date=$4
shift 4
rm -rf "$place"
umask 022
mkdir -p "$place"/{man/man1,man/man5,man/man7,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$@" "$manual" "$place/man" "$date"
gzip -9n "$place"/man/man?/*
"$@" "$program" completion bash >"$place/bash-completion/completions/callgate"
"$@" "$program" completion zsh >"$place/zsh/site-functions/_callgate"
"$@" "$program" completion fish >"$place/fish/vendor_completions.d/callgate.fish"
