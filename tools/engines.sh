#!/bin/bash
# ./dev test engines [--engine NAME]... [PYTEST-ARGUMENTS]: the image of Containerfile, end-to-end tests and attacks in real
# containers: those of Docker (runc), of root's podman (crun, runc) and of an ordinary user's podman (crun), as the distribution has
# them. Each container has the engine's own defaults: seccomp profile, capabilities, file systems. On containerd the manifests of
# docs/examples run as pods, by the interface that kubelets use. gVisor has a kernel of its own, on which callgate must say so.
#
# Root only. Nothing of the machine's own engines is touched. Daemon, images and sockets are in a directory that is removed at the
# end, and all runs in namespaces that end with this script. Engines refuse a host with both versions of control
# groups, so that namespace has a plain version 2. Without CAP_SYS_RESOURCE they cannot raise limits either: the runtime is then
# called by a script that takes the limits out of what is asked for. Containers have loopback alone.
#
# A container sees this system's /usr read-only, for the tool chains. It runs one pytest as its root, which tests as root and as an
# ordinary user. A row of a table is printed for each that ended, and the exit status is 1 if one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'engines: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

known='docker podman-crun podman-runc podman-rootless containerd gvisor'
# What a container's profile can change: decided calls, and the programs that make them.
tests='run execute equality network links opaque ends exec exec_serve nested programs attacks'
# Not in a container: calls that its profile does not know; a twin that becomes another user, or asks for another one's waits; two
# twins on sockets without a copy (docs/containers.md).
chosen='not setxattrat and not removexattrat and not native.other_user and not native.file_system_user and not native.not_kept
    and not footer.stderr_full and not net.unspec and not unix.pair'
engines=
while [ "${1:-}" = --engine ]; do
    [[ " $known " == *" ${2:-} "* ]] || fail "--engine is one of: $known"
    engines+=" $2"
    shift 2
done
[ "$(id -u)" = 0 ] || fail 'only root can start them'
[ -x build/callgate ] && [ -x build/callgate-tls ] && [ -x build/switched/callgate ] || fail 'build first: build/ lacks the program'
user=cg-engines  # whose podman is the rootless one

# The outer half: the account and the directory, and the namespaces in which the inner half is this script again.
if [ -z "${CALLGATE_ENGINES:-}" ]; then
    CALLGATE_ENGINES=$(mktemp -d /var/tmp/callgate-engines.XXXXXX)
    export CALLGATE_ENGINES CALLGATE_ENGINES_CHOSEN=${engines:-$known}
    chmod 0755 "$CALLGATE_ENGINES"
    trap 'userdel "$user"; rm -rf "$CALLGATE_ENGINES"' EXIT
    useradd --create-home --home-dir "$CALLGATE_ENGINES/home" --shell /bin/sh "$user"
    GOBIN=$CALLGATE_ENGINES go install sigs.k8s.io/cri-tools/cmd/crictl@v1.34.0 2>"$CALLGATE_ENGINES/said" || tail -1 "$CALLGATE_ENGINES/said" >&2
    unshare --net --mount --cgroup --pid --fork --kill-child --mount-proc --propagation private "$0" "$@" || exit 1
    exit 0
fi
work=$CALLGATE_ENGINES engines=$CALLGATE_ENGINES_CHOSEN

if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
    umount --lazy --recursive /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run  # engines keep state there
mkdir -p "$work"/{image/src/build,system/callgate/build/switched,runtimes,podman,docker,runtime-directory}
chown $user "$work/runtime-directory"

# An engine names the bundle's directory behind --bundle or -b.
for runtime in crun runc; do
    cat >"$work/runtimes/$runtime" <<TEXT
#!/bin/sh
for word in "\$@"; do
    case \$before in --bundle | -b) /usr/bin/python3 -c 'import json, sys
path = sys.argv[1] + "/config.json"
config = json.load(open(path))
config["process"].pop("rlimits", None)
json.dump(config, open(path, "w"))' "\$word" ;; esac
    before=\$word
done
exec $(command -v $runtime) "\$@"
TEXT
    chmod 0755 "$work/runtimes/$runtime"
