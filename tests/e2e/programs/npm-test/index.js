exports.sum = (...numbers) => numbers.reduce((a, b) => a + b, 0);
exports.sumFile = async (name) => exports.sum(...(await require('fs').promises.readFile(name, 'utf8')).split(/\s+/).map(Number));
