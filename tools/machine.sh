#!/bin/bash
# tools/machine.sh PROGRAM: the processor that an ELF program is for, as `uname -m` calls it (e_machine of elf(5)).
case $(od -An -tu2 -j18 -N2 "$1") in
    *62) echo x86_64 ;;
    *183) echo aarch64 ;;
    *) echo "tools/machine.sh: $1 is for no processor that callgate runs on" >&2 && exit 1 ;;
esac
