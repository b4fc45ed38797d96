"""Makes questions of documentation: descriptions of 40 words and more (--min-words), hidden from the function that they describe.

    python bench/description_queries.py bench/description-queries-sources.tsv MIRRORS OUT
    quarry eval repo-search OUT/descriptions.tsv --repos OUT/trees
    quarry eval localize OUT/descriptions.jsonl --repos OUT/mirrors --features OUT/features.jsonl

MIRRORS holds clones named OWNER+NAME, bare or not, or with such a clone in a directory `repo`. OUT/trees gets the sources of
each repository without the documentation of functions, lines unchanged, and OUT/mirrors the same as clones; both tables
have one question per function, answered by the line of its definition. The texts are those of the repositories and are not
committed.
"""

import argparse
import ast
import csv
import json
import os
import random
import re
import subprocess
from pathlib import Path

SEED = 7
SUFFIXES = {".py", ".java", ".rs", ".go", ".ts", ".tsx", ".js", ".cs", ".c", ".cpp", ".hpp", ".cc", ".h", ".kt", ".php", ".swift"}
# A line that defines a function, after its documentation.
DEFINITION = re.compile(
    r"^\s*(?:pub(?:\([a-z]+\))?\s+)?(?:(?:async|unsafe|const|static|public|private|protected|internal|final|override|virtual|abstract|"
    r"export|default|inline|synchronized|open|suspend|func|fn|fun|function|sealed|partial|extern|mutating|class)\s+)*"
    r"(?:func\s+(?:\([^)]*\)\s*)?|[\w<>\[\],.?:*&\s]*?)(~?\w+)\s*(?:<[^()]*>)?\s*\("
)
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "catch", "match", "new", "throw", "super", "this", "assert", "macro_rules"}
SECTION = re.compile(r"^(?:@|:param|:return|:rtype|:raise|\\param|\\return|Args:|Arguments:|Parameters|Returns|Raises|Yields|Attributes|"
                     r"Examples?\b|Usage|# |- Parameter|- Returns|<param|<returns|<exception|<remarks|>>>|```|Panics|Errors|Safety)", re.I)
TEST = re.compile(r"(^|/)(tests?|spec|examples?|benches|vendor|third_party|node_modules|fixtures?|docs?|demo)(/|$)|[._-](test|spec)\.|_test\.|Tests?\.", re.I)


def prose(lines):
    """The sentences before the first section of tags, as one line, without markup."""
    kept = []
    for line in lines:
        text = line.strip()
        if SECTION.match(text):
            break
        kept.append(text)
    text = " ".join(kept)
    text = re.sub(r"\{@\w+ ([^}]*)\}", r"\1", text)
    text = re.sub(r"</?[a-zA-Z][^>]{0,60}>", " ", text)
    text = re.sub(r"\[([^\]]+)\](\([^)]*\)|\[[^\]]*\])?", r"\1", text)
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    return re.sub(r"\s+", " ", text.replace("`", "").replace("*", "")).strip()


