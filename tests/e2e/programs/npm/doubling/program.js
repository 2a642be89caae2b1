#!/usr/bin/env node
console.log(require('./index.js')(Number(process.argv[2])));
