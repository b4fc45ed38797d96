"""Measures the table of results in the README again, and prints it in Markdown.

Each row is measured if the flags name what it needs; the others are printed as they are, marked with †, and listed below
the table with what they lack. A row fails alone: its error goes to stderr, and it counts as not measured.

    python bench/readme.py QUARRY --data DATA --checkouts CHECKOUTS

DATA is laid out as bench/results.toml says, with `localize/dev.jsonl` and all tables of `repo-search/`; CHECKOUTS/REPO
holds each repository of the tables at its revision, MIRRORS clones of the repositories with issues and of those in
commit-issues-sources.tsv. Programs of benchmarks are those that `cargo bench --no-run` names. Other tools are in the Python
that runs this, but semble.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent
README = BENCH.parent / "README.md"
MARK = "†"
# Ways to find code by text, of which the best is compared.
TEXT_SEARCHES = ["grep-files", "grep-lines", "grep-functions", "grep-lines:6", "grep-functions:6"]
MODEL = "models/all-MiniLM-L6-v2"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    # 1 is the exit code for nothing found, and no error.
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def rows(markdown):
    """The cells of each row of a table."""
    lines = [line for line in markdown.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cell_of(markdown, name, column):
    """The number in a row, which begins with a name, and a column."""
    head, *others = rows(markdown)
    row = next(row for row in others if row[0].startswith(name))
    return float(row[head.index(column)].replace(",", ""))


class Figures:
    """The figures of the rows: each function returns Quarry's, and that of the other if it was measured."""

    def __init__(self, given, scratch):
        self.given, self.scratch = given, Path(scratch)

    def json(self, *command):
        return json.loads(run(self.given.quarry, *command, "--json"))

    def table(self, name):
        return BENCH / name if name.startswith(("repo", "function-")) else self.given.data / "repo-search" / name

    def repo_search(self, name, method):
        found = self.json("eval", "repo-search", self.table(name), "--repos", self.given.checkouts, "--method", method)
        return found["metrics"]["ndcg@10"]

    def beside_semble(self, name):
        if not self.given.semble:
            return self.repo_search(name, "hybrid"), None
        command = [self.given.semble, BENCH / "compare_semble.py"]
        printed = run(*command, self.given.quarry, self.table(name), self.given.checkouts)
        found = re.search(r"^mean +semble ([\d.]+) +quarry ([\d.]+)", printed, re.MULTILINE)
        return float(found[2]), float(found[1])

    def reranked(self):
        tables = ["functions-dev.tsv", "functions-dev-2.tsv", "function-queries.tsv"]
        command = ["eval", "tune", *map(self.table, tables), "--repos", self.given.checkouts]
        found = self.json(*command, "--reranking", "--model", "best")

        def of(means):
            return next(mean["ndcg"] for mean in means if Path(mean["table"]).name == tables[-1])

        return of(found["cross_validated"]), of(found["without"])

    def issues(self):
        features = self.scratch / "features.jsonl"
        issues = self.given.data / "localize" / "dev.jsonl"
        run(self.given.quarry, "eval", "localize", issues, "--repos", self.given.mirrors, "--features", features)
        run(sys.executable, BENCH / "commit_issues.py", self.given.quarry, self.given.mirrors, self.scratch / "commits")
        commits = sorted(self.scratch.glob("commits/*/features.jsonl"))
        fit = [sys.executable, BENCH / "fit_issues.py", features, "--more", *commits]
        printed = run(*fit, "--out", self.scratch / "issues.json")
        found = re.search(r"^SWE-bench.*Acc@1/5/10/20 (.+)$", printed, re.IGNORECASE | re.MULTILINE)
        return float(found[1].split()[2]), None

    def cosqa(self, method):
        files = self.given.data / "cosqa"
        queries, codes = files / "cosqa-retrieval-dev-500.json", files / "code_idx_map.json"
        command = ["eval", "protocol", "cosqa-search", "--queries", queries, "--codes", codes, "--metrics", "mrr"]
        return self.json(*command, "--method", method)["parts"][0]["metrics"]["mrr"]

    def with_model(self):
        """CoSQA by the transformer alone, if DATA has it."""
        path = self.given.data / MODEL
        return self.cosqa(path) if path.is_dir() else None

    def tokens(self):
        path = self.scratch / "functions.tsv"
        tables = [self.table(name) for name in ("functions-dev.tsv", "functions-dev-2.tsv", "function-queries.tsv")]
        lines = [table.read_text(encoding="utf-8").splitlines() for table in tables]
        path.write_text("\n".join(lines[0][:1] + [line for each in lines for line in each[1:]]) + "\n", encoding="utf-8")
        policies = [part for name in ["search", *TEXT_SEARCHES] for part in ("--policy", name)]
        found = self.json("eval", "repo-search", path, "--repos", self.given.checkouts, *policies)["policies"]
        shares = [policy["shares"]["2000"] for policy in found]
        return shares[0], max(shares[1:])

    def processes(self):
        command = [sys.executable, BENCH / "compare_speed.py", "peers", self.given.quarry, self.given.tree_bench]
        tables = [self.table("repo-queries.tsv"), self.given.checkouts]
        printed = run(*command, *tables, "--rg", self.given.rg)
        column = next(name for name in rows(printed)[0] if "process" in name)
        return tuple(cell_of(printed, tool, column) for tool in ("quarry", "ripgrep"))

    def curve(self):
        command = [sys.executable, BENCH / "compare_speed.py", "curve", self.given.quarry, self.given.tree_bench]
        table = self.table("repo-queries.tsv")
        head, *others = rows(run(*command, table, self.scratch / "indexes", *self.given.trees))
        largest = max(others, key=lambda row: int(row[0].replace(",", "")))
        if int(largest[0].replace(",", "")) < 1_000_000:
            raise RuntimeError(f"--trees: expected a million units or more, found {largest[0]}")
        return float(largest[1]), None

    def metrics(self):
        printed = run(sys.executable, BENCH / "compare_metrics.py", self.given.metrics_bench)
        return tuple(cell_of(printed, tool, "both, s") for tool in ("quarry", "pytrec_eval"))

    def encoding(self):
        corpus = self.scratch / "cosqa"
        files = self.given.data / "cosqa"
        queries, codes = files / "cosqa-retrieval-dev-500.json", files / "code_idx_map.json"
        run(self.given.quarry, "data", "convert", queries, codes, "--to", "beir", corpus)
        command = [sys.executable, BENCH / "compare_encoding.py", self.given.encode_bench, self.given.data / MODEL]
        printed = run(*command, corpus)
        return tuple(cell_of(printed, "500 documents", f"{side}, tokens/s") for side in ("quarry", "PyTorch"))