def python_functions(source):
    """(line of the definition, lines of the documentation, documentation)."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and len(node.body) > 1:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                yield node.lineno, node.name, range(first.lineno, first.end_lineno + 1), first.value.value.splitlines()


def other_functions(source):
    lines = source.splitlines()
    at = 0
    while at < len(lines):
        text = lines[at].strip()
        start = at
        if text.startswith("/**"):
            while at < len(lines) and "*/" not in lines[at]:
                at += 1
            at += 1
        elif text.startswith("//"):
            while at < len(lines) and lines[at].strip().startswith("//"):
                at += 1
        else:
            at += 1
            continue
        doc = range(start + 1, at + 1)
        body = [re.sub(r"^\s*(/\*\*+|\*/|\*|///|//!|//)\s?", "", line).replace("*/", "") for line in lines[start:at]]
        while at < len(lines) and re.match(r"^\s*(#\[|@\w+|\[\w+)", lines[at]):
            at += 1
        if at < len(lines):
            found = DEFINITION.match(lines[at])
            ends = " ".join(lines[at : at + 8])
            if found and found[1] not in NOT_FUNCTIONS and "{" in ends and "=" not in lines[at].split("(")[0]:
                if not re.match(r"\s*(pub |export |public )*(class|struct|enum|interface|trait|impl|type|mod)\b", lines[at]):
                    yield at + 1, found[1], doc, body


def functions(path, source):
    return python_functions(source) if path.endswith(".py") else other_functions(source)


def blobs(mirror, commit, root):
    git = ["git", f"--git-dir={mirror}"]
    listed = subprocess.run(git + ["ls-tree", "-r", "-l", commit, "--", root or "."], check=True, stdout=subprocess.PIPE).stdout
    wanted = []
    for line in listed.decode("utf-8", "replace").splitlines():
        meta, path = line.split("\t", 1)
        mode, kind, name, size = meta.split()
        if kind == "blob" and mode != "120000" and size.isdigit() and int(size) < 500_000 and Path(path).suffix in SUFFIXES:
            wanted.append((path, name))
    names = "".join(f"{name}\n" for _, name in wanted).encode()
    found = subprocess.run(git + ["cat-file", "--batch"], input=names, check=True, stdout=subprocess.PIPE).stdout
    at = 0
    for path, _ in wanted:
        end = found.index(b"\n", at)
        header = found[at:end].split()
        at = end + 1
        if header[1] != b"missing":
            size = int(header[2])
            yield path, found[at : at + size].decode("utf-8", "replace")
            at += size + 1


def questions_of(row, mirror, out, arguments):
    found, contents = [], {}
    for path, source in blobs(mirror, row["commit"], row["root"]):
        contents[path] = source
        for line, name, doc, body in () if TEST.search(path) else functions(path, source):
            text = prose(body)
            # Go repeats the function's name first.
            text = re.sub(rf"^{re.escape(name)}\b\s*", "", text)
            words = text.split()
            latin = sum(c.isascii() and (c.isalpha() or c == " ") for c in text)
            if arguments.min_words <= len(words) <= arguments.max_words and latin > 0.85 * len(text) and not re.search(r"copyright|license|deprecated", text, re.I):
                found.append((path, line, doc, text))
    texts = [text for *_, text in found]
    found = [one for one in found if texts.count(one[3]) == 1]
    random.Random(SEED).shuffle(found)
    chosen = found[: arguments.per_repository]
    for path, source in contents.items():
        lines = source.split("\n")
        # Descriptions of all functions are hidden, or the undescribed ones would stand out.
        for _, _, doc, _ in functions(path, source):
            quote = path.endswith(".py")
            for number in doc:
                indent = re.match(r"\s*", lines[number - 1])[0]
                lines[number - 1] = f'{indent}""' if quote and number == doc[0] else ""
        target = out / "trees" / row["name"] / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines))
    return chosen


def commit_of(tree, clone):
    """Commits a directory to a new bare clone, the same way each time."""
    git = ["git", f"--git-dir={clone}", f"--work-tree={tree}", "-c", "user.name=q", "-c", "user.email=q@localhost", "-c", "core.autocrlf=false"]
    environment = {"GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z", "PATH": os.environ["PATH"]}
    subprocess.run(["git", "init", "--quiet", "--bare", clone], check=True)
    subprocess.run(git + ["add", "--all", "--force", "."], check=True, cwd=tree)
    subprocess.run(git + ["commit", "--quiet", "-m", "without documentation"], check=True, cwd=tree, env=environment)
    return subprocess.run(git + ["rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE).stdout.decode().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="table with name, repository, commit, root")
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-repository", type=int, default=15)
    parser.add_argument("--min-words", type=int, default=40)
    parser.add_argument("--max-words", type=int, default=220)
    arguments = parser.parse_args()
    rows = list(csv.DictReader(arguments.sources.open(), delimiter="\t"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "descriptions.tsv").open("w") as table, (arguments.out / "descriptions.jsonl").open("w") as issues:
        table.write("repo\trevision\troot\tcategory\tquery\trelevant\tsecondary\n")
        for row in rows:
            place = arguments.mirrors / row["repository"].replace("/", "+")
            mirror = next(one for one in (place / "repo", place / ".git", place) if (one / "HEAD").is_file())
            chosen = questions_of(row, mirror, arguments.out, arguments)
            if not chosen:
                continue
            tree = (arguments.out / "trees" / row["name"]).resolve()
            commit = commit_of(tree, (arguments.out / "mirrors" / row["repository"].replace("/", "+")).resolve())
            for number, (path, line, _, text) in enumerate(chosen):
                table.write(f"{row['name']}\t{row['commit']}\t{row['root']}\tdescription\t{text}\t{path}:{line}-{line}\t\n")
                issue = {"id": f"{row['name']}-{number}", "source": "description", "repository": row["repository"], "commit": commit,
                         "text": text, "lines": [{"path": path, "start": line, "end": line}]}
                issues.write(json.dumps(issue) + "\n")
            print(f"{row['name']}: {len(chosen)} questions", flush=True)


if __name__ == "__main__":
    main()
