def mean(values):
    """Compute the mean of a list of numbers."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def median(values):
    """Compute the median of a list of numbers."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def fibonacci(n):
    """Generate the first n Fibonacci numbers."""
    numbers, a, b = [], 0, 1
    for _ in range(n):
        numbers.append(a)
        a, b = b, a + b
    return numbers


def is_prime(n):
    """Test whether a number is prime."""
    if n < 2:
        return False
    return all(n % d for d in range(2, int(n**0.5) + 1))


def flatten(nested):
    """Flatten a list of lists into one list."""
    flat = []
    for inner in nested:
        flat.extend(inner)
    return flat


def chunks(items, size):
    """Split a list into chunks of equal size."""
    parts = []
    for start in range(0, len(items), size):
        parts.append(items[start : start + size])
    return parts


def merge_dicts(first, second):
    """Merge two dictionaries, of which the second one wins."""
    merged = dict(first)
    merged.update(second)
    return merged


def invert_dict(mapping):
    """Swap the keys and values of a dictionary."""
    return {value: key for key, value in mapping.items()}


def unique(items):
    """Remove duplicates from a list and keep the order."""
    seen, kept = set(), []
    for item in items:
        if item not in seen:
            seen.add(item)
            kept.append(item)
    return kept


def average(values):
    """Compute the mean of a list of numbers."""
    return sum(values) / len(values)
