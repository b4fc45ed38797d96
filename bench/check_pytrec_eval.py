#!/usr/bin/env python3
"""Checks `quarry eval score` against pytrec_eval on random qrels and runs.

    pip install pytrec_eval-terrier==0.5.11
    python3 bench/check_pytrec_eval.py target/release/quarry [--cases 3000] [--seed 1]

Every case is a qrels file (TREC or BEIR) and a run of up to a dozen queries, with many equal scores, scores
that differ only as doubles, infinite and tiny ones, grades from -2 to 4, unjudged documents, and queries that
one of the two files lacks. Means and the values of each query must agree within 1e-9.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytrec_eval

CUTOFFS = "1,3,5,10,20,100,1000"
PYTREC_MEASURES = {"recip_rank", "map", "ndcg", "Rprec", "bpref"} | {
    f"{name}.{CUTOFFS}" for name in ["ndcg_cut", "recall", "P", "map_cut", "success"]
}
TOLERANCE = 1e-9


def names_in_pytrec_eval():
    names = {"mrr": "recip_rank", "map": "map", "ndcg": "ndcg", "r_precision": "Rprec", "bpref": "bpref"}
    for k in CUTOFFS.split(","):
        names |= {f"ndcg@{k}": f"ndcg_cut_{k}", f"recall@{k}": f"recall_{k}", f"precision@{k}": f"P_{k}"}
        names |= {f"map@{k}": f"map_cut_{k}", f"success@{k}": f"success_{k}", f"hit_rate@{k}": f"success_{k}"}
    return names


NAMES = names_in_pytrec_eval()


def random_case(rng):
    """Qrels and run as dictionaries, of few queries and up to a few hundred documents."""
    ids = [rng.choice(["", "d", "D", "é", "文"]) + str(rng.randrange(10 ** rng.randint(1, 6))) for _ in range(300)]
    pool = sorted(set(ids))[: rng.choice([3, 15, 300])]
    scores = [rng.choice([-1, 1]) * rng.random() for _ in range(rng.choice([1, 2, 8, 300]))]
    if rng.random() < 0.3:
        scores += [score + 1e-9 for score in scores]
    if rng.random() < 0.1:
        scores += [1e300, -1e300, 1e-60, -1e-60, 0.0, -0.0]
    queries = [f"q{n}" for n in range(rng.randint(1, 12))]
    grades = rng.choice([[0, 1], [1], [-2, -1, 0, 1, 2, 3, 4], [-1, 0]])

    def some(chance, entry):
        return {query: entry() for query in queries if rng.random() < chance}

    def documents(values):
        return {document: rng.choice(values) for document in rng.sample(pool, rng.randint(1, len(pool)))}

    qrels = some(rng.choice([0.7, 1]), lambda: documents(grades))
    for judged in qrels.values():
        # pytrec_eval 0.5.11 reads out of bounds for a query whose maximum grade is negative.
        if max(judged.values()) < 0:
            judged[next(iter(judged))] = 0
    run = some(rng.choice([0.7, 1]), lambda: documents(scores))
    return qrels, run


def write_case(rng, directory, qrels, run):
    judged = [(query, document, grade) for query, grades in qrels.items() for document, grade in grades.items()]
    found = [(query, document, score) for query, scores in run.items() for document, score in scores.items()]
    rng.shuffle(judged)
    rng.shuffle(found)
    if rng.random() < 0.5:
        lines = [f"{query} 0 {document} {grade}" for query, document, grade in judged]
    else:
        lines = ["query-id\tcorpus-id\tscore", *(f"{q}\t{d}\t{g}" for q, d, g in judged)]
    (directory / "qrels").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = [f"{query} Q0 {document} {rng.randint(1, 9)} {score!r} tag" for query, document, score in found]
    (directory / "run").write_text("\n".join(lines) + "\n", encoding="utf-8")


def expected_values(qrels, run):
    """Values of pytrec_eval by query, with Quarry's names."""
    results = pytrec_eval.RelevanceEvaluator(qrels, PYTREC_MEASURES).evaluate(run)
    values = {}
    for query, result in results.items():
        values[query] = {ours: result[theirs] for ours, theirs in NAMES.items()}
        reciprocal_rank = result["recip_rank"]
        values[query]["mrr@10"] = reciprocal_rank if reciprocal_rank > 1 / 10.5 else 0.0
    return values


def quarry_values(quarry, directory):
    """Quarry's values by query and their means, or the error."""
    command = [quarry, "eval", "score", "--qrels", directory / "qrels", "--run", directory / "run", "--json"]
    command += ["--per-query", directory / "values", "--resamples", "1", "--metrics", ",".join([*NAMES, "mrr@10"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr
    lines = (directory / "values").read_text(encoding="utf-8").splitlines()
    values = {line["query"]: line["metrics"] for line in map(json.loads, lines)}
    return values, json.loads(done.stdout)


def differences(expected, values, report):
    """The disagreements as text, and the maximum difference of all others."""
    if values is None:
        fine = not expected and "expected at least one query" in report
        return ([] if fine else [f"failed: {report}"]), 0.0
    if values.keys() != expected.keys():
        return [f"queries {sorted(values)} where {sorted(expected)} belong"], 0.0
    if report["queries"] != len(expected):
        return [f"{report['queries']} queries counted where {len(expected)} belong"], 0.0
    problems, furthest = [], 0.0
    means = {name: sum(v[name] for v in expected.values()) / len(expected) for name in next(iter(expected.values()))}
    for where, found, wanted in [("mean", report["metrics"], means), *((q, values[q], expected[q]) for q in expected)]:
        if found.keys() != wanted.keys():
            problems.append(f"{where}: measures {sorted(found)} where {sorted(wanted)} belong")
            continue
        for name, value in wanted.items():
            apart = abs(found[name] - value)
            furthest = max(furthest, apart)
            if not apart <= TOLERANCE:
                problems.append(f"{where}: {name} is {found[name]}, pytrec_eval has {value}")
    return problems, furthest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry", help="path of the quarry binary")
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    furthest, n_queries, n_empty = 0.0, 0, 0
    for case in range(arguments.cases):
        rng = random.Random(f"{arguments.seed}/{case}")
        qrels, run = random_case(rng)
        if not qrels or not run:
            continue
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            write_case(rng, directory, qrels, run)
            expected = expected_values(qrels, run)
            problems, apart = differences(expected, *quarry_values(arguments.quarry, directory))
            if problems:
                print(f"case {case} of seed {arguments.seed}:", *problems[:10], sep="\n  ")
                return 1
        furthest = max(furthest, apart)
        n_queries += len(expected)
        n_empty += not expected
    print(
        f"{arguments.cases} runs, {n_queries} queries: agree within {TOLERANCE:g}, at most {furthest:.1e} apart; "
        f"{n_empty} runs without a common query refused"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
