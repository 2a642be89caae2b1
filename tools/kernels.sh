#!/bin/bash
# ./dev test kernels [--kernel SERIES]... [--leave-out SERIES:TEST]... [PYTEST-ARGUMENTS]: the end-to-end tests and
# the attacks on three other real kernels, under QEMU. ./dev test aarch64 does so on an emulated processor of that kind, with
# Debian 13's kernel.
#
# Debian's cloud kernels 6.1 (Landlock ABI 2), 6.12 (ABI 6) and that of its unstable suite (7.2: ABI 10) are downloaded and
# unpacked, never installed. Unstable is asked with a package list of its own beneath the build directory, from the archive
# that apt has Debian's packages from: this machine's own sources and lists stay as they are. Its kernel changes, so a newer
# ABI than 10 passes too. The kernels boot
# from an ext4 disk that is made here, with the program, its tests, and of this system's packages the few that the
# tests need: they have NVMe and ext4 built in, so no network and of the modules only unix_diag is needed. (A disk and not an
# initramfs: in memory file systems of 6.1 no extended attribute of a user's can be set, and the tests would skip
# that.) A guest runs one pytest after the other as root, which tests as root and as an ordinary user, and powers itself
# off. What it says is printed to stderr as it comes, and to stdout a row of a table for each pytest that ended, so that
# a run which is stopped leaves what it found. Always emulated, because virtual machines within virtual machines are not
# to be relied on (with /dev/kvm in one such machine, 7.2 stopped at an instruction that KVM does not emulate); emulated
# time is slow, so deadlines are stretched and no timing is a result.
#
# What each kernel runs is said by `selections`: further tests for one of them are one more line there.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

say() { printf 'kernels: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

machine=x86_64 build=build
series_and_abi=('6.1 2' '6.12 6' 'unstable 10')
if [ "${1:-}" = --aarch64 ]; then
    machine=aarch64 build=build-aarch64
    series_and_abi=('6.12 6')
    shift
fi
work=$PWD/$build/kernels
guest_packages=(bash bsdutils coreutils dash diffutils libc-bin ncurses-base util-linux python3 python3-pytest python3-jsonschema tmux passwd acl
    procps iproute2 findutils grep sed mount tar xz-utils e2fsprogs git sqlite3 redis-server redis-tools curl make strace rsync stow)
declare -A left_out=(
    [adding_a_call]='needs a compiler'
    [pages]='reads sources'
    [abi]='injects older Landlocks where there is a new one'
    [answers_on_record]='reads logs'
    [approve]='is the side of approvers, which speaks to the program alone'
    [ask_auto]='is the side of approvers, which speaks to the program alone'
    [ask_xterm]='needs a graphical terminal'
    [audit_export]='reads logs'
    [audit_log]='reads logs'
    [audit_reading]='reads long logs'
    [audit_verbs]='reads logs'
    [audit_report]='needs a browser'
    [bad_use]='ends before the kernel is asked for anything'
    [demo]='shows what test_run tests'
    [packages]='makes packages, which needs a build directory'
    [frameworks]='is the Python package, which speaks to the program alone'
    [python]='is the Python package, which speaks to the program alone'
    [wheel]='is the Python package, which speaks to the program alone'
    [terminal_programs]='needs editors'
    [load]='takes times'
    [mutants]='is about what the tests see, not about the kernel'
    [programs]='needs the tool chains'
    [large_programs]='needs the tool chains')
no_races='races: between emulated processors they are won by the emulator'
declare -A left_out_of=()  # "SERIES:TEST", by option
only=()
while :; do
    case ${1:-} in
        --leave-out) left_out_of[${2:?--leave-out SERIES:TEST}]=1; shift 2 ;;
        --kernel)
            entry=$(printf '%s\n' "${series_and_abi[@]}" | grep -F -- "${2:?--kernel SERIES} ") || fail "--kernel is none of: ${series_and_abi[*]% *}"
            only+=("$entry")
            shift 2 ;;
        *) break ;;
    esac
