const assert = require('node:assert');
const fs = require('node:fs');
const { test } = require('node:test');

test('what changes is noticed', async () => {
  fs.writeFileSync('watched', '');
  const noticed = new Promise((resolve) => {
    const watcher = fs.watch('watched', () => {
      watcher.close();
      resolve(true);
    });
  });
  fs.appendFileSync('watched', 'more');
  assert.ok(await noticed);
});
