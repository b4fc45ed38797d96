"""Measures of rankings, with confidence intervals and paired tests."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import _arguments, _quarry

if TYPE_CHECKING:  # The program in the package starts without it.
    import numpy as np
    import numpy.typing as npt

Ties = Literal["docid-desc", "docid-asc", "index-desc", "pessimistic", "optimistic", "average"]

# `nDCG@10` of ir-measures and `ndcg_cut_10` of trec_eval beside the names of `quarry eval`.
_NAMES = {
    "ap": "map",
    "rr": "mrr",
    "r": "recall",
    "p": "precision",
    "rprec": "r_precision",
    "ndcg_cut": "ndcg",
    "recip_rank": "mrr",
}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Values of measures for each query.

    Attributes
    ----------
    measures
        Names of the measures.
    queries
        Ids of the queries, ascending.
    values
        float64, shape (number of queries, number of measures).
    means
        By measure.
    intervals
        Bootstrap intervals of the means, (low, high), by measure.
    """

    measures: tuple[str, ...]
    queries: tuple[str, ...]
    values: npt.NDArray[np.float64]
    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    _json: str = field(repr=False)

    def to_dataframe(self) -> Any:
        """The values as a pandas DataFrame: a row for each query, a column for each measure."""
        import pandas

        return pandas.DataFrame(self.values, index=pandas.Index(self.queries, name="query_id"), columns=list(self.measures))

    @property
    def per_query(self) -> dict[str, dict[str, float]]:
        """Values by query, then measure."""
        return {
            query: dict(zip(self.measures, map(float, row))) for query, row in zip(self.queries, self.values)
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """How one measure differs between two rankings, over the queries of both.

    Attributes
    ----------
    baseline, other
        Means.
    difference
        ``other - baseline``.
    interval
        Bootstrap interval of the difference, (low, high).
    p
        p-values by test, ``bootstrap``, ``randomisation``, ``t`` and ``wilcoxon``, and ``mcnemar`` where all values are 0
        or 1. None where a test does not apply: every test of a single query, and ``bootstrap`` and ``t`` if all queries
        differ by the same amount.
    p_holm
        The same, corrected over all differences of one call by Holm's method.
    """

    baseline: float
    other: float
    difference: float
    interval: tuple[float, float]
    p: dict[str, float | None]
    p_holm: dict[str, float | None]

    @classmethod
    def _of(cls, found: dict[str, Any], without: Collection[str]) -> Difference:
        low, high = found["interval"]
        tests = found["tests"]
        return cls(
            found["mean_a"],
            found["mean_b"],
            found["difference"],
            (low, high),
            {name: None if name in without else test["p"] for name, test in tests.items()},
            {name: None if name in without else test["p_holm"] for name, test in tests.items()},
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a ranking differs from the baseline.

    Attributes
    ----------
    n_queries
        Number of queries that both contain.
    measures
        The differences by measure.
    """

    n_queries: int
    measures: dict[str, Difference]


def evaluate(
    qrels: Any,
    run: Any,
    measures: str | Sequence[str] = ("mrr", "map", "ndcg@10", "recall@10"),
    *,
    ties: Ties = "docid-desc",
    gain: Literal["linear", "exponential"] = "linear",
    queries: Literal["both", "with-positive", "all"] = "both",
    unjudged: Literal["wrong", "removed"] = "wrong",
    precision: Literal["single", "double"] = "single",
    resamples: int = 10_000,
    seed: int = 42,
    confidence: float = 0.95,
) -> Evaluation:
    """Scores a ranking against relevance judgments. The defaults are the conventions of trec_eval.

    Parameters
    ----------
    qrels
        Grades as ``{query: {document: grade}}``, a pandas DataFrame with the columns ``query_id``, ``doc_id`` and
        ``relevance``, or the path of a file of TREC's or BEIR's format. A grade of 1 or more is relevant; a negative one counts
        as no judgment.
    run
        Scores as ``{query: {document: score}}``, a DataFrame with ``query_id``, ``doc_id`` and ``score``, or the path of a file
        of TREC's format.
    measures
        ``ndcg@10``, ``mrr``, ``map``, ``recall@k``, ``precision@k``, ``hit_rate@k``, ``r_precision``, ``bpref``, ``rbp.95`` and
        others of ``quarry eval``; also as ir-measures names them: ``nDCG@10``, ``AP``, ``RR@10``, ``R@100``, ``P@5``.
    ties
        Order among equal scores.
    gain
        Gain of a grade in NDCG: the grade, or ``2**grade - 1``.
    queries
        Which queries a mean is over: those of both (trec_eval), all with a relevant document, or all of the judgments
        (ir-measures); those missing from the run have 0.
    unjudged
        Whether documents without a judgment count as not relevant, or are removed from the ranking.
    precision
        Whether scores are compared as 32-bit floats (trec_eval up to version 9, pytrec_eval) or as 64-bit floats.
    resamples, seed, confidence
        Of the bootstrap of the intervals.

    Raises
    ------
    QuarryError
        When a file is malformed, a measure is unknown, or run and judgments have no query in common.
    """
    import numpy as np

    conventions = {"ties": ties, "gain": gain, "queries": queries, "unjudged": unjudged, "scores": precision}
    text, summary_text = _quarry.evaluate(
        _input("qrels", qrels, "relevance", int),
        _input("run", run, "score", float),
        [_name(measure) for measure in ([measures] if isinstance(measures, str) else measures)],
        json.dumps(conventions),
        _bootstrap(resamples, seed, confidence),
    )
    found, summary = json.loads(text), json.loads(summary_text)
    return Evaluation(
        tuple(found["measures"]),
        tuple(query for query, _ in found["queries"]),
        np.array([values for _, values in found["queries"]], np.float64),
        {name: summary["metrics"][name] for name in found["measures"]},
        {name: (low, high) for name, (low, high) in summary["intervals"].items()},
        text,
    )


def compare(
    baseline: Evaluation,
    *others: Evaluation,
    resamples: int = 10_000,
    seed: int = 42,
    confidence: float = 0.95,
) -> list[Comparison]:
    """Compares evaluations with a baseline, on the queries that both contain.

    Raises
    ------
    QuarryError
        When two have no query in common, or different measures.
    """
    text = _quarry.compare(
        baseline._json, [other._json for other in others], _bootstrap(resamples, seed, confidence)
    )
    comparisons = []
    for other, found in zip(others, json.loads(text)):
        without = _inapplicable(baseline, other)
        if problems := sorted({problem for problem, _ in without.values() if problem}):
            warnings.warn("; ".join(problems), RuntimeWarning, stacklevel=2)
        measures = {name: Difference._of(found["measures"][name], without[name][1]) for name in baseline.measures}
        comparisons.append(Comparison(found["queries"], measures))
    return comparisons


def _inapplicable(baseline: Evaluation, other: Evaluation) -> dict[str, tuple[str, Collection[str]]]:
    """By measure: why tests do not apply to the differences of two evaluations, and which."""
    row_of = {query: row for row, query in enumerate(other.queries)}
    rows = [(row, row_of[query]) for row, query in enumerate(baseline.queries) if query in row_of]
    ours, theirs = map(list, zip(*rows))
    differences = other.values[theirs] - baseline.values[ours]
    found: dict[str, tuple[str, Collection[str]]] = {}
    for name, of in zip(baseline.measures, differences.T):
        if len(of) == 1:
            tests = ("bootstrap", "randomisation", "t", "wilcoxon", "mcnemar")
            found[name] = "a single query has no p-values", tests
        elif of[0] != 0 and (of == of[0]).all():
            problem = f"{name}: all queries differ by the same amount, for which the tests bootstrap and t have no p-value"
            found[name] = problem, ("bootstrap", "t")
        else:
            found[name] = "", ()
    return found


def _bootstrap(resamples: int, seed: int, confidence: float) -> str:
    drawn = {
        "resamples": _arguments.count("resamples", resamples, 1),
        "seed": _arguments.count("seed", seed),
        "confidence": _arguments.fraction("confidence", confidence),
    }
    return json.dumps(drawn)


def _name(measure: object) -> str:
    name, at, cutoff = str(measure).partition("@")
    name = name.lower()
    if not at and name.startswith(("ndcg_cut_", "p_", "recall_")):
        name, _, cutoff = name.rpartition("_")
        at = "@"
    return _NAMES.get(name, name) + at + cutoff


def _input(name: str, given: Any, column: str, kind: type) -> Any:
    if isinstance(given, (str, os.PathLike)):
        return _arguments.path(name, given)
    if hasattr(given, "columns"):
        columns = ["query_id", "doc_id", column]
        if missing := [needed for needed in columns if needed not in given.columns]:
            found = ", ".join(map(str, given.columns))
            raise ValueError(f"{name}: expected the column {missing[0]}, found {found}")
        by_query: dict[str, dict[str, Any]] = {}
        for query, document, value in zip(*(given[needed] for needed in columns)):
            by_query.setdefault(str(query), {})[str(document)] = kind(value)
        return by_query
    if isinstance(given, Mapping):
        return given if isinstance(given, dict) else {query: dict(found) for query, found in given.items()}
    raise TypeError(f"{name}: expected a dictionary, a DataFrame or a path, found {type(given).__name__}")
