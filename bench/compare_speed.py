"""Measures how fast Quarry is: beside other tools, against only parsing, over sizes, and after small changes.

    python compare_speed.py peers QUARRY TREE_BENCH TABLE REPOS [--rg RG] [--probe PROBE] [--semble PYTHON]
    python compare_speed.py ratio QUARRY PARSE_BENCH TREES...
    python compare_speed.py curve QUARRY TREE_BENCH TABLE SCRATCH TREES...
    python compare_speed.py touch QUARRY TREE
    python compare_speed.py versions OLD OLD_TREE_BENCH NEW NEW_TREE_BENCH TABLE TREE

Each prints a table in Markdown. Tools take turns, and every figure is a median, so that other load on the machine
affects all of them. TREE_BENCH and PARSE_BENCH are the programs that `cargo bench --no-run --bench tree --bench parse`
names; TABLE is a table of repository search, such as bench/repo-queries.tsv.

peers   time of a query in a process of its own, of one in a process that has the index open, of indexing from nothing
        (the whole process; semble's inside of one), and the size of the index; means over the repositories. rg looks
        for any of the query's words; probe has no index; PYTHON has semble==0.7.0 installed, which runs without its
        model (see compare_semble.py).
ratio   indexing from nothing over only parsing the same files, read before, by the same grammars on as many threads.
curve   warm queries, whole processes with and without the check for changed files, indexing, sizes, memory. Indexes
        stay in SCRATCH and are created if missing.
touch   `quarry index` after a function was added to one file of a copy of TREE.
versions
        two programs of Quarry on TREE: indexing, whole processes, and warm queries by kind.
"""

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

QUERIES = 5
ROUNDS = 5
SEMBLE = """
import sys
sys.path.insert(0, {directory!r})
import compare_semble
compare_semble.silence()
"""
SEMBLE_COMMAND = SEMBLE + "from semble.cli import main\nmain()"
SEMBLE_WARM = SEMBLE + """
import json, os, statistics, tempfile, time
from semble import SembleIndex
root, queries = sys.argv[1], sys.argv[2:]
index_ms, query_ms = [], []
def timed(times, work):
    start = time.perf_counter()
    result = work()
    times.append((time.perf_counter() - start) * 1000)
    return result
for _ in range(3):
    index = timed(index_ms, lambda: SembleIndex.from_path(root))
for query in queries * 5:
    timed(query_ms, lambda: index.search(query, top_k=10, alpha=0.0))
print(json.dumps([statistics.median(index_ms), statistics.median(query_ms)]))
"""


