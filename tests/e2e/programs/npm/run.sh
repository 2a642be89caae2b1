# A package is packed, installed from its tarball without network, and used; then a script of package.json is run.
# Without audit: the default profile switches off what asks the network unbidden.
set -eu
node --version >/dev/null
(cd doubling && npm pack --silent --pack-destination ..)
cd application
npm install --offline --no-fund --no-audit ../doubling-1.0.0.tgz
npm ls
npm run --silent start
node_modules/.bin/doubling 4
npm uninstall --offline --no-fund --no-audit doubling
node worker.js
