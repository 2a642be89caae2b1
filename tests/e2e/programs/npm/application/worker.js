const { Worker } = require('worker_threads');
const source = "require('worker_threads').parentPort.postMessage(require('fs').readFileSync('done', 'utf8'))";
new Worker(source, { eval: true }).on('message', (text) => console.log('worker', text));
