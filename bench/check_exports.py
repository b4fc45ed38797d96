#!/usr/bin/env python3
"""Checks that the tools of others load what `quarry data build` writes.

    pip install mlcroissant==1.1.1 datasets==5.2.0
    python3 bench/check_exports.py target/release/quarry [PLAN]

It builds the example (or PLAN) with every format of exports, and compares with the counts in `build.json`:

- mlcroissant validates `croissant.json` and reads every record of every file that it describes, with their hashes;
- the library `datasets` loads the exports `mteb` and `mteb-parquet` as MTEB's loader does: the configurations `corpus`,
  `queries` and `default`, whose splits are the parts, with the columns that it asks for.
"""

import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import datasets
import mlcroissant

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "build"
FORMATS = ["training-pairs", "beir", "coir", "mteb", "mteb-parquet", "cosqa", "cosqa-qa", "cosqa-plus", "cosqa-plus-folder",
           "gecs", "query-code"]


def expect(condition, *found):
    if not condition:
        raise SystemExit("unexpected: " + " ".join(map(repr, found)))


def with_all_formats(plan):
    text = plan.read_text().split("[[exports]]")[0]
    path = plan.with_name("all-formats.toml")
    formats = FORMATS + (["query4code", "query4code-summaries", "query4code-triples"] if 'kind = "written"' in text else [])
    path.write_text(text + "".join(f'[[exports]]\nformat = "{name}"\n' for name in formats))
    return path


def check_croissant(built, counts):
    """Number of files and of records that mlcroissant read."""
    dataset = mlcroissant.Dataset(jsonld=str(built / "croissant.json"))
    issues = dataset.metadata.ctx.issues
    expect(not issues.errors, issues.errors)
    described = json.loads((built / "croissant.json").read_text())
    names = {set["@id"]: set["field"][0]["source"]["fileObject"]["@id"] for set in described["recordSet"]}
    total = 0
    for identity, path in names.items():
        found = sum(1 for _ in dataset.records(identity))
        expect(found == counts[path], path, found, counts[path])
        total += found
    return len(described["distribution"]), len(names), total, sorted(issues.warnings)


def check_hub(directory, counts, ending):
    """Number of records that `datasets` loaded as MTEB does."""
    load = lambda config: datasets.load_dataset(str(directory), config)
    corpus, queries, judgments = load("corpus")["corpus"], load("queries")["queries"], load("default")
    expect({"_id", "text"} <= set(corpus.column_names) and {"_id", "text"} <= set(queries.column_names), corpus, queries)
    ids, asked = set(map(str, corpus["_id"])), set(map(str, queries["_id"]))
    total = len(corpus) + len(queries)
    for part, rows in judgments.items():
        expect(set(rows.column_names) == {"query-id", "corpus-id", "score"}, rows.column_names)
        expect({str(row["query-id"]) for row in rows} <= asked, part)
        expect({str(row["corpus-id"]) for row in rows} <= ids, part)
        total += len(rows)
    expected = sum(count for path, count in counts.items() if path.startswith(f"exports/{directory.name}/"))
    expect(total == expected, directory.name, total, expected)
    return total, sorted(judgments)


def main():
    quarry = str(Path(sys.argv[1]).resolve())
    logging.disable(logging.WARNING)
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        if len(sys.argv) > 2:
            plans = [Path(sys.argv[2])]
        else:
            shutil.copytree(EXAMPLE, directory / "build", ignore=shutil.ignore_patterns("*.build"))
            plans = [directory / "build" / name for name in ("plan.toml", "written.toml")]
        datasets.config.HF_DATASETS_CACHE = str(directory / "cache")
        for plan in plans:
            built = directory / f"{plan.stem}.built"
            subprocess.run([quarry, "data", "build", with_all_formats(plan), "--out", built], check=True, capture_output=True)
            counts = {
                f"exports/{step['name'].removeprefix('export ')}/{name}": count
                for step in json.loads((built / "build.json").read_text()) if step["name"].startswith("export ")
                for name, count in step["counts"].items() if not re.match("negatives left out", name)
            }
            n_files, n_sets, n_records, warnings = check_croissant(built, counts)
            print(f"{plan.name}: mlcroissant {version('mlcroissant')} validated croissant.json with {n_files} files and read"
                  f" {n_records} records of {n_sets} of them; it recommends: {'; '.join(warnings) or 'nothing'}")
            for name, ending in [("mteb", ".jsonl"), ("mteb-parquet", ".parquet")]:
                total, parts = check_hub(built / "exports" / name, counts, ending)
                print(f"{plan.name}: datasets {version('datasets')} loaded {total} records of {name}, parts {', '.join(parts)}")


main()
