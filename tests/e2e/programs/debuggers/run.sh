# strace and gdb on children of theirs, and on a process of the run that they attach to.
set -eu
gcc -g -O0 -o counting counting.c
strace -o calls -e trace=write ./counting 1 2 3 || echo "ends with $?"
grep -c 'write(1, "total 6' calls
strace -f -o forked -e trace=openat,execve sh -c 'cat counting.c | head -n 1; ./counting 4; exit 3' || echo "ends with $?"
grep -c '"counting.c", O_RDONLY' forked
grep -c 'exited with' forked
strace -c -o summary ./counting 5 || echo "ends with $?"
grep -c ' execve$' summary

gdb --nx --quiet --batch -ex 'break add' -ex run -ex backtrace -ex 'print total' -ex 'set var number = 40' -ex continue \
    -ex continue --args ./counting 1 2 2>&1 | sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/process [0-9]+/process PID/g'

mkfifo input
./counting <input >output &
counting=$!
exec 7>input
until grep -q waits output 2>/dev/null; do kill -0 $counting; sleep 0.02; done
printf 'a' >&7
gdb --nx --quiet --batch -p $counting -ex 'print total' -ex 'set var total = 20' -ex detach 2>&1 | grep '^\$'
strace -o attached -e trace=read -p $counting 2>/dev/null 7>&- &
tracing=$!
until grep -q read attached 2>/dev/null; do kill -0 $tracing; sleep 0.02; done
exec 7>&-
wait $counting || echo "ends with $?"
wait $tracing || echo "strace ends with $?"
grep -c 'exited with 20' attached
rm input
gdb --nx --quiet --batch -ex 'run' --args ./missing 2>&1 || echo "gdb says $?"
