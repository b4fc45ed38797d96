"""The provider for ir-measures, beside those of that package."""

import random

import pytest

ir_measures = pytest.importorskip("ir_measures")
from ir_measures import AP, P, R, RBP, RR, Bpref, ERR, Judged, Rprec, ScoredDoc, Success, nDCG  # noqa: E402

import quarry  # noqa: E402
from quarry.ir_measures import provider  # noqa: E402

# Those in which both follow trec_eval.
MEASURES = [
    AP, AP @ 5, AP(rel=2), AP(judged_only=True), AP(rel=2, judged_only=True) @ 3,
    Bpref, Bpref(rel=2),
    P @ 1, P(rel=2) @ 5, P(judged_only=True) @ 10,
    R @ 5, R(rel=3) @ 10,
    RR, RR(rel=2), RR(judged_only=True),
    Rprec, Rprec(rel=2),
    Success @ 1, Success(rel=2) @ 3,
    nDCG, nDCG @ 5, nDCG(judged_only=True) @ 10, nDCG(gains={1: 5, 2: 1, 3: 9}) @ 10,
]  # fmt: skip


def random_data(seed, n_scores):
    """Judgments with negative grades; a run with a few scores, so that many are equal, which lacks a query and has another."""
    rng = random.Random(seed)
    qrels, run = {}, {}
    for query in (f"q{number}" for number in range(20)):
        pool = [f"d{number}" for number in range(rng.choice([3, 20, 60]))]
        judged = rng.sample(pool, rng.randint(1, len(pool)))
        qrels[query] = {document: rng.choice([-1, 0, 0, 1, 2, 3]) for document in judged}
        found = rng.sample(pool, rng.randint(1, len(pool)))
        scores = rng.sample(range(100), len(found)) if n_scores is None else rng.choices(range(n_scores), k=len(found))
        run[query] = {document: score / 8 for document, score in zip(found, scores)}
    del qrels["q0"], run["q1"]
    return qrels, run


def by_query(found):
    return {(str(metric.measure), metric.query_id): metric.value for metric in found}


@pytest.mark.parametrize("n_scores", [1, 4, None])
@pytest.mark.parametrize("seed", range(5))
def test_values_are_those_of_pytrec_eval(seed, n_scores):
    qrels, run = random_data(seed, n_scores)
    ours, theirs = (by_query(of.iter_calc(MEASURES, qrels, run)) for of in (provider, ir_measures.pytrec_eval))
    assert ours == pytest.approx(theirs, abs=1e-9) and len(ours) == len(MEASURES) * len(qrels)
    means = ir_measures.pytrec_eval.calc_aggregate(MEASURES, qrels, run)
    assert provider.calc_aggregate(MEASURES, qrels, run) == pytest.approx(means, abs=1e-9)


def test_measures_that_trec_eval_does_not_have():
    qrels, run = random_data(1, None)
    others = [Judged @ 1, Judged @ 10, RR @ 3]
    qrels = {query: {id: max(grade, 0) for id, grade in of.items()} for query, of in qrels.items()}
    assert provider.calc_aggregate(others, qrels, run) == pytest.approx(ir_measures.calc_aggregate(others, qrels, run))
    [found] = provider.iter_calc([RBP(p=0.5, rel=1)], {"q": {"a": 1, "b": 2}}, {"q": {"a": 3.0, "x": 2.0, "b": 1.0}})
    assert found.value == pytest.approx((1 + 0.5**2) * (1 - 0.5))


def test_what_is_supported():
    registered = ir_measures.providers.registry["quarry"]
    assert registered is provider and provider.supports(nDCG(dcg="exp-log2") @ 10)
    for measure in [ERR @ 10, RBP, RBP(p=0.955, rel=1), P(rel=0) @ 5]:
        assert not provider.supports(measure)
    with pytest.raises(quarry.QuarryError, match="ERR@10: expected one of AP, Bpref"):
        provider.calc_aggregate([ERR @ 10], {"q": {"a": 1}}, {"q": {"a": 1.0}})


def test_inputs_of_every_kind():
    rows = [ScoredDoc("q", "a", 1.0), ScoredDoc("q", "b", 2.0)]
    assert provider.calc_aggregate([RR], {"q": {"a": 1}}, iter(rows)) == {RR: 0.5}
    assert provider.calc_aggregate([RR], {"q": {"a": 1}}, {}) == {RR: 0}
