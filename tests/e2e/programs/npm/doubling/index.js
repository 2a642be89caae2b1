module.exports = (number) => 2 * number;
