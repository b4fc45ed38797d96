"""Compares `quarry callers` with calls that were counted by hand (calls.tsv): recall and precision in ten languages.

A row of the table is a definition in a repository at a commit, and the lines that call it, found with a text search and
read one by one. Recall is over all lines that the program lists, precision over those that it does not mark as matched
by name only. Calls in documents are not counted.

    git clone https://github.com/OWNER/NAME CLONES/NAME && git -C CLONES/NAME checkout COMMIT   # each of calls.tsv
    python check_calls.py QUARRY CLONES [--wrong]
"""

import csv
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

DOCUMENTS = {".adoc", ".html", ".md", ".mdx", ".rst", ".txt"}


def listed(quarry, checkout, index, definition):
    """The lines that call a definition, and whether each is certain."""
    command = [quarry, "callers", definition, ".", "--index", index, "--json", "-k", "1000000"]
    done = subprocess.run(command, cwd=checkout, capture_output=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{definition}: {done.stderr.decode()}")
    lines = {}
    for site in json.loads(done.stdout)["callers"]:
        if Path(site["path"]).suffix not in DOCUMENTS:
            line = f"{site['path']}:{site['line']}"
            lines[line] = lines.get(line, False) or site["certain"]
    return lines


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    quarry, clones, shows_wrong = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), "--wrong" in sys.argv
    with open(Path(__file__).with_name("calls.tsv")) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    counts = defaultdict(lambda: defaultdict(int))
    with tempfile.TemporaryDirectory() as directory:
        for row in rows:
            name = row["repository"].split("/")[1]
            calls = set(row["calls"].split(" "))
            found = listed(quarry, clones / name, Path(directory) / name, row["definition"])
            certain = {line for line, is_certain in found.items() if is_certain}
            count = counts[row["language"], row["repository"]]
            count["functions"] += 1
            count["calls"] += len(calls)
            count["found"] += len(calls & found.keys())
            count["certain"] += len(certain)
            count["right"] += len(calls & certain)
            count["listed"] += len(found)
            if shows_wrong:
                for kind, lines in [("missing", calls - found.keys()), ("wrong", certain - calls)]:
                    for line in sorted(lines):
                        print(f"{kind} call of {row['name']} ({row['definition']}): {name}/{line}")
                print(f"{row['name']}: {len(calls & certain)} certain of {len(calls)}, {len(found)} listed")
    print("| Language | Repository | Functions | Calls | Recall | Certain | Precision of these |")
    print("|---|---|---|---|---|---|---|")
    for (language, repository), count in counts.items():
        ratio = lambda part, whole: f"{part / whole:.3f}" if whole else "–"
        print(
            f"| {language} | {repository} | {count['functions']} | {count['calls']} | "
            f"{ratio(count['found'], count['calls'])} | {ratio(count['right'], count['calls'])} | "
            f"{ratio(count['right'], count['certain'])} |"
        )


main()
