"""The package in MTEB, on a task that is made of examples/benchmark."""

import csv
import json
from pathlib import Path

import pytest

mteb = pytest.importorskip("mteb")
from datasets import Dataset  # noqa: E402
from mteb.abstasks.retrieval import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.models.models_protocols import EncoderProtocol, SearchProtocol  # noqa: E402

import quarry  # noqa: E402
import quarry.mteb  # noqa: E402

BENCHMARK = Path(__file__).resolve().parents[2] / "examples" / "benchmark"
CORPUS, QUERIES = (
    [json.loads(line) for line in (BENCHMARK / f"{name}.jsonl").read_text().splitlines()] for name in ["corpus", "queries"]
)
QRELS = {}
for row in csv.DictReader((BENCHMARK / "qrels" / "test.tsv").open(), delimiter="\t"):
    QRELS.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])


def task(top_ranked=None):
    class Example(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="Example", description="Functions in Python.", type="Retrieval", category="t2t", modalities=["text"],
            dataset={"path": "local/example", "revision": "main"}, eval_splits=["test"], eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )  # fmt: skip

        def load_data(self, **_):
            rename = lambda rows: Dataset.from_list([{"id": row["_id"], **row} for row in rows]).remove_columns("_id")
            test = {"corpus": rename(CORPUS), "queries": rename(QUERIES), "relevant_docs": QRELS, "top_ranked": top_ranked}
            self.dataset, self.data_loaded = {"default": {"test": test}}, True

    return Example()


def evaluate(model, of):
    [result] = mteb.evaluate(model, of, cache=None, show_progress_bar=False).task_results
    [scores] = result.scores["test"]
    return scores


def test_the_protocols_of_mteb():
    assert isinstance(quarry.mteb.Search("bm25"), SearchProtocol)
    assert isinstance(quarry.mteb.Model(), EncoderProtocol)
    assert quarry.mteb.Search("rrf(bm25, some/model)").mteb_model_meta.name.startswith("quarry/rrf")


@pytest.mark.parametrize("method", ["bm25", "hybrid"])
def test_a_method_has_the_scores_that_quarry_has(method):
    documents = {row["_id"]: row for row in CORPUS}
    run = quarry.Retriever(method).index(documents).search({row["_id"]: row["text"] for row in QUERIES})
    ours = quarry.evaluate(QRELS, run, ["ndcg@10", "recall@3", "map@10"], queries="all").means
    theirs = evaluate(quarry.mteb.Search(method), task())
    assert ours["ndcg@10"] == pytest.approx(theirs["ndcg_at_10"], abs=1e-5) and ours["ndcg@10"] > 0.5
    assert ours["recall@3"] == pytest.approx(theirs["recall_at_3"], abs=1e-5)
    assert ours["map@10"] == pytest.approx(theirs["map_at_10"], abs=1e-5)


def test_a_model_has_the_scores_of_its_vectors():
    encoder = quarry.Encoder()
    texts = [row["text"] for row in CORPUS]
    scores = encoder.encode_queries([row["text"] for row in QUERIES]) @ encoder.encode_documents(texts).T
    ids = [row["_id"] for row in CORPUS]
    run = {row["_id"]: dict(zip(ids, map(float, of))) for row, of in zip(QUERIES, scores)}
    ours = quarry.evaluate(QRELS, run, ["ndcg@10"], queries="all").means["ndcg@10"]
    assert ours == pytest.approx(evaluate(quarry.mteb.Model(), task())["ndcg_at_10"], abs=1e-5) and ours > 0.5


def test_a_method_ranks_again_what_a_task_names():
    first = CORPUS[0]["_id"]
    top_ranked = {row["_id"]: [first] for row in QUERIES}
    scores = evaluate(quarry.mteb.Search("hybrid"), task(top_ranked))
    assert scores["recall_at_10"] == pytest.approx(sum(first in of for of in QRELS.values()) / len(QRELS), abs=1e-5)
