"""How often the function that prints a message comes first when the message is pasted.

    python bench/pasted_messages.py quarry TREES

TREES has a directory for each source tree. Five near-unique string literals of four words or more are drawn from each, outside of
tests, examples, documentation and minified files, and asked verbatim and with their placeholders filled. Where a literal occurs twice,
both functions print it, and either counts; the number of answers that count only for this reason is printed too.
"""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

ENDINGS = {".py", ".js", ".ts", ".tsx", ".go", ".java", ".kt", ".c", ".cpp", ".rs", ".rb", ".cs", ".php"}
LEFT_OUT = re.compile(r"(^|/)(tests?|spec|__tests__|examples?|docs?|fixtures|vendor|demo)(/|$)|test[_.]|[_.]test\.|[_.]spec\.|Test\.|\.min\.")
LITERAL = re.compile(
    r"(?:Error|Exception|panic|throw|raise|log|warn|error|fail|bail|format|print|assert|expect|abort)"
    r"[^\n\"']{0,60}[\"']([A-Za-z][^\"'\n\\]{18,120})[\"']"
)
PLACEHOLDER = re.compile(r"%\(\w+\)[sdr]|%[-+0-9.]*[sdrvqwfixu]|\$\{[^}]*\}|#\{[^}]*\}|\{[^}]*\}")
# Length of a line from which on its file is minified or generated.
MINIFIED = 2000
VALUES = ["/tmp/data/x1.bin", "'foo'", "42", "7.5", '"bar"']


def draw(tree):
    texts = {}
    for path in sorted(tree.rglob("*")):
        if path.is_file() and path.suffix in ENDINGS | {".md", ".rst", ".txt"}:
            texts[path.relative_to(tree).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    found = []
    for path, text in texts.items():
        if Path(path).suffix in ENDINGS and not LEFT_OUT.search(path) and max(map(len, text.splitlines()), default=0) < MINIFIED:
            # Tests of Rust are at the end of a file.
            for match in LITERAL.finditer(text.split("#[cfg(test)]")[0]):
                message = match.group(1)
                if len(message.split()) >= 4 and sum(c.isalpha() for c in message) > 15:
                    found.append((message, (path, text.count("\n", 0, match.start(1)) + 1)))
    random.shuffle(found)
    drawn = []
    for message, drawn_at in found:
        places = [
            (path, text.count("\n", 0, match.start()) + 1)
            for path, text in texts.items()
            for match in re.finditer(re.escape(message), text)
        ]
        if len(places) <= 2:
            drawn.append((message, [drawn_at] + [place for place in places if place != drawn_at]))
        if len(drawn) == 5:
            break
    return drawn


def rank(program, tree, message, places):
    """The rank of the best result that has one of the places, and whether it has the first of these."""
    command = [program, "search", "-", str(tree), "--json", "-k", "3", "--quality", "fast"]
    answer = subprocess.run(command, input=message, capture_output=True, text=True, check=False)
    if not answer.stdout:
        return None, False
    for result in json.loads(answer.stdout)["results"]:
        for place in places:
            if result["path"] == place[0] and result["start_line"] <= place[1] <= result["end_line"]:
                return result["rank"], place == places[0]
    return None, False


def main():
    program, trees = sys.argv[1], Path(sys.argv[2])
    random.seed(36)
    ranks = {"verbatim": [], "filled": []}
    for tree in sorted(path for path in trees.iterdir() if path.is_dir()):
        for number, (message, places) in enumerate(draw(tree)):
            values = iter(VALUES[number:] + VALUES * 9)
            filled = PLACEHOLDER.sub(lambda _: next(values), message)
            for kind, text in (("verbatim", message), ("filled", filled)):
                ranks[kind].append(rank(program, tree, text, places))
    for kind, found in ranks.items():
        first, among = sum(r == 1 for r, _ in found), sum(r is not None for r, _ in found)
        other = sum(r == 1 and not is_drawn for r, is_drawn in found)
        print(f"{kind}: first for {first} of {len(found)} (for {other} the other place), among the first three for {among}")


if __name__ == "__main__":
    main()
