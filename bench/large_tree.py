"""Generates a large source tree: the same one for the same arguments.

    python large_tree.py TREE [--files 150000] [--seed 1]

Small modules in Python, Go, TypeScript and Java, about 2 KB each, of functions whose names, comments and bodies are drawn
from a vocabulary with the frequencies of words in code: few of them often, most of them rarely. What is generated is to
be indexed for its size; nothing about the ranking can be learnt from it. A tree of a hundred files to the directory.
"""

import argparse
import random
from pathlib import Path

FILES_IN_DIRECTORY = 100
DIRECTORIES_IN_DIRECTORY = 40
FUNCTIONS = (3, 7)

VERBS = "read write open close parse merge split load store send fetch retry count find sort pack encode check build list".split()
NOUNS = (
    "header buffer socket record table index cache queue token session packet stream column schema frame route cursor "
    "window policy signal channel bucket ledger digest vector matrix cluster tenant invoice account device sensor volume "
    "backup snapshot replica shard thread worker job batch filter parser lexer symbol module package archive manifest"
).split()

PYTHON = '''def {verb}_{noun}_{number}({a}, {b}=None):
    """{sentence}"""
    {c} = []
    for item in {a}.{noun}s():
        if item.{word} is None or {b} is None:
            continue
        {c}.append({helper}(item, {b}))
    return {c}
'''
GO = '''// {Verb}{Noun}{number} {sentence}
func {Verb}{Noun}{number}({a} *{Noun}, {b} int) ([]{Word}, error) {{
	var {c} []{Word}
	for i := 0; i < {b}; i++ {{
		item, err := {a}.{Helper}(i)
		if err != nil {{
			return nil, err
		}}
		{c} = append({c}, item)
	}}
	return {c}, nil
}}
'''
TYPESCRIPT = '''/** {sentence} */
export function {verb}{Noun}{number}({a}: {Noun}, {b}?: number): {Word}[] {{
  const {c}: {Word}[] = [];
  for (const item of {a}.{noun}s) {{
    if (item.{word} === {b}) {{
      continue;
    }}
    {c}.push({helper}(item));
  }}
  return {c};
}}
'''
JAVA = '''    /** {sentence} */
    public List<{Word}> {verb}{Noun}{number}({Noun} {a}, int {b}) {{
        List<{Word}> {c} = new ArrayList<>();
        for (int i = 0; i < {b}; i++) {{
            {c}.add({a}.{helper}(i));
        }}
        return {c};
    }}
'''
# Name, text before the functions, one function, text after them.
LANGUAGES = [
    ("{noun}_{number}.py", '"""{sentence}"""\n\nimport {word}\n', PYTHON, ""),
    ("{noun}_{number}.go", "package {word}\n", GO, ""),
    ("{noun}{Word}{number}.ts", "import {{ {Word} }} from './{word}';\n", TYPESCRIPT, ""),
    ("{Noun}{number}.java", "package org.example.{word};\n\npublic class {Noun}{number} {{\n", JAVA, "}}\n"),
]


def vocabulary(drawn: random.Random) -> tuple[list[str], list[float]]:
    """Words with their frequencies: the n-th is 1/n times as frequent as the first."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    made = {"".join(drawn.choices(syllables, k=drawn.randint(2, 4))) for _ in range(30_000)}
    words = NOUNS + sorted(made)
    return words, [1 / rank for rank in range(1, len(words) + 1)]


class Generator:
    def __init__(self, seed: int):
        self.drawn = random.Random(seed)
        self.words, weights = vocabulary(self.drawn)
        self.frequencies = [sum(weights[: 1])]
        for weight in weights[1:]:
            self.frequencies.append(self.frequencies[-1] + weight)

    def some(self, count: int) -> list[str]:
        return self.drawn.choices(self.words, cum_weights=self.frequencies, k=count)

    def names(self, number: int) -> dict[str, str | int]:
        verb, noun = self.drawn.choice(VERBS), self.drawn.choice(NOUNS)
        word, helper, a, b, c, *sentence = self.some(5 + self.drawn.randint(5, 14))
        plain = {"verb": verb, "noun": noun, "word": word, "helper": f"{verb}_{helper}", "number": number}
        capital = {"Verb": verb.title(), "Noun": noun.title(), "Word": word.title(), "Helper": helper.title()}
        text = f"{verb.title()}s the {noun} of a {' '.join(sentence)}."
        return plain | capital | {"a": f"{a}_a", "b": f"{b}_b", "c": f"{c}_c", "sentence": text}

    def file(self, number: int) -> tuple[str, str]:
        name, head, function, end = self.drawn.choice(LANGUAGES)
        names = self.names(number)
        functions = [function.format(**self.names(n)) for n in range(self.drawn.randint(*FUNCTIONS))]
        return name.format(**names), "\n".join([head.format(**names), *functions]) + end.format(**names)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("tree", type=Path)
    arguments.add_argument("--files", type=int, default=150_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    generator = Generator(given.seed)
    total = 0
    for number in range(given.files):
        directory = number // FILES_IN_DIRECTORY
        below = f"part{directory // DIRECTORIES_IN_DIRECTORY:02}/package{directory % DIRECTORIES_IN_DIRECTORY:02}"
        name, text = generator.file(number)
        path = given.tree / below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        total += len(text)
    print(f"{given.files} files, {total / 1e6:.0f} MB in {given.tree}")


if __name__ == "__main__":
    main()
