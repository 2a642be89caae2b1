const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { execFileSync, fork } = require('node:child_process');
const { test } = require('node:test');
const { sum, sumFile } = require('..');

test('sums', () => assert.strictEqual(sum(1, 2, 3), 6));

test('sums a file of a temporary directory', async () => {
  const place = fs.mkdtempSync(path.join(os.tmpdir(), 'summing-'));
  fs.writeFileSync(path.join(place, 'numbers'), '4 5 6');
  assert.strictEqual(await sumFile(path.join(place, 'numbers')), 15);
  fs.rmSync(place, { recursive: true });
});

test('a child by name and one by fork', async () => {
  assert.strictEqual(execFileSync('sort', ['-r'], { input: 'a\nb\n' }).toString(), 'b\na\n');
  const child = fork(path.join(__dirname, '..', 'child.js'));
  const answer = new Promise((resolve) => child.once('message', resolve));
  child.send([7, 8]);
  assert.strictEqual(await answer, 15);
});
