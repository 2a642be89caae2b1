# A package is built from a tree, looked into, and extracted again in each of the ways that there are.
set -eu
export SOURCE_DATE_EPOCH=1000000000
mkdir -p tree/DEBIAN tree/usr/bin tree/usr/share/doc/callgate-example tree/etc
cat >tree/DEBIAN/control <<'TEXT'
Package: callgate-example
Version: 1.2-3
Architecture: all
Maintainer: A Tester <tester@example.org>
Description: package of a test
 It holds a program, a setting and links.
TEXT
echo /etc/callgate-example >tree/DEBIAN/conffiles
printf '#!/bin/sh\nexit 0\n' >tree/DEBIAN/postinst
chmod 755 tree/DEBIAN/postinst
printf '#!/bin/sh\necho "an example $*"\n' >tree/usr/bin/callgate-example
chmod 755 tree/usr/bin/callgate-example
echo setting >tree/etc/callgate-example
seq 5000 >tree/usr/share/doc/callgate-example/numbers
ln -s numbers tree/usr/share/doc/callgate-example/link
ln tree/usr/bin/callgate-example tree/usr/bin/callgate-other
for compression in gzip xz zstd; do
    dpkg-deb --root-owner-group -Z$compression --build tree $compression.deb
done
dpkg-deb --info xz.deb
dpkg-deb --contents xz.deb
dpkg-deb --field xz.deb Package Version
dpkg-deb --vextract gzip.deb extracted
dpkg-deb --raw-extract zstd.deb raw
dpkg-deb --control xz.deb control
dpkg-deb --fsys-tarfile xz.deb | tar -t
extracted/usr/bin/callgate-example works
diff -r --no-dereference tree raw
ar t xz.deb
dpkg-deb --info missing.deb 2>&1 || echo "dpkg-deb says $?"
