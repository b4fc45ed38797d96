"""Measures semble's lexical search and ranking rules on issues, as `quarry eval localize` does.

A function counts at the place of the first chunk that holds a line of it; those of a chunk follow each other in the order
of its lines. Only Python files are indexed, which favors semble. Prints Acc@1/5/10/20 for each source of issues.

    pip install semble==0.7.0
    python semble_issues.py ISSUES MIRRORS        # bare clones: MIRRORS/owner+name, or .../repo below
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from compare_semble import silence

KS = (1, 5, 10, 20)
CHUNKS = 100


def functions(path, text):
    """The functions of a file by the rules of the protocol, each with its first and last line."""
    found = []

    def visit(node, names):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, [*names, child.name])
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                # A constructor is its class, and a nested function is the one around it.
                name = names if names and child.name == "__init__" else [*names, child.name]
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                found.append((f"{path}:{'.'.join(name)}", first, child.end_lineno))
            else:
                visit(child, names)

    try:
        visit(ast.parse(text), [])
    except (SyntaxError, ValueError):
        pass
    return sorted(found, key=lambda function: function[1])


def ranked(index, text, spans):
    order = []
    for result in index.search(text, top_k=CHUNKS, alpha=0.0):
        chunk = result.chunk
        for name, first, last in spans.get(chunk.file_path, []):
            if first <= chunk.end_line and last >= chunk.start_line and name not in order:
                order.append(name)
    return order


def main(issues, mirrors):
    from semble import SembleIndex

    silence()
    found = defaultdict(list)
    for line in open(issues, encoding="utf-8"):
        issue = json.loads(line)
        mirror = Path(mirrors) / issue["repository"].replace("/", "+")
        mirror = mirror / "repo" if (mirror / "repo").is_dir() else mirror
        with tempfile.TemporaryDirectory() as tree:
            environment = os.environ | {"GIT_INDEX_FILE": os.path.join(tree, ".git-index")}
            git = ["git", f"--git-dir={mirror}", f"--work-tree={tree}", "checkout", "--quiet", issue["commit"]]
            subprocess.run([*git, "--", ":(glob)**/*.py"], env=environment, check=True)
            paths = [path for path in Path(tree).rglob("*.py") if path.is_file() and not path.is_symlink()]
            relative = {str(path.relative_to(tree)): path for path in paths}
            spans = {name: functions(name, path.read_text("utf-8", "replace")) for name, path in relative.items()}
            known = {name for names in spans.values() for name, _, _ in names}
            if not known.intersection(issue["functions"]):
                continue
            order = ranked(SembleIndex.from_path(Path(tree)), issue["text"], spans)
        found[issue["source"]].append([set(issue["functions"]) <= set(order[:k]) for k in KS])
        print(issue["id"], *map(int, found[issue["source"]][-1]), file=sys.stderr)
    for source, rows in sorted(found.items()):
        print(source, len(rows), "issues, Acc@1/5/10/20", *(f"{sum(column) / len(rows):.3f}" for column in zip(*rows)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = os.environ["SEMBLE_CACHE_LOCATION"] = cache
        main(*sys.argv[1:])
