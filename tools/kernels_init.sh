#!/bin/bash
# The first process of a guest of tools/kernels.sh: what a test needs of a system, pytest, power off.
#
# The serial line `report` carries the report. Whatever goes wrong, the guest ends: a panic (this process ended) ends
# QEMU too.
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
for pair in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
    [ -e "/dev/${pair%%:*}" ] || ln -s "${pair#*:}" "/dev/${pair%%:*}"
done
# As Debian's own systems have them.
for setting in protected_symlinks protected_hardlinks protected_fifos; do echo 1 >"/proc/sys/fs/$setting"; done
echo 2 >/proc/sys/fs/protected_regular
echo 0 >/proc/sys/kernel/yama/ptrace_scope
# The kernel passes `report=LINE` and `selections=SERIES` of its command line on as variables.
stty -F "/dev/$report" raw -echo
exec >"/dev/$report" 2>&1 </dev/null
python3 - "/callgate/unix_diag.ko.$selections" <<'PYTHON'
import ctypes, fcntl, os, socket, struct, sys
if os.path.exists(sys.argv[1]):
    image = open(sys.argv[1], "rb").read()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(105 if os.uname().machine == "aarch64" else 175, image, ctypes.c_ulong(len(image)), b""):  # init_module
        print("kernels: unix_diag:", os.strerror(ctypes.get_errno()))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:  # lo: up
    fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
PYTHON
cd /callgate
echo "kernels: $(uname -r)"
export CALLGATE=$PWD/build/callgate PROGRAMS=$PWD/build/programs CALLGATE_SWITCHED=$PWD/build/switched/callgate
export PYTHONDONTWRITEBYTECODE=1 CALLGATE_TEST_PATIENCE=15
echo "kernels: Landlock ABI $("$CALLGATE" doctor --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["landlock_abi"])')"
result=0
while read -r line <&3; do
    eval "set -- $line"
    status=0 begun=$SECONDS
    echo "kernels: $line ($SECONDS s)"
    # A session of its own: a test that looks for orphans must not take this process for a reaper of its own.
    setsid --wait /usr/bin/python3 -m pytest -q -rfEs --tb=short -p no:cacheprovider "$@" 3<&- || status=$?
    echo "kernels: done $status $((SECONDS - begun)) $line"
    [ $status = 0 ] || result=$status
done 3<"selections.$selections"
echo "kernels: pytest ended with $result"
sync
echo o >/proc/sysrq-trigger
while :; do sleep 60; done