done
[ ${#only[@]} -eq 0 ] || series_and_abi=("${only[@]}")
guest_deadline=${CALLGATE_KERNELS_DEADLINE:-10800}

# selections SERIES [PYTEST-ARGUMENTS]: what the guest with this kernel runs, the arguments of one pytest on each line.
selections() {
    local series=$1 script name
    shift
    if [ $# -gt 0 ]; then
        printf '%s\n' "${*@Q}"
        return
    fi
    # The longest last: what is wrong with a kernel shows early.
    for script in $(ls tests/e2e/test_*.py | grep -v attacks) tests/e2e/test_attacks*.py; do
        name=${script#tests/e2e/test_} name=${name%.py}
        [ -n "${left_out[$name]:-}${left_out_of[$series:e2e.$name]:-}" ] || echo "$script -m 'not race'"
    done
}

# What `selections` does not have, and why: for the page too.
unselected() {
    local name
    echo "Not run there: ${no_races};"
    for name in "${!left_out[@]}"; do printf '%s (%s), ' "$name" "${left_out[$name]}"; done | sort | sed 's/, $/./'
    echo
}

# unstable_apt VERB...: apt-get or apt-cache with a list and a state of its own, of Debian's unstable suite alone.
unstable_apt() {
    local verb=$1
    shift
    "$verb" -q -o Dir::Etc::sourcelist="$work/unstable/list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$work/unstable/lists" -o Dir::Cache="$work/unstable/cache" -o APT::Sandbox::User=root "$@"
}

# keep_modules FOLDER: those that a test needs, from what was unpacked here. unix_diag tells where a unix socket is bound.
keep_modules() {
    find . -name 'unix_diag.ko*' -exec mv -t "$1" {} + && { [ ! -e "$1/unix_diag.ko.xz" ] || unxz "$1/unix_diag.ko.xz"; }
}

# fetch_unstable: prints the path of unstable's kernel; nothing where apt knows no archive of Debian's.
fetch_unstable() {
    local archive package directory
    archive=$(apt-get indextargets --format '$(ORIGIN)/$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian/Debian" { print $2; exit }')
    [ -n "$archive" ] || return 0
    mkdir -p "$work"/unstable/{lists,cache/archives}/partial
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive unstable main" >"$work/unstable/list"
    unstable_apt apt-get update >&2 || return 0
    package=$(unstable_apt apt-cache search --names-only '^linux-binary-[0-9].*-cloud-amd64$' | awk '{ print $1 }' | sort -V | tail -1)
    [ -n "$package" ] || return 0
    directory=$work/$package
    if ! ls "$directory"/vmlinuz-* >/dev/null 2>&1; then
        rm -rf "$directory"
        mkdir -p "$directory"
        (cd "$directory" && unstable_apt apt-get download "$package" "${package/binary/modules}" >&2 &&
            for one in *.deb; do dpkg-deb -x "$one" .; done && keep_modules . &&
            mv usr/lib/modules/*/vmlinuz "vmlinuz-${package#linux-binary-}" && rm -rf ./*.deb usr)
    fi
    echo "$directory"/vmlinuz-*
}

# newest_image SERIES: the package of the newest kernel of a series; the unsigned one holds the same kernel.
newest_image() {
    apt-cache search --names-only "^linux-image-${1//./\\.}\\.[0-9].*-cloud-amd64(-unsigned)?$" |
        awk '{ print $1 }' | sort -V | tail -1
}

# fetch_kernel SERIES: prints the unpacked kernel's path; nothing where the package sources have none.
fetch_kernel() {
    local package directory
    if [ $machine = aarch64 ]; then
        echo "$work"/vmlinuz-*
        return
    fi
    if [ "$1" = unstable ]; then
        fetch_unstable
        return
    fi
    package=$(newest_image "$1")
    [ -n "$package" ] || return 0
    directory=$work/$package
    if ! ls "$directory"/boot/vmlinuz-* >/dev/null 2>&1; then
        rm -rf "$directory"
        mkdir -p "$directory"
        (cd "$directory" && apt-get -q -o APT::Sandbox::User=root download "$package" >&2 &&
            dpkg-deb -x ./*.deb . && keep_modules boot && rm -rf ./*.deb lib usr)
    fi
    echo "$directory"/boot/vmlinuz-*
}

# Files of the packages that the tests need, and of all that those depend on.
package_files() {
    apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances "${guest_packages[@]}" | grep -E '^[a-z0-9]' | sort -u |
        xargs dpkg-query -W -f '${db:Status-Status} ${binary:Package}\n' 2>/dev/null | sed -n 's/^installed //p' |
        xargs dpkg-query -L 2>/dev/null | grep -vE '^/usr/share/(doc|man|info|locale|perl|lintian)/|^/\.$' | sort -u
}

# What packages make when they are installed.
settings=(/etc/{passwd,group,shadow,gshadow,nsswitch.conf,alternatives,login.defs,default,pam.d}
    /etc/{ld.so.conf,ld.so.conf.d,hosts,services,protocols,localtime,profile,skel})

# What the guest has of a system: this one's files, or for another processor the same packages from the distribution's archive.
make_system() {
    local root=$1 one guest
    rm -rf "$root" "$work"/vmlinuz-*
    if [ $machine = aarch64 ]; then
        mkdir -p "$root"
        GUEST_PACKAGES=$(IFS=,; echo "${guest_packages[*]}")
        export GUEST_PACKAGES
        guest=trixie-guest-aarch64-$(cksum <<<"$GUEST_PACKAGES" | cut -d' ' -f1)
        tools/roots.sh "$guest"
        tar -xf "$(tools/roots.sh --where)/$guest.tar" -C "$root" --exclude=./dev/*
        mv "$root"/boot/vmlinuz-* "$work"
        rm -rf "$root"/boot/* "$root"/usr/lib/modules
        tar -c --ignore-failed-read "${settings[@]}" 2>/dev/null | tar -x -C "$root" --keep-directory-symlink || true
        return
    fi
    mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{proc,sys,dev,run,tmp,root,home,var/tmp}
    for one in bin sbin lib lib64; do ln -s "usr/$one" "$root/$one"; done
    chmod 1777 "$root"/tmp "$root"/var/tmp
    # Listed files may have been removed since (excluded documentation), or not be for us to read.
    package_files | tar -c --no-recursion --ignore-failed-read -T - 2>/dev/null |
        tar -x -C "$root" --keep-directory-symlink || true
    tar -c --ignore-failed-read "${settings[@]}" /usr/lib/python3 "/usr/lib/$(readlink /usr/bin/python3)" 2>/dev/null |
        tar -x -C "$root" --keep-directory-symlink || true
    ldconfig -r "$root"
}

make_root() {
    local root=$1
    make_system "$root"
    ln -sf dash "$root"/bin/sh
    echo callgate >"$root"/etc/hostname
    rm -rf "$root"/usr/lib/python3*/test "$root"/usr/lib/python3*/idlelib
    mkdir -p "$root"/callgate/build/switched
    cp -a rules agent supervisor python tests docs "$root"/callgate/
    cp -a $build/callgate $build/programs "$root"/callgate/build/
    [ ! -e $build/callgate-tls ] || cp $build/callgate-tls "$root"/callgate/build/
    $machine-linux-gnu-strip -o "$root"/callgate/build/switched/callgate $build/switched/callgate
    install -m 0755 tools/kernels_init.sh "$root"/callgate-init
}

# make_disk [PYTEST-ARGUMENTS]
make_disk() {
    local root=$work/root disk=$work/disk.img entry kernel
    make_root "$root"
    for entry in "${series_and_abi[@]}"; do
        selections "${entry% *}" "$@" >"$root/callgate/selections.${entry% *}"
        kernel=$(fetch_kernel "${entry% *}")
        [ ! -e "${kernel%/*}/unix_diag.ko" ] || cp "${kernel%/*}/unix_diag.ko" "$root/callgate/unix_diag.ko.${entry% *}"
    done
    rm -f "$disk"
    truncate -s 4G "$disk"
    mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1,root_owner=0:0 -d "$root" "$disk"
    rm -rf "$root"
}

# The emulator, and the serial lines of console and report. On aarch64 the second is a card.
if [ $machine = x86_64 ]; then
    emulator=(qemu-system-x86_64 -cpu Nehalem -serial chardev:console -serial chardev:report) lines='console=ttyS0 report=ttyS1'
else
    emulator=(qemu-system-aarch64 -machine virt -cpu cortex-a72 -serial chardev:console -device pci-serial,chardev=report)
    lines='console=ttyAMA0 report=ttyS0'
fi

# boot KERNEL NAME ABI SERIES: until the guest ends. Its own report is NAME.report, its console NAME.console. The processor is
# the oldest that the distribution runs on: newer ones' vector instructions are slower to emulate than what they replace.
boot() {
    local kernel=$1 name=$2 report=$work/$2.report console=$work/$2.console guest status=0
    : >"$report"
    nice -n 10 timeout --signal=KILL "$guest_deadline" "${emulator[@]}" -accel tcg,thread=single \
        -smp 1 -m 2560 -nodefaults -no-user-config -display none -no-reboot -kernel "$kernel" \
        -append "root=/dev/nvme0n1 rw $lines loglevel=4 panic=-1 mitigations=off no_timer_check selections=$4 init=/callgate-init" \
        -drive "file=$work/disk.img,if=none,id=root,format=raw,snapshot=on" -device nvme,drive=root,serial=callgate \
        -chardev "file,id=console,path=$console" -chardev "file,id=report,path=$report" </dev/null 2>"$work/$name.qemu" &
    guest=$!
    tail -q -n +1 -f --pid="$guest" "$report" | rows "$name" "$3" || true
    wait "$guest" || status=$?
    [ $status = 0 ] || { say "$name: qemu ended with status $status"; cat "$work/$name.qemu" >&2; }
}

# is_abi FOUND WANTED: WANTED is a number, or one with `+` for that and newer ones.
is_abi() {
    case $2 in
        *+) [[ $1 =~ ^[0-9]+$ ]] && [ "$1" -ge "${2%+}" ] ;;
        *) [ "$1" = "$2" ] ;;
    esac
}

# rows NAME ABI: passes on what a guest says, and prints a row for each pytest that ended.
rows() {
    local name=$1 abi=$2 found='?' summary='' line status seconds what result
    while IFS= read -r line; do
        printf '%s: %s\n' "${name%%-*}" "$line" >&2
        case $line in
            'kernels: Landlock ABI '*) found=${line##* } ;;
            'kernels: done '*)
                read -r _ _ status seconds what <<<"$line"
                if [[ $what =~ ^tests/e2e/test_([a-z0-9_]+)\.py\ -m ]]; then what=e2e.${BASH_REMATCH[1]}; fi
                [ "$status" = 0 ] && is_abi "$found" "$abi" && result=passed || result=FAILED
                printf '| %s | %s | %s | %s | %s | %s |\n' "$name" "$found" "$what" $result "${summary:-no summary}" "$seconds"
                summary= ;;
            *)
                if [[ $line =~ ^=*\ ?([0-9]+\ (passed|failed|skipped|error).*)\ in\ [0-9.]+s ]]; then
                    summary=${BASH_REMATCH[1]}
                fi ;;
        esac
    done
}

# judge NAME ABI: false, with what there is to say, unless the guest came to its end with everything passed.
judge() {
    local name=$1 abi=$2 report=$work/$1.report found status
    found=$(sed -n 's/^kernels: Landlock ABI \([0-9]*\).*/\1/p' "$report")
    status=$(sed -n 's/^kernels: pytest ended with \([0-9]*\).*/\1/p' "$report")
    if [ -z "$status" ]; then
        say "$name: the guest did not come to an end; the last of its console:"
        tail -20 "$work/$name.console" >&2
    fi
    is_abi "$found" "$abi" || { say "$name: Landlock ABI ${found:-unknown}, not $abi"; return 1; }
    [ "$status" = 0 ]
}

result=0
[ -x $build/callgate ] && [ -x $build/switched/callgate ] || fail "build first: $build lacks the program"
command -v "${emulator[0]}" >/dev/null || fail "${emulator[0]} is missing (./dev deps kernels aarch64)"
mkdir -p "$work"
make_disk "$@"
echo '| kernel | Landlock ABI | test | result | cases | seconds, emulated |'
echo '|---|---|---|---|---|---|'
# All at once, each with one processor: two emulated ones wait for each other longer than a kernel's watchdog allows
# where the machine is busy.
booted=() guests=()
for entry in "${series_and_abi[@]}"; do
    read -r series abi <<<"$entry"
    [ -n "$(selections "$series" "$@")" ] || continue
    kernel=$(fetch_kernel "$series")
    if [ -z "$kernel" ]; then
        say "the package sources of this machine have no cloud kernel of $series for amd64"
        echo "| $series | - | all | NOT TESTED: no such kernel package | - | - |"
        continue
    fi
    name=${kernel##*/vmlinuz-}
    say "booting $name"
    [ "$series" != unstable ] || abi+=+
    booted+=("$name $abi")
    boot "$kernel" "$name" "$abi" "$series" &
    guests+=($!)
done
[ ${#guests[@]} -eq 0 ] || wait "${guests[@]}" || true
for entry in "${booted[@]}"; do
    read -r name abi <<<"$entry"
    judge "$name" "$abi" || result=1
done
[ $# -gt 0 ] || { echo; unselected; }
exit $result
