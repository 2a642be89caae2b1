// Files by callback, promise and stream, a child and a pipe: libuv's thread pool makes the calls.
const fs = require('fs');
const { execFileSync } = require('child_process');
const doubling = require('doubling');

async function main() {
  await fs.promises.mkdir('out/deep', { recursive: true });
  await Promise.all([...Array(50).keys()].map((n) => fs.promises.writeFile(`out/deep/${n}`, String(doubling(n)))));
  const read = await Promise.all((await fs.promises.readdir('out/deep')).map((n) => fs.promises.readFile(`out/deep/${n}`, 'utf8')));
  console.log(read.map(Number).reduce((a, b) => a + b));
  console.log(execFileSync('sort', ['-r'], { input: 'a\nb\n' }).toString());
  await fs.promises.rm('out', { recursive: true });
  fs.writeFileSync('done', 'yes');
}

main();
