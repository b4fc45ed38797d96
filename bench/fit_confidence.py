"""Fits the confidence of long texts (`long` in crates/index/confidence.json), and cross-validates it by repository.

    python bench/fit_confidence.py swap descriptions.jsonl > elsewhere.jsonl
    quarry eval localize descriptions.jsonl --repos MIRRORS --features own.jsonl
    quarry eval localize elsewhere.jsonl --repos MIRRORS --features elsewhere-features.jsonl
    quarry eval tune TABLES --repos CHECKOUTS --confidence --json > tune.json
    python bench/fit_confidence.py fit own.jsonl elsewhere-features.jsonl tune.json

`swap` asks each text of a file of issues in the tree of another repository whose changed files have the same suffix. A text has an
answer if a gold function is among the first ten of its own tree, and none in another tree. The long questions of the tables
count, too. The intercept is such that the default threshold keeps 95 % of the texts with an answer.
"""

import json
import math
import random
import sys
from collections import defaultdict
from pathlib import Path

import numpy

CONFIDENCE = Path(__file__).parent.parent / "crates/index/confidence.json"
NAMES = ["matched", "known", "gap", "words", "cosine", "log_share", "log_lead"]
THRESHOLD = 0.26
KEPT = 0.95
PENALTY = 0.01
FOLDS = 4


def swap(path):
    issues = [json.loads(line) for line in open(path)]
    by_suffix = defaultdict(dict)
    for issue in issues:
        if issue.get("lines"):
            by_suffix[Path(issue["lines"][0]["path"]).suffix][issue["repository"]] = issue
    draw = random.Random(1)
    for issue in issues:
        suffix = Path(issue["lines"][0]["path"]).suffix if issue.get("lines") else ""
        others = [other for name, other in sorted(by_suffix[suffix].items()) if name != issue["repository"]]
        if others:
            other = draw.choice(others)
            print(json.dumps(issue | {key: other[key] for key in ("repository", "commit", "lines")} | {"functions": [], "files": []}))


def fit(x, y):
    """Intercept and weights of a logistic regression in which both classes count the same."""
    mean, deviation = x.mean(0), x.std(0)
    deviation[deviation < 1e-6] = 1e6
    z = numpy.hstack([(x - mean) / deviation, numpy.ones((len(x), 1))])
    weight = numpy.where(y, 0.5 / y.sum(), 0.5 / (~y).sum())
    at = numpy.zeros(z.shape[1])
    penalty = numpy.diag(numpy.append(numpy.full(x.shape[1], PENALTY), 1e-9))
    for _ in range(50):
        p = 1 / (1 + numpy.exp(-z @ at))
        gradient = z.T @ (weight * (p - y)) + penalty @ at
        at -= numpy.linalg.solve((z.T * (weight * p * (1 - p))) @ z + penalty, gradient)
    weights = at[:-1] / deviation
    return at[-1] - weights @ mean, weights


def measure(label, scores, y):
    bar = numpy.quantile(scores[y], 1 - KEPT)
    pairs = (scores[y][:, None] > scores[~y][None, :]).mean()
    print(f"{label}: {y.sum()} with an answer, {(~y).sum()} without; AUROC {pairs:.3f}, held back at 95 % kept {(scores[~y] < bar).mean():.3f}")
    return bar


def fit_all(rows):
    """Rows are (repository, label, evidence, whether there is an answer)."""
    x = numpy.array([row[2] for row in rows], dtype=float)
    y = numpy.array([row[3] for row in rows])
    repositories = sorted({row[0] for row in rows})
    scores = numpy.zeros(len(rows))
    for number in range(FOLDS):
        held = numpy.array([row[0] in repositories[number::FOLDS] for row in rows])
        intercept, weights = fit(x[~held], y[~held])
        scores[held] = intercept + x[held] @ weights
    measure("cross-validated", scores, y)
    for label in sorted({row[1] for row in rows}):
        of_label = numpy.array([row[1] == label for row in rows])
        if (y & of_label).any() and (~y & of_label).any():
            measure(f"  {label}", scores[of_label], y[of_label])
    intercept, weights = fit(x, y)
    bar = numpy.quantile((scores)[y], 1 - KEPT)
    # Shifted so that the threshold in use keeps the wanted share.
    intercept += math.log(THRESHOLD / (1 - THRESHOLD)) - bar
    found = json.loads(CONFIDENCE.read_text())
    features = dict.fromkeys(found["long"]["features"], 0.0) | {name: round(float(w), 2) for name, w in zip(NAMES, weights)}
    found["long"] = {"intercept": round(float(intercept), 2), "features": features}
    CONFIDENCE.write_text(json.dumps(found, indent=2) + "\n")


def rows_of(path, is_elsewhere):
    for line in open(path):
        text = json.loads(line)
        is_found = text["found"] and not is_elsewhere
        if (is_found or is_elsewhere) and text["evidence"][-1]:
            yield text["repository"], text["source"], text["evidence"][: len(NAMES)], is_found


def questions(path):
    for sample in json.load(open(path))["samples"]:
        if sample["kind"] == "long" and (sample["found"] or not sample["answerable"]):
            yield f"table-{sample['repository']}", "question", sample["evidence"][: len(NAMES)], sample["found"]


def main():
    match sys.argv[1:]:
        case ["swap", path]:
            swap(path)
        case ["fit", own, elsewhere, tuned]:
            fit_all([*rows_of(own, False), *rows_of(elsewhere, True), *questions(tuned)])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
