# gcc by itself, with -pipe and without, and twenty objects by make with two jobs.
set -eu
gcc -O1 -c one.c -o one.o
gcc -pipe -O1 -g -save-temps=obj -c one.c -o kept.o
gcc one.o -o one
./one
for number in $(seq 20); do printf 'int f%d(void) { return %d; }\n' "$number" "$number" >"part$number.c"; done
make -j2 --output-sync=target >made
sort made
./sum
make
make clean
gcc -c missing.c 2>&1 || echo "gcc says $?"
