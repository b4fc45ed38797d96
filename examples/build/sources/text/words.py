"""Small functions on text."""

import re


def count_words(text):
    """Count how often each word occurs in a text."""
    counts = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def reverse_words(sentence):
    """Reverse the order of the words in a sentence."""
    words = sentence.split()
    words.reverse()
    return " ".join(words)


def is_palindrome(text):
    """Check whether a text reads the same backwards."""
    letters = [c for c in text.lower() if c.isalnum()]
    return letters == letters[::-1]


def longest_word(words):
    """Find the longest word in a list of words."""
    longest = ""
    for word in words:
        if len(word) > len(longest):
            longest = word
    return longest


def snake_case(name):
    """Convert a camel case name to snake case."""
    parts = re.findall("[A-Z]?[a-z0-9]+|[A-Z]+", name)
    return "_".join(part.lower() for part in parts)


def remove_vowels(text):
    """Remove all vowels from a string."""
    kept = [c for c in text if c.lower() not in "aeiou"]
    return "".join(kept)


def print_banner(text):
    """Print a text with a line of stars above and below."""
    print("*" * len(text))
    print(text)
    print("*" * len(text))


def version():
    """Get the version of this module."""
    return "1.0"
