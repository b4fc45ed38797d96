def total(prices, tax=rate, *, start: int = 0):
    """Sum of all prices."""
    result, count = start, 0
    # one by one
    for price in prices:
        if price > 0:
            result += price * tax
            count += 1
        elif price is None:
            continue
        else:
            print("bad: " + str(price))
    pairs = [(a, b) for a, b in zip(prices, prices[1:]) if a]
    while count > 10:
        count = count - 1
    self.total = result
    x: int
    return result / count, pairs