done
cat >"$work/runtimes/containers.conf" <<TEXT
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
crun = ["$work/runtimes/crun"]
runc = ["$work/runtimes/runc"]
TEXT
if ! capsh --has-p=cap_sys_resource 2>/dev/null; then export CONTAINERS_CONF=$work/runtimes/containers.conf; fi
export STORAGE_DRIVER=vfs

# The images: the program's, whose first stage is what this build has made, and one with tests that takes the program from it.
root_store=(--root "$work/podman/store" --runroot "$work/podman/run")
strip -o "$work/image/src/build/callgate" build/callgate
cp build/callgate-tls "$work/image/src/build/"
buildah "${root_store[@]}" build --quiet --isolation chroot --build-context "build=$work/image" --tag callgate . >/dev/null
system=$work/system
mkdir -p "$system"/{usr,proc,sys,dev,run,tmp,root,home,var/tmp}
for one in bin sbin lib lib64; do ln -s "usr/$one" "$system/$one"; done
chmod 1777 "$system/tmp" "$system/var/tmp"
tar -c --ignore-failed-read /etc/{passwd,group,shadow,gshadow,nsswitch.conf,alternatives,login.defs,default,pam.d} \
    /etc/{ld.so.conf,ld.so.conf.d,ld.so.cache,services,protocols,localtime,profile,skel,ssl} 2>/dev/null | tar -x -C "$system"
sed -i "/^$user:/d" "$system"/etc/{passwd,shadow,group,gshadow}
cp -a rules agent supervisor python tests docs "$system/callgate/"
cp -a build/programs "$system/callgate/build/"
strip -o "$system/callgate/build/switched/callgate" build/switched/callgate
cat >"$system/Containerfile" <<'TEXT'
FROM scratch
COPY . /
COPY --from=localhost/callgate /usr/local/bin/callgate /callgate/build/callgate
TEXT
buildah "${root_store[@]}" build --quiet --isolation chroot --tag callgate-tests "$system" >/dev/null
mkdir "$work/pause"
printf '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n' | gcc -static -x c -o "$work/pause/pause" -
printf 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n' >"$work/pause/Containerfile"
buildah "${root_store[@]}" build --quiet --isolation chroot --tag pause "$work/pause" >/dev/null
for image in callgate callgate-tests pause; do
    buildah "${root_store[@]}" push --quiet "localhost/$image" "docker-archive:$work/$image.tar:localhost/$image:latest"
done

as_user() { setpriv --reuid $user --regid $user --init-groups env HOME="$work/home" XDG_RUNTIME_DIR="$work/runtime-directory" "$@"; }

# restricted NAME MANIFEST: starts the pod of a manifest on containerd, and sets `pod` and `place`.
restricted() {
    place=$work/$1
    mkdir "$place"
    # The tests' image has the program elsewhere: /usr/local is this system's.
    sed 's#\[callgate, #[/callgate/build/callgate, #' "docs/examples/$2" >"$place/manifest"
    tools/pod.py "$place/manifest" "$place" localhost/callgate-tests:latest /usr
    pod=$("${cri[@]}" runp "$place/pod.json")
    "${cri[@]}" start "$("${cri[@]}" create "$pod" "$place/container.json" "$place/pod.json")" >/dev/null
}

# job: the example of a job runs to its end, and does what it says.
job() {
    local said state
    restricted job kubernetes-job.yaml
    until state=$("${cri[@]}" ps --all --pod "$pod" --output json | python3 -c 'import json, sys; print(json.load(sys.stdin)["containers"][0]["state"])')
        [ "$state" = CONTAINER_EXITED ]; do sleep 0.1; done
    said=$(cut -d' ' -f4- "$place/log")
    "${cri[@]}" rmp --force "$pod" >/dev/null
    grep -qx 5050 <<<"$said" && grep -qx 'Connection refused' <<<"$said" && grep -q 'callgate: denied 1 call' <<<"$said" || { say "the job said: $said"; return 1; }
}

