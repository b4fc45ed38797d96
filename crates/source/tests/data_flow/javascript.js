function total(prices, { tax = 0.2 } = {}) {
  let result = 0, n;
  // each
  for (var i = 0; i < prices.length; i++) {
    if (prices[i] > 1) {
      result += prices[i] * tax;
    } else if (i) {
      n = 1;
    } else {
      result -= 1;
    }
  }
  for (const p of prices) { log(`x ${p}`); }
  while (n < 3) n++;
  const f = (a = 1) => a + result;
  return f('x', "y");
}
