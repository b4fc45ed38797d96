#!/usr/bin/env python3
"""Checks `quarry eval verdicts` against scikit-learn and statsmodels.

    pip install scikit-learn==1.9.1 statsmodels==0.15.0
    python3 bench/check_verdicts.py target/release/quarry [--cases 100] [--seed 1]

Random verdicts and forecasts with ties, of one class and of several. What scikit-learn calls undefined (ROC AUC of one
class, average precision without a positive) is undefined here; its zero division is 0. Expected calibration error
and risk–coverage are written out from its calibration curve and from sorted errors.
"""

import sys
import warnings

import numpy as np
from sklearn import metrics
from sklearn.calibration import calibration_curve
from statsmodels.stats.contingency_tables import mcnemar

import differential


def check_classification(check):
    rng = check.rng
    labels = rng.choice([["0", "1"], ["1"], ["0"], ["0", "1", "two", "ü"]])
    n = rng.choice([1, 2, 10, 200])
    truth, predicted, other = (np.array(rng.choices(labels, k=n)) for _ in range(3))
    scores = np.array([rng.choice([0.0, -1.5, 0.25, rng.random()]) for _ in range(n)])
    rows = [f"{t},{p},{s!r}" for t, p, s in zip(truth, predicted, map(float, scores))]
    file = check.write("verdicts", ["truth,prediction,score", *rows])
    against = check.write("other", ["truth,prediction", *(f"{t},{p}" for t, p in zip(truth, other))])
    found = check.run("verdicts", file, "--against", against)
    check.equal("accuracy", found["accuracy"], metrics.accuracy_score(truth, predicted))
    check.equal("macro F1", found["macro_f1"], metrics.f1_score(truth, predicted, average="macro", zero_division=0))
    names = sorted(set(truth) | set(predicted))
    of_classes = metrics.precision_recall_fscore_support(truth, predicted, labels=names, zero_division=0)
    if sorted(found["classes"]) != names:
        raise differential.Difference(f"classes {sorted(found['classes'])}, expected {names}")
    for label, *expected in zip(names, *of_classes):
        for name, value in zip(["precision", "recall", "f1", "support"], expected):
            check.equal(f"{name} of {label}", found["classes"][label][name], value)
    positive = truth == "1"
    check.equal("ROC AUC", found["roc_auc"], metrics.roc_auc_score(positive, scores) if 0 < positive.sum() < n else None)
    expected = metrics.average_precision_score(positive, scores) if positive.any() else None
    check.equal("average precision", found["average_precision"], expected)
    a, b = truth == predicted, truth == other
    table = [[(a & b).sum(), (a & ~b).sum()], [(~a & b).sum(), (~a & ~b).sum()]]
    check.equal("McNemar", found["against"]["mcnemar"]["p"], mcnemar(table, exact=True).pvalue)


def check_calibration(check):
    rng = check.rng
    n = rng.choice([1, 2, 11, 300])
    draw = rng.choice([rng.random, lambda: rng.randrange(11) / 10, lambda: rng.choice([0.0, 0.5, 1.0])])
    probabilities = np.array([draw() for _ in range(n)])
    outcomes = np.array([rng.random() < p for p in probabilities])
    rows = [f"{p!r},{rng.choice(['1', 'true', 'Yes'] if o else ['0', 'False', 'no'])}" for p, o in zip(map(float, probabilities), outcomes)]
    n_bins, strategy = rng.choice([1, 2, 10, 15]), rng.choice(["uniform", "quantile"])
    options = ["--bins", n_bins, "--binning", "width" if strategy == "uniform" else strategy]
    found = check.run("verdicts", check.write("forecasts", ["probability,outcome", *rows]), *options)
    expected = float(np.mean((probabilities - outcomes) ** 2))
    if 0 < outcomes.sum() < n:
        expected = metrics.brier_score_loss(outcomes, probabilities)
    check.equal("Brier score", found["brier_score"], expected)
    borders = np.linspace(0, 1, n_bins + 1)
    if strategy == "quantile":
        borders = np.percentile(probabilities, borders * 100)
    inner = borders[1:-1]
    # Interpolated borders differ in their last bits, which decides the bin of a probability on a border.
    on_border = strategy == "quantile" and (np.abs(inner[:, None] - probabilities) < 1e-12).any()
    if not on_border and 0 < outcomes.sum() < n:
        held, mean = calibration_curve(outcomes, probabilities, n_bins=n_bins, strategy=strategy)
        counts = np.bincount(np.searchsorted(inner, probabilities), minlength=n_bins)
        counts = counts[counts > 0]
        check.equal("number of bins", len(found["bins"]), len(held))
        for found_bin, *expected in zip(found["bins"], held, mean, counts):
            for name, value in zip(["share_held", "mean_probability", "count"], expected):
                check.equal(name, found_bin[name], value)
        error = (counts * np.abs(held - mean)).sum() / n
        check.equal("calibration error", found["expected_calibration_error"], error)
    confidences = np.maximum(probabilities, 1 - probabilities)
    wrong = (probabilities >= 0.5) != outcomes
    curve = [(c, (confidences >= c).mean(), wrong[confidences >= c].mean()) for c in np.unique(confidences)[::-1]]
    check.equal("points of the curve", len(found["risk_coverage"]), len(curve))
    for point, expected in zip(found["risk_coverage"], curve):
        for name, value in zip(["threshold", "coverage", "risk"], expected):
            check.equal(name, point[name], value)
    widths = np.diff([0, *(coverage for _, coverage, _ in curve)])
    area = (widths * [risk for _, _, risk in curve]).sum()
    check.equal("area under risk-coverage", found["area_under_risk_coverage"], area)


def check_case(check):
    check_classification(check)
    check_calibration(check)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(differential.main(__doc__, 100, check_case))