# servers: the example of job servers answers a job, asks for its token, and ends within its time after SIGTERM.
servers() {
    local url=http://127.0.0.1:8080 token said
    restricted servers kubernetes-servers.yaml
    token=$(cat "$place/volumes/token/token")
    until curl -sf "$url/healthz" >/dev/null; do
        "${cri[@]}" ps --quiet --pod "$pod" | grep -q . || { cat "$place/log" >&2; return 1; }
        sleep 0.1
    done
    said=$(curl -s -o /dev/null -w '%{http_code} ' "$url/v1/jobs" -d '{"code":"print(1)"}'
        curl -s "$url/v1/jobs" -H "Authorization: Bearer $token" -d '{"code":"print(6*7)\nopen(\"/token/token\")"}')
    "${cri[@]}" stopp "$pod" >/dev/null
    "${cri[@]}" rmp "$pod" >/dev/null
    [[ $said == '401 {"output":"42\n",'*PermissionError* ]] || { say "the servers said: $said"; return 1; }
}

# kubernetes: the rows of containerd.
kubernetes() {
    local begun=$SECONDS one
    for one in job servers; do
        if $one; then row containerd "kubernetes: $one" 0 1 $((SECONDS - begun)); else row containerd "kubernetes: $one" 1 0 $((SECONDS - begun)); fi
        begun=$SECONDS
    done
}

# gvisor: callgate names that kernel, and gives no flag of a container as remedy. runsc owns its stdin: not /dev/null.
gvisor() {
    local begun=$SECONDS said status=0
    said=$(: | runsc --platform=ptrace --network=none --ignore-cgroups do --quiet build/callgate doctor 2>&1) || true
    grep -q "^callgate run does not work here: this is gVisor's kernel" <<<"$said" && ! grep -q 'start the container with' <<<"$said" || status=1
    said=$(: | runsc --platform=ptrace --network=none --ignore-cgroups do --quiet build/callgate run -- /bin/echo RAN 2>&1) && status=1
    ! grep -q RAN <<<"$said" || status=1
    [ $status = 0 ] || say "gvisor: $said"
    row gvisor 'doctor and run' $status "${said#callgate: }" $((SECONDS - begun))
}

daemon=
# await_daemon PID LOG COMMAND...: until the command succeeds; false, with the end of the log, if the daemon ends before.
await_daemon() {
    daemon=$1
    until "${@:3}" >/dev/null 2>&1; do
        kill -0 "$daemon" 2>/dev/null || { tail -5 "$2" >&2; return 1; }
        sleep 0.1
    done
}

# start ENGINE: sets `engine` to its command, and `options` to those of a container.
start() {
    local socket=unix://$work/docker/socket image
    options=(--network none)
    case $1 in
        podman-crun) engine=(podman "${root_store[@]}" --runtime crun) options+=(--cgroups=disabled) ;;
        podman-runc) engine=(podman "${root_store[@]}" --runtime runc) options+=(--pids-limit=-1) ;;
        podman-rootless)
            engine=(as_user podman --runtime crun) options+=(--cgroups=disabled)
            for image in callgate callgate-tests; do (cd / && as_user podman load --quiet --input "$work/$image.tar" >/dev/null); done ;;
        containerd)
            cat >"$work/containerd.toml" <<TEXT
version = 2
root = "$work/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:latest"
  disable_apparmor = true
  disable_cgroup = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
TEXT
            containerd --config "$work/containerd.toml" >"$work/containerd.log" 2>&1 &
            await_daemon $! "$work/containerd.log" ctr --address /run/containerd.sock version || return 1
            for image in pause callgate-tests; do ctr --address /run/containerd.sock --namespace k8s.io images import "$work/$image.tar" >/dev/null; done
            cri=("$work/crictl" --config "$work/crictl.yaml" --runtime-endpoint unix:///run/containerd.sock --image-endpoint unix:///run/containerd.sock)
            touch "$work/crictl.yaml" ;;
        docker)
            engine=(docker --host "$socket") options+=(--sysctl net.ipv6.conf.all.disable_ipv6=0)
            dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs --data-root "$work/docker/data" \
                --exec-root "$work/docker/run" --host "$socket" --pidfile "$work/docker/pid" >"$work/docker/log" 2>&1 &
            await_daemon $! "$work/docker/log" docker --host "$socket" version || return 1
            for image in callgate callgate-tests; do docker --host "$socket" load --quiet --input "$work/$image.tar" >/dev/null; done ;;
    esac
}

