#!/usr/bin/env python3
"""Checks that MTEB's own package takes what `quarry data build` exports for it, and comes to the same numbers.

    pip install mteb==2.26.24 torch==2.15.0
    python3 bench/check_mteb.py target/release/quarry [PLAN]

It builds the example (or PLAN) with the exports `mteb` and `mteb-parquet`, and for both

- defines a retrieval task of MTEB on the directory, has MTEB load it, and compares documents, queries and judgments of every
  part with the export `beir`;
- has MTEB evaluate a model that counts words on the test part, and `quarry eval score` the ranking that MTEB kept: NDCG@10,
  MAP@10 and MRR@10 are the same within MTEB's five digits.
"""

import csv
import json
import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from zlib import crc32

import datasets
import mteb
import numpy
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "build"
FORMATS = ["mteb", "mteb-parquet"]
MEASURES = ["ndcg@10", "map@10", "mrr@10"]
COLUMNS = 1024


def expect(condition, *found):
    if not condition:
        raise SystemExit("unexpected: " + " ".join(map(repr, found)))


class CountedWords(AbsEncoder):
    """A column for each hash of a word."""

    def __init__(self):
        self.mteb_model_meta = ModelMeta.create_empty({"name": "check/counted-words", "revision": "1"})

    def encode(self, inputs, **_):
        texts = [text for batch in inputs for text in batch["text"]]
        vectors = numpy.zeros((len(texts), COLUMNS), dtype=numpy.float32)
        for vector, text in zip(vectors, texts):
            for word in text.lower().replace("_", " ").replace("(", " ").split():
                vector[crc32(word.encode()) % COLUMNS] += 1
        return vectors


def task(directory, parts):
    """A retrieval task on a directory, as MTEB's own ones are on a repository of the hub."""

    class Exported(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="Exported", description="An export.", dataset={"path": str(directory), "revision": "main"},
            type="Retrieval", category="t2t", modalities=["text"], eval_splits=parts, eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

    return Exported()


def check_data(loaded, n_documents, judged):
    """All documents, and the queries of each part with all their judgments."""
    for part, data in loaded.dataset["default"].items():
        expect(len(data["corpus"]) == n_documents, part, len(data["corpus"]), n_documents)
        expect(data["relevant_docs"] == judged[part], part)
        expect(set(data["queries"]["id"]) == set(judged[part]), part)


def judgments(path):
    """Those of a BEIR directory, by query."""
    of_queries = {}
    for row in csv.DictReader(path.open(), delimiter="\t"):
        of_queries.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return of_queries


def check_scores(quarry, loaded, qrels, directory):
    """MTEB's measures of the test part, which quarry has to find in the same ranking."""
    results = mteb.evaluate(CountedWords(), loaded, cache=None, prediction_folder=directory, show_progress_bar=False)
    (scores,) = results[0].scores["test"]
    predictions = json.loads((directory / "Exported_predictions.json").read_text())["default"]["test"]
    run = directory / "run.txt"
    with run.open("w") as file:
        for query, documents in predictions.items():
            for document, score in documents.items():
                file.write(f"{query} Q0 {document} 0 {score!r} mteb\n")
    command = [quarry, "eval", "score", "--run", run, "--qrels", qrels, "--metrics", ",".join(MEASURES), "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    own = found["metrics"]
    for measure in MEASURES:
        theirs = scores[measure.replace("@", "_at_")]
        expect(abs(own[measure] - theirs) < 1e-5, measure, own[measure], theirs)
    return own


def main():
    quarry = str(Path(sys.argv[1]).resolve())
    logging.disable(logging.WARNING)
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        datasets.config.HF_DATASETS_CACHE = str(directory / "cache")
        datasets.config.HF_HUB_OFFLINE = True
        if len(sys.argv) > 2:
            plan = Path(sys.argv[2])
        else:
            shutil.copytree(EXAMPLE, directory / "build", ignore=shutil.ignore_patterns("*.build"))
            plan = directory / "build" / "plan.toml"
        text = plan.read_text().split("[[exports]]")[0]
        text += "".join(f'[[exports]]\nformat = "{name}"\n' for name in ["beir", *FORMATS])
        plan = plan.with_name("mteb.toml")
        plan.write_text(text)
        built = directory / "built"
        subprocess.run([quarry, "data", "build", plan, "--out", built], check=True, capture_output=True)
        qrels = built / "exports" / "beir" / "qrels"
        parts = sorted(path.stem for path in qrels.glob("*.tsv"))
        judged = {part: judgments(qrels / f"{part}.tsv") for part in parts}
        n_documents = sum(1 for _ in (built / "exports" / "beir" / "corpus.jsonl").open())
        for name in FORMATS:
            loaded = task(built / "exports" / name, parts)
            loaded.load_data()
            check_data(loaded, n_documents, judged)
            tested = task(built / "exports" / name, ["test"])
            tested.load_data()
            (directory / name).mkdir()
            scores = check_scores(quarry, tested, qrels / "test.tsv", directory / name)
            print(f"{name}: MTEB {mteb.__version__} loaded {n_documents} documents and the judgments of {', '.join(parts)};"
                  f" {', '.join(f'{measure} {score:.4f}' for measure, score in scores.items())} as quarry has it")


main()
