# Packages that the project needs, and how they are installed (sourced by ./dev).
#
# An entry is PACKAGE or PACKAGE=FILE: where the file exists, the package counts as installed (another package may
# provide it). The tests use the distribution's tool chains only: an ordinary user cannot read root's home.

packages_build='g++ gcc cmake ninja-build pkg-config=/usr/bin/pkg-config libseccomp-dev libsodium-dev libc-ares-dev libssl-dev nlohmann-json3-dev
    doctest-dev publicsuffix=/usr/share/publicsuffix/public_suffix_list.dat python3'
packages_test='openssl=/usr/bin/openssl redis-server redis-tools sqlite3 nodejs=/usr/bin/node npm=/usr/bin/npm cargo=/usr/bin/cargo
    golang-go=/usr/bin/go git make tar xz-utils curl python3-venv python3-pip python3-pytest python3-jsonschema acl strace gdb tmux
    util-linux procps dpkg rsync binutils python3-dev python3-setuptools python3-wheel default-jdk-headless=/usr/bin/javac
    postgresql xterm xvfb xauth screen imagemagick vim less htop e2fsprogs btrfs-progs
    mandoc zsh fish bash-completion lintian
    man-db jq zip unzip zstd bc ed file patch wget gnupg iproute2 bsdextrautils openssh-client g++ cmake ninja-build perl stow'
# Clients that look names up.
packages_test+=' bind9-dnsutils=/usr/bin/dig bind9-host=/usr/bin/host knot-dnsutils=/usr/bin/kdig ldnsutils=/usr/bin/drill busybox
    lynx w3m links elinks axel lftp ncat=/usr/bin/ncat netcat-openbsd socat gnutls-bin rustc=/usr/bin/rustc musl-tools ruby
    php-cli=/usr/bin/php lua5.4 lua-socket tcl libwww-perl libnet-dns-perl python3-dnspython python3-httpx python3-aiohttp
    python3-aiodns python3-grpcio python3-pycares python3-requests python3-urllib3 python3-tornado'
# Package managers of other languages.
packages_test+=' ruby-bundler=/usr/bin/bundle composer=/usr/bin/composer'
# libFuzzer's library has the compiler's version in its name; the guests of ./dev test kernels are made from Debian's kernels.
packages_fuzz='clang'
packages_kernels='qemu-system-x86 e2fsprogs binutils'
# Real engines of containers.
packages_engines='docker.io=/usr/sbin/dockerd podman buildah crun runc=/usr/sbin/runc uidmap libcap2-bin golang-go=/usr/bin/go python3-yaml runsc'
# A build for aarch64 on another processor, and a guest of that kind.
packages_aarch64='g++-aarch64-linux-gnu qemu-user-static mmdebstrap qemu-system-arm=/usr/bin/qemu-system-aarch64 e2fsprogs'
packages_wheel='python3-setuptools python3-wheel python3-pip binutils'
packages_package='python3-setuptools python3-wheel python3-pip binutils npm=/usr/bin/npm dpkg'
# The roots of other distributions, for long runs of the packages' tests.
packages_roots='mmdebstrap'
# The generator comes by pip (tools/site/build.sh).
packages_site='python3-venv python3-pip npm=/usr/bin/npm mandoc'
packages_bench='libbenchmark-dev hyperfine'
packages_lint='clang clang-tidy clang-format'

# distribution ID VERSION: sets `supported`, and completes the lists with names that differ between distributions.
choose_distribution() {
    local id=$1 version=$2
    supported=0
    case $id in
        debian) [ -z "$version" ] || [ "${version%%.*}" -ge 12 ] && supported=1 ;;
        ubuntu) [ -n "$version" ] && [ "${version%%.*}" -ge 24 ] && supported=1 ;;
    esac
    # Debian 12's unversioned Boost, 1.74, lacks boost::system::result.
    if [ "$id $version" = 'debian 12' ]; then
        packages_build+=' libboost1.81-dev'
    else
        packages_build+=' libboost-dev zlib1g-dev libzstd-dev'  # Debian 13's static libcrypto names the last two
    fi
    # Ubuntu's package of that name is a snap: the test says so by name.
    [ "$id" != debian ] || packages_test+=' chromium'
    case "$id $version" in
        'debian 12'|'ubuntu 24.04') packages_lint+=' clang-14 clang-format-14' packages_fuzz+=' clang-14 libclang-rt-14-dev' ;;
        *) packages_fuzz+=' libclang-rt-dev' ;;
    esac
}

