"""Quarry's measures for ir-measures (``pip install ir-measures``), as its provider ``quarry``.

>>> import ir_measures, quarry.ir_measures
>>> from ir_measures import nDCG, RR
>>> quarry.ir_measures.provider.calc_aggregate([nDCG @ 10, RR @ 10], qrels, run)  # doctest: +SKIP

Equal scores are in the order of trec_eval, for measures with a cutoff too: by document id, descending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ir_measures import AP, P, R, RBP, RR, Bpref, Judged, Metric, Rprec, Success, nDCG, providers
from ir_measures.providers.base import NOT_PROVIDED, Choices, ParamSpec
from ir_measures.providers.base import Any as Anything
from ir_measures.util import QrelsConverter, RunConverter

from . import QuarryError, evaluate

__all__ = ["QuarryProvider", "provider"]

# The names of `quarry.evaluate`, before the cutoff.
_NAMES = {
    "AP": "map",
    "Bpref": "bpref",
    "Judged": "judged",
    "P": "precision",
    "R": "recall",
    "RR": "mrr",
    "Rprec": "r_precision",
    "Success": "success",
    "nDCG": "ndcg",
}


class _FromOne(ParamSpec):  # type: ignore[misc]
    """Grades from which a document is relevant; a negative grade is no judgment."""

    def validate(self, value: Any) -> bool:
        return isinstance(value, int) and value >= 1


class _Percent(ParamSpec):  # type: ignore[misc]
    """A persistence of two digits after the point."""

    def validate(self, value: Any) -> bool:
        return isinstance(value, float) and 0 < value < 1 and round(value, 2) == value


class QuarryProvider(providers.Provider):  # type: ignore[misc]
    """Computes measures by `quarry.evaluate`."""

    NAME = "quarry"
    SUPPORTED_MEASURES = [
        AP(cutoff=Anything(), rel=_FromOne(), judged_only=Anything()),
        Bpref(rel=_FromOne()),
        Judged(cutoff=Anything(required=True)),
        P(cutoff=Anything(), rel=_FromOne(), judged_only=Anything()),
        R(cutoff=Anything(), rel=_FromOne(), judged_only=Anything()),
        RBP(cutoff=Choices(NOT_PROVIDED), p=_Percent(), rel=_FromOne()),
        RR(cutoff=Anything(), rel=_FromOne(), judged_only=Anything()),
        Rprec(rel=_FromOne(), judged_only=Anything()),
        Success(cutoff=Anything(), rel=_FromOne(), judged_only=Anything()),
        nDCG(cutoff=Anything(), dcg=Anything(), gains=Anything(), judged_only=Anything()),
    ]

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> QuarryEvaluator:
        return QuarryEvaluator(list(measures), QrelsConverter(qrels).as_dict_of_dict())


class QuarryEvaluator(providers.Evaluator):  # type: ignore[misc]
    """Evaluates runs against the same judgments."""

    def __init__(self, measures: list[Any], qrels: Any) -> None:
        super().__init__(measures, set(qrels))
        # What is computed together: measures with the same grades and conventions.
        groups: dict[str, tuple[dict[str, dict[str, int]], dict[str, Any], list[Any]]] = {}
        for measure in measures:
            rel, gains = _of(measure, "rel"), _of(measure, "gains")
            conventions = {
                "gain": "exponential" if _of(measure, "dcg") == "exp-log2" else "linear",
                "unjudged": "removed" if _of(measure, "judged_only") else "wrong",
            }
            key = repr((rel, gains, conventions))
            if key not in groups:
                groups[key] = (_grades(qrels, rel, gains), conventions, [])
            groups[key][2].append(measure)
        self._groups = list(groups.values())

    def _iter_calc(self, run: Any) -> Iterator[Any]:
        run = RunConverter(run).as_dict_of_dict()
        # The caller adds those that the run lacks.
        if not any(query in run for query in self.qrel_qids):
            return
        for grades, conventions, group in self._groups:
            names = [_name(measure) for measure in group]
            found = evaluate(grades, run, names, resamples=1, **conventions)
            for query, values in zip(found.queries, found.values):
                for measure, value in zip(group, values):
                    yield Metric(query_id=query, measure=measure, value=float(value))


def _of(measure: Any, parameter: str) -> Any:
    """A parameter; None if it was not given, or the measure has none of the name."""
    if parameter not in measure.SUPPORTED_PARAMS:
        return None
    value = measure[parameter]
    return None if value is NOT_PROVIDED else value


def _grades(
    qrels: dict[str, dict[str, int]], rel: int | None, gains: dict[int, int] | None
) -> dict[str, dict[str, int]]:
    """Judgments in which a grade of 1 or more is relevant, and is the gain."""
    if rel is None and gains is None:
        return qrels

    def grade(given: int) -> int:
        if gains is not None:
            return gains.get(given, given)
        return given if given < 0 else int(given >= (rel or 1))

    return {query: {id: grade(given) for id, given in of.items()} for query, of in qrels.items()}


def _name(measure: Any) -> str:
    if measure.NAME == "RBP":
        return f"rbp.{round(measure['p'] * 100):02}"
    name = _NAMES.get(measure.NAME)
    if name is None:
        raise QuarryError(f"{measure}: expected one of {', '.join([*_NAMES, 'RBP'])}")
    cutoff = _of(measure, "cutoff")
    return name if cutoff is None else f"{name}@{cutoff}"


provider = QuarryProvider()
providers.register(provider)