stop() {
    [ -z "$daemon" ] || { kill "$daemon"; wait "$daemon" || true; }
    daemon=
}
trap stop EXIT

result=0
# row ENGINE WHAT STATUS SUMMARY SECONDS
row() {
    local word=passed
    [ "$3" = 0 ] || { word=FAILED; result=1; }
    printf '| %s | %s | %s | %s | %s |\n' "$1" "$2" $word "$4" "$5"
}

# The image as people use it: an entry point, doctor, and a server of jobs.
image() {
    local begun=$SECONDS said missing once=("${engine[@]}" run --rm "${options[@]}")
    said=$("${once[@]}" localhost/callgate --version) && [ "$said" = "$(build/callgate --version)" ] || { say "$1: --version: $said"; return 1; }
    said=$("${once[@]}" localhost/callgate doctor --json) || { say "$1: doctor: $said"; return 1; }
    missing=$(python3 -c 'import json, sys; print(" ".join(one["name"] for one in json.load(sys.stdin)["features"] if not one["present"]))' <<<"$said")
    said=$(printf '{"id": "%s", "command": ["/usr/local/bin/callgate", "--version"], "workdir": "/usr/local"}\n' a b c |
        "${once[@]}" --interactive --tmpfs /tmp localhost/callgate exec --serve --jobs 2) || { say "$1: exec --serve: $said"; return 1; }
    [ "$(grep -c '"exit_code": *0' <<<"$said")" = 3 ] || { say "$1: exec --serve: $said"; return 1; }
    row "$1" 'the image' 0 "without: $missing" $((SECONDS - begun))
}

# contained ENGINE TEST [PYTEST-ARGUMENTS]: status 5 of pytest: the arguments choose nothing of this test.
contained() {
    local name=$1 test=$2 begun=$SECONDS status=0 summary
    shift 2
    "${engine[@]}" exec "$container" /usr/bin/python3 -m pytest -q -rfEs --tb=short -p no:cacheprovider "e2e/test_$test.py" "$@" \
        </dev/null >"$work/said" 2>&1 || status=$?
    [ $status != 5 ] || return 0
    summary=$(sed -nE 's/^=*\ ?([0-9]+ (passed|failed|skipped|error).*) in [0-9.]+s.*/\1/p' "$work/said" | tail -1)
    [ $status = 0 ] || cat "$work/said" >&2
    row "$name" "e2e.$test" $status "${summary:-no summary}" $((SECONDS - begun))
}

# from_outside ENGINE: a container of podman whose calls callgate agent decides, by profile and annotation. The twin reads
# another file, and the control has another profile.
from_outside() {
    local begun=$SECONDS status=0 agent twin place=$work/$1-agent supervised
    mkdir -p "$place/rules"
    printf '%s' '{"version": 1, "rules": [{"id": "all", "allow": ["read", "execute"], "path": "/**"},
        {"id": "shadow", "deny": "read", "path": "/etc/shadow"}]}' >"$place/rules/web.json"
    words=(agent --listen "$place/socket" --rules-dir "$place/rules" --logs "$place/logs")
    build/callgate "${words[@]}" 2>"$work/agent.said" &
    agent=$!
    until grep -q 'listens' "$work/agent.said"; do kill -0 $agent || return 1; sleep 0.05; done
    build/callgate "${words[@]}" --seccomp-profile web >"$place/profile.json"
    once=("${engine[@]}" run --rm "${options[@]}" --volume /usr:/usr:ro)
    supervised=(--security-opt "seccomp=$place/profile.json" --annotation callgate.rules=web)
    "${once[@]}" localhost/callgate-tests /usr/bin/cat /etc/shadow | grep -q '^root:' || status=1
    twin=$("${once[@]}" "${supervised[@]}" localhost/callgate-tests /usr/bin/cat /etc/passwd) || status=1
    grep -q '^root:' <<<"$twin" || status=1
    ! "${once[@]}" "${supervised[@]}" localhost/callgate-tests /usr/bin/cat /etc/shadow 2>"$work/said" || status=1
    grep -q 'Permission denied' "$work/said" && grep -q 'denied 1 call' "$work/agent.said" || status=1
    # A process that is added to a container has the rules and the log of that container.
    "${once[@]}" "${supervised[@]}" --detach --name "$1-agent" localhost/callgate-tests /usr/bin/sleep 1000 >/dev/null || status=1
    "${engine[@]}" exec "$1-agent" /usr/bin/cat /etc/passwd | grep -q '^root:' || status=1
    ! "${engine[@]}" exec "$1-agent" /usr/bin/cat /etc/shadow 2>"$work/said" || status=1
    grep -q 'Permission denied' "$work/said" && [ "$(cat "$place/logs"/*.jsonl | grep -c '"run.start"')" = 3 ] || status=1
    "${engine[@]}" rm --force --time 0 "$1-agent" >/dev/null || status=1
    kill $agent
    [ $status = 0 ] || cat "$work/said" "$work/agent.said" >&2
    row "$1" 'callgate agent' $status 'control, twin and denial, also of an exec' $((SECONDS - begun))
}

