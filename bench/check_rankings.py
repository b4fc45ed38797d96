#!/usr/bin/env python3
"""Checks `quarry eval score` against ranx, ir_measures and scikit-learn on random qrels and runs.

    pip install ranx==0.3.21 ir-measures==0.4.3 scikit-learn==1.9.1
    python3 bench/check_rankings.py target/release/quarry [--cases 40] [--seed 1]

check_pytrec_eval.py compares with trec_eval's metrics, this script with those that trec_eval does not have. The libraries
disagree with each other, so each is compared in the configuration in which it should agree:

- ranx breaks ties in no fixed order: scores are distinct. Its RBP weighs by grade: grades are binary. Its bpref
  divides by zero without a document that is judged not relevant: there is one.
- ir_measures takes RR@k from the MS MARCO script (ties by smaller id), fills queries that the run lacks with 0
  (`--queries all`), and counts documents of negative grade as judged: grades are not negative.
- scikit-learn's ndcg_score averages over ties (`--ties average`), and knows no document that was not found.
- nAUC is MTEB's, written out here with scikit-learn's `auc`.
- Condensed lists are compared with the same run without its unjudged documents.
"""

import json
import os
import sys

# ranx compiles each metric on its first call, which takes longer than all of this input does uncompiled.
os.environ["NUMBA_DISABLE_JIT"] = "1"

import ir_measures
import numpy as np
from ranx import Qrels, Run, evaluate
from sklearn.metrics import auc, ndcg_score

import differential

RANX = {
    "mrr": "mrr", "mrr@3": "mrr@3", "map": "map", "map@5": "map@5", "ndcg": "ndcg", "ndcg@5": "ndcg@5",
    "recall@5": "recall@5", "precision@5": "precision@5", "hit_rate@2": "hit_rate@2", "success@2": "hit_rate@2",
    "r_precision": "r-precision", "bpref": "bpref", "rbp.95": "rbp.95", "rbp.8": "rbp.80",
}  # fmt: skip
IR_MEASURES = {
    "mrr@1": "RR@1", "mrr@3": "RR@3", "judged@1": "Judged@1", "judged@10": "Judged@10", "judged@1000": "Judged@1000",
}  # fmt: skip


def random_data(rng, grades, distinct):
    """Qrels and run of the same queries; the run may lack some of them."""
    qrels, run = {}, {}
    for query in (f"q{n}" for n in range(rng.randint(2, 30))):
        pool = [f"d{n}" for n in rng.sample(range(1000), rng.choice([4, 20, 60]))]
        judged = rng.sample(pool, rng.randint(3, len(pool)))
        qrels[query] = {document: rng.choice(grades) for document in judged}
        qrels[query][judged[0]], qrels[query][judged[1]] = max(grades), 0
        found = rng.sample(pool, rng.randint(1, len(pool)))
        scores = rng.sample(range(10_000), len(found)) if distinct else rng.choices(range(rng.choice([2, 8])), k=len(found))
        if rng.random() < 0.9:
            run[query] = {document: score / 16 for document, score in zip(found, scores)}
    if not run:
        run[query] = {judged[0]: 1.0}
    return qrels, run


def score(check, qrels, run, metrics, *options):
    """The report, and the values of each query by metric."""
    lines = [f"{q} 0 {document} {grade}" for q, grades in qrels.items() for document, grade in grades.items()]
    qrels_file = check.write("qrels", lines)
    lines = [f"{q} Q0 {document} 1 {value!r} t" for q, scores in run.items() for document, value in scores.items()]
    run_file = check.write("run", lines)
    values = check.directory / "values"
    options = ["--resamples", 1, "--scores", "double", "--metrics", ",".join(metrics), *options]
    report = check.run("score", "--qrels", qrels_file, "--run", run_file, "--per-query", values, *options)
    lines = map(json.loads, values.read_text(encoding="utf-8").splitlines())
    return report, {line["query"]: line["metrics"] for line in lines}


def check_ranx(check):
    qrels, run = random_data(check.rng, [0, 1], distinct=True)
    report, values = score(check, qrels, run, RANX, "--queries", "all")
    theirs = Run(run)
    found = evaluate(Qrels(qrels), theirs, list(set(RANX.values())), make_comparable=True)
    for ours, name in RANX.items():
        check.equal(f"ranx {name}", report["metrics"][ours], found[name])
        for query in qrels:
            check.equal(f"ranx {name} of {query}", values[query][ours], theirs.scores[name][query])
    qrels, run = random_data(check.rng, [0, 1, 2, 3], distinct=True)
    for options, names in [([], ["ndcg", "ndcg@3"]), (["--gain", "exponential"], ["ndcg_burges", "ndcg_burges@3"])]:
        report, _ = score(check, qrels, run, ["ndcg", "ndcg@3"], "--queries", "all", *options)
        found = evaluate(Qrels(qrels), Run(run), names, make_comparable=True)
        for ours, name in zip(["ndcg", "ndcg@3"], names):
            check.equal(f"ranx {name}", report["metrics"][ours], found[name])


