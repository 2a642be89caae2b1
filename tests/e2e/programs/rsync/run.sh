# Local copies: a tree with all kinds of files, what changed in it, hard links, attributes, and what is deleted.
set -eu
mkdir -p from/deep/er from/empty
for number in $(seq 100); do echo "$number" >"from/deep/$number"; done
seq 100000 >from/large
ln from/deep/1 from/deep/hard
ln -s deep/2 from/soft
ln -s nowhere from/dangling
mkfifo from/fifo
chmod 640 from/deep/3
chmod 2750 from/deep/er
truncate -s 1M from/sparse
attributes() { /usr/bin/python3 -B attributes.py "$@"; }
attributes set from/large from/deep/5 from/deep
setfacl -m u:1:rw,g:2:- from/deep/7 2>&1 || echo 'no lists here'
setfacl -d -m u:1:rwx from/empty 2>&1 || echo 'no lists here'
find from -exec touch -h -d '2001-01-01T00:00:00Z' {} +
listed() { (cd "$1" && find . -printf '%y %m %n %TY %p %l\n' | sort); }
rsync -aHS --itemize-changes from/ to
listed from >listed
listed to | diff listed - && echo same
rsync -aH --itemize-changes from/ to
attributes show to/large to/deep/5 to/deep
rsync -aHAX --itemize-changes from/ to
attributes show to/large to/deep/5 to/deep
getfacl to/deep/7 to/empty
attributes set from/deep/6
rsync -aX --itemize-changes from/deep to
attributes show to/deep/6
echo more >>from/large
touch -d '2002-02-02T00:00:00Z' from/large
rm from/deep/50
mv from/deep/51 from/deep/renamed
chmod 600 from/deep/4
rsync -aH --delete --itemize-changes --inplace --no-whole-file --backup --backup-dir="$PWD/kept" from/ to
listed kept
echo behind >to/deep/5
rsync -a --checksum --itemize-changes --link-dest="$PWD/from" from/ linked
rsync -rc --delay-updates --itemize-changes --exclude '*1*' from/deep to
rsync -a --remove-source-files linked/deep/ moved
listed moved | wc -l
rsync -a missing/ to 2>&1 | sed 's/ at .*//; s/ (code.*//' || true
