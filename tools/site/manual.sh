#!/bin/bash
# tools/site/manual.sh DIRECTORY: the manual pages beneath DIRECTORY as one page of the site, by mandoc.
set -euo pipefail
echo '# Manual pages'
echo
echo 'Every package installs these pages for `man`. They are made from the table of options and the schema of rules.'
for page in "$1"/man1/callgate.1.gz "$1"/man1/callgate-*.1.gz "$1"/man5/*.gz "$1"/man7/*.gz; do
    name=$(basename "$page" .gz)
    echo
    echo "## ${name%.*}(${name##*.})"
    # The first and the last line are those of a printed page. Headings stand beneath the page's own.
    zcat "$page" | mandoc -T markdown | sed -e '1d;$d' -e 's/^#/##/'
done
