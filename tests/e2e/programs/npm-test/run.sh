# The tests of a small package, in processes of their own, with what runs before and after; then a test that fails.
# Without the notifier: the default profile switches off what asks the network unbidden.
set -eu
export npm_config_update_notifier=false
npm test 2>&1
cat >test/failing.test.js <<'TEXT'
require('node:test').test('fails', () => require('node:assert').ok(false));
TEXT
npm test --silent >/dev/null 2>&1 || echo "npm says $?"
