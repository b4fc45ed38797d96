"""Makes issues of a table of questions, for the features of `quarry eval localize`.

    python bench/questions_as_issues.py CHECKOUTS OUT TABLE...
    quarry eval localize OUT/questions.jsonl --repos OUT/mirrors --features questions.jsonl

CHECKOUTS is what `quarry eval repo-search` reads; OUT/mirrors gets a clone of each directory there that is searched. Only questions
whose answers have lines are kept.
"""

import csv
import json
import re
import sys
from pathlib import Path

from description_queries import commit_of


def main():
    checkouts, out, *tables = map(Path, sys.argv[1:])
    (out / "mirrors").mkdir(parents=True, exist_ok=True)
    commits = {}
    with (out / "questions.jsonl").open("w") as issues:
        for table in tables:
            for number, row in enumerate(csv.DictReader(table.open(), delimiter="\t")):
                answers = [re.fullmatch(r"(.+):(\d+)-(\d+)", answer) for answer in f"{row['relevant']},{row['secondary']}".split(",") if answer]
                if not answers or not all(answers):
                    continue
                tree = (checkouts / row["repo"] / row["root"]).resolve()
                name = "-".join([row["repo"], *Path(row["root"]).parts])
                if name not in commits:
                    commits[name] = commit_of(tree, (out / "mirrors" / name).resolve())
                below = f"{row['root']}/" if row["root"] else ""
                lines = [{"path": path.removeprefix(below), "start": int(start), "end": int(end)}
                         for path, start, end in (answer.groups() for answer in answers)]
                issue = {"id": f"{table.stem}-{number}", "source": "question", "repository": f"questions/{name}",
                         "commit": commits[name], "text": row["query"], "lines": lines}
                issues.write(json.dumps(issue) + "\n")


if __name__ == "__main__":
    main()