def check_ir_measures(check):
    qrels, run = random_data(check.rng, [0, 1, 2], distinct=False)
    report, values = score(check, qrels, run, IR_MEASURES, "--queries", "all", "--ties", "docid-asc")
    measures = {ours: ir_measures.parse_measure(name) for ours, name in IR_MEASURES.items()}
    means = ir_measures.calc_aggregate(measures.values(), qrels, run)
    by_query = {(str(m.measure), m.query_id): m.value for m in ir_measures.iter_calc(measures.values(), qrels, run)}
    for ours, measure in measures.items():
        check.equal(f"ir_measures {measure}", report["metrics"][ours], means[measure])
        for query in run:
            check.equal(f"ir_measures {measure} of {query}", values[query][ours], by_query[str(measure), query])


def check_averaged_ties(check):
    # Every document has a judgment and a score.
    qrels, run = random_data(check.rng, [0, 1, 2, 3], distinct=False)
    run = {query: {d: float(check.rng.randrange(4)) for d in grades} for query, grades in qrels.items()}
    metrics = {"ndcg": None, "ndcg@1": 1, "ndcg@3": 3, "ndcg@10": 10}
    _, values = score(check, qrels, run, metrics, "--ties", "average")
    for query, grades in qrels.items():
        truth, scores = [list(grades.values())], [[run[query][document] for document in grades]]
        for ours, k in metrics.items():
            check.equal(f"scikit-learn {ours} of {query}", values[query][ours], float(ndcg_score(truth, scores, k=k)))


def check_condensed(check):
    qrels, run = random_data(check.rng, [0, 1, 2], distinct=False)
    metrics = ["mrr", "mmrr", "map", "ndcg@10", "precision@5", "bpref", "rbp.8", "r_precision"]
    judged = {q: {d: s for d, s in scores.items() if d in qrels[q]} for q, scores in run.items()}
    options = ["--queries", "with-positive", "--ties", check.rng.choice(["docid-desc", "docid-asc", "average"])]
    condensed, _ = score(check, qrels, run, metrics, "--unjudged", "removed", *options)
    without, _ = score(check, qrels, judged, metrics, *options)
    for metric in metrics:
        check.equal(f"condensed {metric}", condensed["metrics"][metric], without["metrics"][metric])


def area(confidences, values):
    """nAUC (Gisserot-Boukhlef et al., 2024)."""
    rates = np.linspace(0, 1, 11)[:-1]

    def curve(order_by):
        order = np.argsort(order_by, stable=True)
        return [values[order[min(round(rate * len(order)), len(order) - 1) :]].mean() for rate in rates]

    found, best = auc(rates, curve(confidences)), auc(rates, curve(values))
    flat = values.mean() * (rates[-1] - rates[0])
    return (found - flat) / (best - flat) if best - flat > 1e-12 * flat else None


def check_abstention(check):
    qrels, run = random_data(check.rng, [0, 1], distinct=True)
    report, values = score(check, qrels, run, ["mrr", "ndcg@10"], "--nauc")
    queries = sorted(run)
    tops = [sorted(run[query].values(), reverse=True)[:2] for query in queries]
    confidences = {
        "max": [top[0] for top in tops],
        "diff1": [top[0] - top[1] if len(top) > 1 else 0.0 for top in tops],
        "std": [float(np.std(list(run[query].values()))) for query in queries],
    }
    for metric in ["mrr", "ndcg@10"]:
        of_queries = np.array([values[query][metric] for query in queries])
        for name, confidence in confidences.items():
            expected = area(np.array(confidence), of_queries)
            check.equal(f"nAUC {metric} {name}", report.get("nauc", {}).get(f"nauc_{metric}_{name}"), expected, 1e-7)


def check_case(check):
    check_ranx(check)
    check_ir_measures(check)
    check_averaged_ties(check)
    check_condensed(check)
    check_abstention(check)


if __name__ == "__main__":
    sys.exit(differential.main(__doc__, 40, check_case))