# examples: every linter that there is for a file of docs/examples.
examples() {
    local linters=$(tools/venvs.sh --where)/examples/bin
    "$linters/check-jsonschema" --quiet --builtin-schema vendor.github-workflows docs/examples/github-actions.yml &&
        "$linters/check-jsonschema" --quiet --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci docs/examples/gitlab-ci.yml &&
        "$linters/zizmor" --quiet --offline docs/examples/github-actions.yml &&
        "$linters/kubernetes-validate" --quiet --strict docs/examples/kubernetes-*.yaml
}

echo '| engine | test | result | cases | seconds |'
echo '|---|---|---|---|---|'
if examples >"$work/said" 2>&1; then row none 'examples by linters' 0 "$(ls docs/examples | wc -l) files" 0; else cat "$work/said" >&2; row none 'examples by linters' 1 'see above' 0; fi
for name in $engines; do
    if [ "$name" = containerd ] && [ ! -x "$work/crictl" ]; then
        row containerd all 0 'NOT TESTED: crictl cannot be built' 0
        continue
    fi
    if [ "$name" = gvisor ]; then gvisor; continue; fi
    start "$name" || { row "$name" all 1 'did not start' 0; continue; }
    if [ "$name" = containerd ]; then
        kubernetes
        stop
        continue
    fi
    case $name in podman-crun | podman-runc) from_outside "$name" || row "$name" 'callgate agent' 1 'see above' 0 ;; esac
    image "$name" || row "$name" 'the image' 1 'see above' 0
    container=$("${engine[@]}" run --detach "${options[@]}" --volume /usr:/usr:ro --tmpfs /tmp:exec,mode=1777 --workdir /callgate/tests \
        --env PYTHONDONTWRITEBYTECODE=1 --env CALLGATE_TEST_CONTAINER=$name --env CALLGATE=/callgate/build/callgate \
        --env PROGRAMS=/callgate/build/programs --env CALLGATE_SWITCHED=/callgate/build/switched/callgate --env HOME=/root \
        --env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin --env LANG=C.UTF-8 localhost/callgate-tests /usr/bin/sleep infinity)
    for test in $tests; do
        if [ "$test" = attacks ] && [ $# = 0 ]; then
            contained "$name" attacks -k "$chosen"
        else
            contained "$name" "$test" "$@"
        fi
    done
    "${engine[@]}" rm --force --volumes "$container" >/dev/null
    stop
done
begun=$SECONDS status=0
(cd tests && env CALLGATE="$PWD/../build/callgate" CALLGATE_SWITCHED="$PWD/../build/switched/callgate" PROGRAMS="$PWD/../build/programs" \
    /usr/bin/python3 -m pytest -q -rfEs --tb=short -p no:cacheprovider e2e/test_agent_oci.py) </dev/null >"$work/said" 2>&1 || status=$?
[ $status = 0 ] || cat "$work/said" >&2
row 'runc, crun' e2e.agent_oci $status "$(sed -nE 's/^=*\ ?([0-9]+ (passed|failed|skipped|error).*) in [0-9.]+s.*/\1/p' "$work/said" | tail -1)" $((SECONDS - begun))
for left in docker libpod_parent; do find "/sys/fs/cgroup/$left" -depth -type d -exec rmdir {} \; 2>/dev/null || true; done
exit $result