# missing_packages LIST: those that are neither installed nor provided.
missing_packages() {
    local entry name file wanted=() installed
    for entry in $1; do
        name=${entry%%=*} file=${entry#*=}
        if [ "$file" != "$entry" ] && [ -e "$file" ]; then continue; fi
        wanted+=("$name")
    done
    [ ${#wanted[@]} -gt 0 ] || return 0
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
        sed -n 's/^installed //p' || true)
    for name in "${wanted[@]}"; do
        grep -qxF -- "$name" <<<"$installed" || echo "$name"
    done
}

# ensure_packages GROUP...: installs what is missing; no apt call where nothing is.
ensure_packages() {
    local group list='' id='' version=''
    if [ "${CALLGATE_NO_DEPS:-}" = 1 ]; then return 0; fi
    if [ -r /etc/os-release ]; then
        id=$(. /etc/os-release; echo "${ID:-}") version=$(. /etc/os-release; echo "${VERSION_ID:-}")
    fi
    choose_distribution "$id" "$version"
    for group in $*; do
        case $group in
            build) list+=" $packages_build" ;;
            test) list+=" $packages_test" ;;
            package) list+=" $packages_package" ;;
            roots) list+=" $packages_roots" ;;
            site) list+=" $packages_site" ;;
            wheel) list+=" $packages_wheel" ;;
            bench) list+=" $packages_bench" ;;
            lint) list+=" $packages_lint" ;;
            fuzz) list+=" $packages_fuzz" ;;
            engines) list+=" $packages_engines" ;;
            kernels) list+=" $packages_kernels" ;;
            aarch64) list+=" $packages_aarch64" ;;
            *) fail "deps: unknown group $group; known: build, test, bench, lint, fuzz, kernels, engines, aarch64, wheel, package, roots, site" ;;
        esac
    done
    if [ $supported = 0 ]; then
        say "cannot install packages on ${id:-this system} ${version}: Debian 12 or newer and Ubuntu 24.04 or newer are supported."
        say "install what these Debian packages hold, then run again with CALLGATE_NO_DEPS=1:"
        printf '  %s\n' $(for entry in $list; do echo "${entry%%=*}"; done | sort -u) >&2
        exit 1
    fi
    local missing
    mapfile -t missing < <(missing_packages "$list" | sort -u)
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

install_packages() {
    local as_root=()
    say "installing with apt: $*"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail 'not root, and no sudo: install these packages, then run again'
        as_root=(sudo)
    fi
    # RUNLEVEL=1: invoke-rc.d starts no daemon. stdin is closed to apt: nothing may ask.
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -y -q
        -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
    "${apt[@]}" update </dev/null >&2 || fail 'apt-get update failed (see above)'
    "${apt[@]}" install --no-install-recommends "$@" </dev/null >&2 ||
        fail "apt-get install failed (see above); wanted: $*"
    rest_services "${as_root[@]}" -- "$@"
}

# rest_services [sudo] -- PACKAGE...: the tests start servers of their own; a service that came with a package that was
# just installed must not stay on.
rest_services() {
    local as_root=() package service
    while [ "$1" != -- ]; do as_root+=("$1"); shift; done
    shift
    for package in "$@"; do
        case $package in
            redis-server|postgresql) service=$package ;;
            docker.io) service=docker ;;
            *) continue ;;
        esac
        if [ -d /run/systemd/system ]; then
            "${as_root[@]}" systemctl disable --now "$service.service" >&2 || say "could not switch $service.service off"
        elif [ -x /usr/sbin/update-rc.d ]; then
            "${as_root[@]}" /usr/sbin/update-rc.d "$service" disable >/dev/null 2>&1 || true
        fi
    done
}
