#!/bin/bash
# tools/site/build.sh [--install]: the pages as a site of static files, build/site. --install only installs the generator.
#
# The generator is mkdocs-material, in a virtual environment of the build directory, with pip's own settings. A warning, such as
# a link or an anchor that leads nowhere, is an error. Its search on a disk wants one script from a network; npm brings that. CALLGATE_SITE names another directory than build/site, absolute.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
venv=$PWD/build/site-venv pages=build/site-pages site=${CALLGATE_SITE:-$PWD/build/site}
wanted=tools/site/requirements.txt
if ! cmp -s "$wanted" "$venv/installed.txt"; then
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input -r "$wanted" </dev/null >&2
    (cd "$venv" && npm pack --silent iframe-worker@1.0.4 </dev/null >/dev/null && tar -xzf iframe-worker-*.tgz package/shim/index.js)
    cp "$wanted" "$venv/installed.txt"
fi
[ "${1:-}" != --install ] || exit 0

rm -rf "$pages"
mkdir -p "$pages/docs"
cp -- *.md LICENSE "$pages/"
cp -r docs/. "$pages/docs/"
cp tools/site/site.css "$pages/"
tools/site/manual.sh build/share/man >build/site-pages/docs/manual.md
tools/site/messages.py >build/site-pages/docs/messages.md
# What pages link to and the site does not show as a page.
for file in rules/rules.schema.json supervisor/audit/audit.schema.json; do
    mkdir -p "$pages/$(dirname "$file")"
    cp "$file" "$pages/$file"
done
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict --clean --config-file tools/site/mkdocs.yml --site-dir "$site"

cp "$venv/package/shim/index.js" "$site/assets/javascripts/iframe-worker.js"
find "$site" -name '*.html' -print0 | while IFS= read -r -d '' page; do
    beneath=${page#"$site/"}
    up=$(sed 's|[^/]*/|../|g; s|[^/]*$||' <<<"$beneath")
    sed -i "s|https://unpkg.com/iframe-worker/shim|${up}assets/javascripts/iframe-worker.js|" "$page"
done
echo "$site"