def share(value):
    return f"{value:.3f}"


def milliseconds(value):
    return f"{value:.1f} ms"


def seconds(value):
    return f"{value:.2f} s"


def whole(value):
    return f"{value:,.0f}"


# How a row begins, the flags that it needs, how it is measured, and how its figures are written.
MEASURED = [
    ("161 questions", ["data", "checkouts"], lambda f: f.beside_semble("dev.tsv"), share),
    ("164 questions", ["checkouts"], lambda f: f.beside_semble("repo-queries.tsv"), share),
    ("118 questions", ["data", "checkouts"], lambda f: f.beside_semble("functions-dev.tsv"), share),
    ("336 questions", ["data", "checkouts"], Figures.reranked, share),
    ("113 issues", ["data", "mirrors"], Figures.issues, share),
    ("CoSQA", ["data"], lambda f: (f.cosqa("hybrid"), f.cosqa("bm25-lucene")), share),
    ("The same, `best`", ["data"], lambda f: (f.cosqa("best"), f.with_model()), share),
    ("574 questions", ["data", "checkouts"], Figures.tokens, share),
    ("Cold-start query", ["checkouts", "tree_bench", "rg"], Figures.processes, milliseconds),
    ("A warm query", ["tree_bench", "trees"], Figures.curve, milliseconds),
    ("Metrics of ten million", ["metrics_bench"], Figures.metrics, seconds),
    ("all-MiniLM-L6-v2", ["data", "encode_bench"], Figures.encoding, whole),
]


def table_of_readme():
    """The lines of the table of results: head, line below it, rows."""
    lines = README.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| Measured |"))
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    return lines[start:end]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry", type=Path)
    parser.add_argument("--data", type=Path, help="the files that bench/results.toml names")
    parser.add_argument("--checkouts", type=Path, help="the repositories of the tables")
    parser.add_argument("--mirrors", type=Path, help="clones of the repositories with issues; needs lightgbm")
    parser.add_argument("--semble", help="a Python with semble==0.7.0")
    parser.add_argument("--rg", help="ripgrep")
    parser.add_argument("--tree-bench", type=Path, help="the benchmark `tree` of crates/index")
    parser.add_argument("--metrics-bench", type=Path, help="the benchmark of crates/metrics; needs pytrec_eval and ranx")
    parser.add_argument("--encode-bench", type=Path, help="the benchmark of crates/transformer; needs sentence-transformers")
    parser.add_argument("--trees", type=Path, nargs="+", help="source trees with a million units together")
    parser.add_argument("--rows", metavar="TEXT", action="append", help="measure only rows that begin so; may be repeated")
    given = parser.parse_args()
    given.quarry = given.quarry.resolve()
    head, below, *lines = table_of_readme()
    missing = []
    print(head)
    print(below)
    with tempfile.TemporaryDirectory() as scratch:
        figures = Figures(given, scratch)
        for line in lines:
            cells = rows(line)[0]
            found = next((row for row in MEASURED if cells[0].startswith(row[0])), None)
            if found is None:
                sys.exit(f"README.md: no command measures the row {cells[0]!r}; add it to MEASURED in {__file__}")
            name, needs, measure, written = found
            wanted = not given.rows or any(cells[0].startswith(text) for text in given.rows)
            lacks = [f"--{need.replace('_', '-')}" for need in needs if not getattr(given, need)]
            if wanted and not lacks:
                try:
                    ours, theirs = measure(figures)
                    cells[1] = written(ours)
                    # A figure that somebody published, or that lacks its tool, stays.
                    if theirs is not None:
                        cells[3] = written(theirs)
                except (RuntimeError, OSError, KeyError, StopIteration, TypeError, ValueError) as error:
                    print(f"{name}: {error!r}", file=sys.stderr)
                    lacks = ["a run without error"]
            elif not wanted:
                lacks = ["--rows"]
            if lacks:
                missing.append((name, lacks))
                cells[0] += f" {MARK}"
            print("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|", flush=True)
    if missing:
        print(f"\n{MARK} Not measured:\n")
        for name, lacks in missing:
            print(f"- {name}: needs {', '.join(lacks)}")


if __name__ == "__main__":
    main()
