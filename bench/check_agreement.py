#!/usr/bin/env python3
"""Checks `quarry eval agreement` against krippendorff, scikit-learn, statsmodels and SciPy on random ratings.

    pip install krippendorff==0.9.0 scikit-learn==1.9.1 scipy==1.17.1 statsmodels==0.15.0
    python3 bench/check_agreement.py target/release/quarry [--cases 150] [--seed 1]

Tables have up to 60 units and 5 raters, missing ratings, few or many distinct values, negative ones where the level
has them. Values that a library refuses or calls NaN are undefined here.
"""

import sys
import warnings

import krippendorff
import numpy as np
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

import differential

RESAMPLES = 20


def alpha(table, level):
    """Krippendorff's alpha of units × raters, None if it is undefined."""
    if (np.isfinite(table).sum(axis=1) > 1).sum() == 0:
        return None
    try:
        return float(krippendorff.alpha(reliability_data=table.T, level_of_measurement=level))
    except ValueError:
        return None


def random_table(rng, level):
    values = rng.choice([[0, 1], [0, 1, 2, 3, 5], [0.5, 1.25, 3], list(range(40))])
    if level in ("ordinal", "interval") and rng.random() < 0.3:
        values = [value - 2 for value in values]
    units, raters = rng.choice([2, 3, 10, 60]), rng.randint(2, 5)
    missing = rng.choice([0, 0, 0.2, 0.6])
    table = []
    for _ in range(units):
        truth = rng.choice(values)
        row = [truth if rng.random() < 0.6 else rng.choice(values) for _ in range(raters)]
        table.append([np.nan if rng.random() < missing else value for value in row])
    table[0][0] = rng.choice(values)
    return np.array(table, dtype=float)


def check_pair(check, pair, table):
    a, b = table[:, pair["raters"][0]], table[:, pair["raters"][1]]
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    check.equal("units of a pair", pair["units"], len(a))
    # scikit-learn takes labels, not measurements: their indices among the distinct values.
    values = np.unique(np.concatenate([a, b]))
    labels = [np.searchsorted(values, of) for of in (a, b)]
    for name, weights in [("cohen_kappa", None), ("cohen_kappa_linear", "linear"), ("cohen_kappa_quadratic", "quadratic")]:
        expected = cohen_kappa_score(*labels, weights=weights) if len(values) > 1 else None
        check.equal(name, pair[name], expected)
    defined = len(np.unique(a)) > 1 and len(np.unique(b)) > 1
    for name, library in [("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall_tau_b", stats.kendalltau)]:
        check.equal(name, pair[name], float(library(a, b)[0]) if defined else None)


def check_case(check):
    level = check.rng.choice(["nominal", "ordinal", "interval", "ratio"])
    table = random_table(check.rng, level)
    lines = [",".join(f"r{rater}" for rater in range(table.shape[1])) + ",unit"]
    lines += [",".join("" if np.isnan(value) else repr(float(value)) for value in row) + f",u{i}" for i, row in enumerate(table)]
    block = check.rng.choice([2, 5, 100])
    options = ["--level", level, "--unit-column", "unit", "--block", block, "--resamples", RESAMPLES]
    found = check.run("agreement", check.write("ratings", lines), *options)
    check.equal("alpha", found["krippendorff_alpha"], alpha(table, level))
    blocks = [alpha(table[start : start + block], level) for start in range(0, len(table), block)]
    expected = None if None in blocks else float(np.mean(blocks))
    check.equal("alpha by blocks", found.get("krippendorff_alpha_by_blocks"), expected)

    pairable = table[np.isfinite(table).sum(axis=1) > 1]
    random = differential.WyRand(42)
    drawn = [[random.below(len(pairable)) for _ in pairable] for _ in range(RESAMPLES)] if len(pairable) else []
    alphas = [value for value in (alpha(pairable[rows], level) for rows in drawn) if value is not None]
    interval = found["krippendorff_interval"] or [None, None]
    ends = np.quantile(alphas, [0.025, 0.975]) if alphas else [None, None]
    check.equal("low end of alpha", interval[0], ends[0])
    check.equal("high end of alpha", interval[1], ends[1])

    complete = table[np.isfinite(table).all(axis=1)]
    kappa = None
    if len(complete) == len(table) and len(np.unique(table)) > 1:
        kappa = inter_rater.fleiss_kappa(inter_rater.aggregate_raters(table)[0])
    if len(complete) == len(table) or len(set(np.isfinite(table).sum(axis=1))) > 1:
        check.equal("Fleiss' kappa", found["fleiss_kappa"], kappa)
    shares = []
    for row in table:
        row = row[np.isfinite(row)]
        pairs = [row[i] == row[j] for i in range(len(row)) for j in range(i)]
        shares += [np.mean(pairs)] if pairs else []
    check.equal("percent agreement", found["percent_agreement"], float(np.mean(shares)) if shares else None)

    items = complete.shape[1]
    cronbach = None
    if len(complete) > 1 and complete.sum(axis=1).var() > 1e-12:
        ratio = complete.var(axis=0, ddof=1).sum() / complete.sum(axis=1).var(ddof=1)
        cronbach = items / (items - 1) * (1 - ratio)
    check.equal("Cronbach's alpha", found["cronbach_alpha"], cronbach)
    columns = [column[np.isfinite(column)] for column in table.T]
    for name, ddof in [("average_variance_population", 0), ("average_variance_sample", 1)]:
        variances = [column.var(ddof=ddof) if len(column) > ddof else np.nan for column in columns]
        check.equal(name, found[name], float(np.mean(variances)))
    for pair in found["pairs"]:
        check_pair(check, pair, table)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(differential.main(__doc__, 150, check_case))
