"""Makes issues of commit messages, which `bench/fit_issues.py --more` learns from besides real ones.

    python bench/commit_issues.py QUARRY MIRRORS OUT        # bare clones: MIRRORS/owner+name, or .../repo below

For each repository of commit-issues-sources.tsv, messages with 40 to 700 words that speak of something wrong and name their
pull request or issue become an export of issues. `quarry data build` finds the functions that the commits changed, and
`quarry eval localize` ranks the functions of a tree before them: OUT/owner+name/features.jsonl. Issues that follow each other
share the tree before the first of them, so that fewer trees are indexed; functions that it lacks do not count. What is there is
kept, so that a run can be continued. MIRRORS may hold a part of the repositories.
"""

import csv
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).with_name("commit-issues-sources.tsv")
# Messages of a repository, before those are left out that change no function or many.
MESSAGES = 220
# Issues that share a tree.
GROUP = 10
WORDS = range(40, 701)
TRAILER = re.compile(r"^\s*(signed-off-by|co-authored-by|reviewed-by|acked-by|cc|change-id|tested-by|pull request|pr-url|\* |---)", re.I)
CLOSED = re.compile(r"\b(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?)\b[:\s]+[\w./-]*#(\d+)", re.I)
PREFIX = re.compile(r"\s*\(#\d+\)|^\s*\[[^\]]{1,30}\]\s*|^(feat|fix|perf|bug|bugfix)(\([^)]*\))?!?:\s*", re.I)
WRONG = re.compile(r"\b(fix|bug|crash|error|exception|fail|regress|wrong|incorrect|issue|should|traceback|instead of)", re.I)
CHORE = re.compile(
    r"^(merge|revert|bump|release|version|typo|update|format|docs?\b|readme|changelog|tests?\b|ci\b|chore|build\b|refactor"
    r"|rename|clean|black|ruff|pre-commit|prepare|back ?port|mypy|typing|build\()",
    re.I,
)
PLAN = """[[sources]]
name = "tree"
kind = "git"
path = "clone"
revision = "{commit}"
repository = "{repository}"

[[queries]]
name = "commits"
kind = "issues"
path = "issues.json"
sources = ["tree"]

[[exports]]
format = "localize"
"""


def messages(mirror, commit):
    """The messages of a history that may be issues, newest first, each with its number."""
    log = ["git", f"--git-dir={mirror}", "log", "--no-merges", "--format=%s%x00%b%x01", commit]
    seen = set()
    for message in subprocess.run(log, check=True, stdout=subprocess.PIPE).stdout.decode("utf-8", "replace").split("\x01"):
        subject, _, body = message.strip("\n").partition("\x00")
        named = re.search(r"\(#(\d+)\)", subject) or CLOSED.search(body)
        if not named or named[1] in seen or CHORE.match(subject):
            continue
        lines = body.replace("\r", "").split("\n")
        body = "\n".join(line for line in lines if not TRAILER.match(line)).strip()
        if len(body.split()) in WORDS and WRONG.search(f"{subject} {body}"):
            seen.add(named[1])
            yield {"number": int(named[1]), "title": PREFIX.sub("", subject).strip(), "body": body, "state": "closed"}


def grouped(issues, mirror):
    """Issues in the order of their commits, each of a group with the commit of the oldest."""
    show = ["git", f"--git-dir={mirror}", "show", "-s", "--format=%ct"]
    time = lambda issue: int(subprocess.run([*show, issue["commit"]], check=True, stdout=subprocess.PIPE).stdout)
    ordered = sorted(issues, key=time)
    return [issue | {"commit": ordered[at - at % GROUP]["commit"]} for at, issue in enumerate(ordered)]


def main(quarry, mirrors, out):
    for source in csv.DictReader(open(SOURCES), delimiter="\t"):
        repository, commit = source["repository"], source["commit"]
        name = repository.replace("/", "+")
        directory = Path(out) / name
        if (directory / "features.jsonl").exists():
            continue
        mirror = Path(mirrors) / name
        mirror = mirror / "repo" if (mirror / "repo").is_dir() else mirror
        if not mirror.is_dir():
            continue
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / "clone").exists():
            clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", mirror.resolve(), directory / "clone"]
            subprocess.run(clone, check=True)
        found = list(messages(mirror, commit))
        random.Random(1).shuffle(found)
        (directory / "issues.json").write_text(json.dumps(found[:MESSAGES]))
        (directory / "plan.toml").write_text(PLAN.format(commit=commit, repository=repository))
        subprocess.run([quarry, "data", "build", directory / "plan.toml"], check=True)
        exported = map(json.loads, open(directory / "plan.build/exports/localize/issues.jsonl"))
        issues, part, work = directory / "issues.jsonl", directory / "features.part", directory / "work"
        issues.write_text("".join(json.dumps(issue) + "\n" for issue in grouped(exported, mirror)))
        localize = [quarry, "eval", "localize", issues, "--repos", mirrors, "--work", work, "--features", part]
        subprocess.run(localize, check=True)
        shutil.rmtree(work)
        part.rename(directory / "features.jsonl")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
