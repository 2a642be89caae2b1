const { sum } = require('.');
process.once('message', (numbers) => {
  process.send(sum(...numbers));
  process.disconnect();
});
