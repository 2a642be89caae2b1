# Links, modes, times and sparse files through tar and xz, and back.
set -eu
mkdir -p tree/deep
for number in $(seq 200); do echo "$number" >"tree/deep/$number"; done
ln tree/deep/1 tree/hard
ln -s deep/2 tree/soft
ln -s nowhere tree/dangling
mkfifo tree/fifo
chmod 640 tree/deep/3
# Only an ordinary user's tar expects that it may not write there: root's does not know that its command has no capabilities.
[ "$(id -u)" = 0 ] || chmod 555 tree/deep
truncate -s 1M tree/sparse
find tree -exec touch -h -d '2001-01-01T00:00:00Z' {} +
tar --sort=name -cJf tree.tar.xz tree
tar -tJvf tree.tar.xz
mkdir out
tar -xJf tree.tar.xz -C out
diff -r --no-dereference out/tree/deep tree/deep && echo same
find out -printf '%y %m %n %TY %p %l\n' | sort
xz -dk tree.tar.xz
tar --sparse -cf sparse.tar tree/sparse
xz -T2 -9 sparse.tar
xz -t sparse.tar.xz tree.tar.xz
tar -rf tree.tar tree/soft
tar --delete -f tree.tar tree/hard
tar -tf tree.tar | tail -1
tar -xf missing.tar 2>&1 || echo "tar says $?"
chmod 755 tree/deep out/tree/deep
rm -r out