def run(command, **options):
    """Runs a command; its wall time in ms, its maximum resident size in MB, its output."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen([str(c) for c in command], stdout=output, stderr=subprocess.DEVNULL, **options)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = (time.perf_counter() - start) * 1000
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            sys.exit(f"exit code {process.returncode}: {' '.join(map(str, command))}")
        output.seek(0)
        return elapsed, usage.ru_maxrss / 1024, output.read().decode(errors="replace")


def size_mb(directory):
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file()) / 1e6


def table(header, rows):
    for cells in [header, ["---"] * len(header), *rows]:
        print("| " + " | ".join(str(cell) for cell in cells) + " |")


def number(value):
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def queries_of(path):
    repositories = defaultdict(list)
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            repositories[row["repo"], row["root"].strip("/")].append(row["query"])
    return repositories


def words(query):
    return "|".join("".join(c if c.isalnum() or c == "_" else " " for c in query).split())


def peers(quarry, tree_bench, queries, repos, rg=None, probe=None, semble=None):
    semble_here = Path(__file__).resolve().parent.as_posix()
    figures = defaultdict(list)  # (tool, measure) to one number per repository
    for (name, root), texts in queries_of(queries).items():
        root, texts = Path(repos) / name / root, texts[:QUERIES]
        with tempfile.TemporaryDirectory() as scratch:
            index, cache = Path(scratch) / "quarry", Path(scratch) / "semble"
            environment = {**os.environ, "SEMBLE_CACHE_LOCATION": str(cache), "XDG_CACHE_HOME": str(cache)}
            commands = {"quarry": lambda query: [quarry, "search", query, root, "--index", index, "--quality", "fast"]}
            if rg:
                commands["ripgrep"] = lambda query: [rg, "-i", "-n", words(query), root]
            if probe:
                commands["probe"] = lambda query: [probe, "search", query, root, "--max-results", "10"]
            if semble:
                child = [semble, "-c", SEMBLE_COMMAND.format(directory=semble_here)]
                commands["semble"] = lambda query: [*child, "search", query, root]
            times, builds = defaultdict(list), []
            for round_ in range(ROUNDS + 1):
                shutil.rmtree(index, ignore_errors=True)
                builds.append(run([quarry, "index", root, "--index", index])[0])
                for query in texts[round_ % len(texts) :][:2]:
                    for tool, command in commands.items():
                        elapsed = run(command(query), env=environment)[0]
                        if round_ > 0:  # the first run reads files and fills caches
                            times[tool].append(elapsed)
            for tool, elapsed in times.items():
                figures[tool, "process"].append(statistics.median(elapsed))
            figures["quarry", "index"].append(statistics.median(builds))
            figures["quarry", "size"].append(size_mb(index))
            warm = json.loads(run([tree_bench, root, index, queries])[2])
            figures["quarry", "warm"].append(warm["query_ms"]["all"]["median"])
            if semble:
                figures["semble", "size"].append(size_mb(cache))
                shutil.rmtree(cache, ignore_errors=True)
                warm = run([semble, "-c", SEMBLE_WARM.format(directory=semble_here), root, *texts], env=environment)[2]
                index_ms, query_ms = json.loads(warm)
                figures["semble", "index"].append(index_ms)
                figures["semble", "warm"].append(query_ms)
            print(name, {f"{tool} {what}": round(values[-1], 2) for (tool, what), values in figures.items()}, file=sys.stderr)
    tools = dict.fromkeys(tool for tool, _ in figures)
    columns = ["process", "warm", "index", "size"]
    mean = lambda values: f"{statistics.fmean(values):.2f}" if values else "–"
    table(
        ["tool", "query, own process, ms", "query, warm, ms", "indexing, ms", "index, MB"],
        [[tool, *(mean(figures.get((tool, what))) for what in columns)] for tool in tools],
    )


def ratio(quarry, parse_bench, *trees):
    rows = []
    for tree in trees:
        parse_ms, index_ms = [], []
        for _ in range(ROUNDS):
            parsed = json.loads(run([parse_bench, tree])[2])
            parse_ms.append(parsed["parse_ms"])
            with tempfile.TemporaryDirectory() as scratch:
                index_ms.append(run([quarry, "index", tree, "--index", Path(scratch) / "index"])[0])
        ratios = [index / parse for index, parse in zip(index_ms, parse_ms)]
        cells = [Path(tree).name, parsed["files"], f"{parsed['bytes'] / 1e6:.1f}", statistics.median(parse_ms)]
        rows.append([*cells[:3], number(cells[3]), number(statistics.median(index_ms)), f"{statistics.median(ratios):.2f}"])
    table(["tree", "files", "MB", "parse, ms", "index, ms", "ratio"], rows)


def curve(quarry, tree_bench, queries, scratch, *trees):
    texts = [query for of_one in queries_of(queries).values() for query in of_one[:2]]
    rows = []
    for tree in trees:
        index = Path(scratch) / Path(tree).name
        built = "–", "–"
        if not index.exists():
            elapsed, peak, _ = run([quarry, "index", tree, "--index", index])
            built = f"{elapsed / 1000:.1f}", number(peak)
        warm = json.loads(run([tree_bench, tree, index, queries])[2])
        whole = {(): [], ("--no-index-update",): []}
        for query in texts:
            for options, times in whole.items():
                times.append(run([quarry, "search", query, tree, "--index", index, "--quality", "fast", *options])[0])
        memory = warm["memory_kb"]["after_queries"]
        of = warm["query_ms"]
        rows.append(
            [f"{warm['units']:,}", f"{warm['files']:,}"]
            + [f"{of[kind]['median']:.2f}" for kind in ("all", "symbol", "frequent words")]
            + [number(statistics.median(times)) for times in whole.values()]
            + [number(memory.get(key, 0) / 1024) for key in ("VmRSS", "RssAnon")]
            + [number(size_mb(index)), *built]
        )
        print(tree, json.dumps(warm), file=sys.stderr)
    table(
        ["units", "files", "warm query, ms", "symbol", "frequent words", "process, ms", "without the look for changes"]
        + ["resident, MB", "its own", "index, MB", "indexing, s", "its peak, MB"],
        rows,
    )


def touch(quarry, tree):
    with tempfile.TemporaryDirectory() as scratch:
        copy, index = Path(scratch) / "tree", Path(scratch) / "index"
        shutil.copytree(tree, copy)
        run([quarry, "index", copy, "--index", index])
        files = sorted(copy.rglob("*.py"))
        unchanged, changed = [], []
        for number_ in range(2 * ROUNDS + 1):
            unchanged.append(run([quarry, "index", copy, "--index", index])[0])
            with open(files[number_ * 97 % len(files)], "a", encoding="utf-8") as file:
                file.write(f"\n\ndef touched_in_round_{number_}():\n    return {number_}\n")
            changed.append(run([quarry, "index", copy, "--index", index])[0])
        n_files = sum(path.is_file() for path in copy.rglob("*"))
    # The first check after a build reads files whose timestamps are too close to that of the build.
    table(
        ["files", "nothing changed, ms", "one file changed, ms"],
        [[n_files, number(statistics.median(unchanged[1:])), number(statistics.median(changed))]],
    )


def versions(old, old_bench, new, new_bench, queries, tree):
    texts = [text for texts in queries_of(queries).values() for text in texts[:1]]
    figures = defaultdict(lambda: ([], []))  # what is measured to the times of both
    with tempfile.TemporaryDirectory() as scratch:
        for round_ in range(ROUNDS):
            for version, (program, bench) in enumerate([(old, old_bench), (new, new_bench)]):
                index = Path(scratch) / str(version)
                shutil.rmtree(index, ignore_errors=True)
                figures["indexing"][version].append(run([program, "index", tree, "--index", index])[0])
                for query in texts:
                    elapsed = run([program, "search", query, tree, "--index", index, "--quality", "fast"])[0]
                    figures["process"][version].append(elapsed)
                warm = json.loads(run([bench, tree, index, queries])[2])
                for kind, of_kind in warm["query_ms"].items():
                    figures[f"warm, {kind}"][version].append(of_kind["median"])
    rows = [(what, *map(statistics.median, times)) for what, times in figures.items()]
    table(
        ["", "old, ms", "new, ms", "ratio"],
        [[what, f"{before:.2f}", f"{after:.2f}", f"{after / before:.2f}"] for what, before, after in rows],
    )


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=["peers", "ratio", "curve", "touch", "versions"])
    parser.add_argument("arguments", nargs="+")
    for tool in ("rg", "probe", "semble"):
        parser.add_argument(f"--{tool}")
    given = parser.parse_args()
    if given.what == "peers":
        peers(*given.arguments, rg=given.rg, probe=given.probe, semble=given.semble)
    else:
        {"ratio": ratio, "curve": curve, "touch": touch, "versions": versions}[given.what](*given.arguments)


if __name__ == "__main__":
    main()
