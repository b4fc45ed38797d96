#!/usr/bin/env python3
"""Checks `quarry eval compare` against SciPy and statsmodels on random runs.

    pip install scipy==1.17.1 statsmodels==0.15.0
    python3 bench/check_significance.py target/release/quarry [--cases 40] [--seed 1]

The reciprocal rank of a query depends on the rank of its only relevant document, so values are 1 / rank or
0, with many ties and differences of 0. Where the libraries disagree with each other or with us:

- Wilcoxon's test is exact up to 50 differences here, ties or not. SciPy's exact method does not support ties: with ties it is
  asked for all signs up to 8 differences, and between 9 and 50 all signs are counted here.
- Randomization is exact while there are no more signs than resamples, as in SciPy; above that signs are drawn at
  random here and there, and p must agree within 4 standard errors.
- The minimum detectable difference is checked by the power that statsmodels gives it: its own solver stops within 1e-4.
- The bootstrap draws with fastrand's generator, which `differential.WyRand` repeats; quantiles are NumPy's.
"""

import math
import sys
import warnings

import numpy as np
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

import differential

RESAMPLES = 200


def random_ranks(rng, n):
    """The rank of the relevant document of each query, 0 if it is not found."""
    most = rng.choice([3, 30])
    return [rng.choice([0, rng.randint(1, most)]) if rng.random() < 0.2 else rng.randint(1, most) for _ in range(n)]


def write_run(check, name, ranks):
    lines = []
    for query, rank in enumerate(ranks):
        documents = ["x" if position == rank else f"d{position}" for position in range(1, max(rank, 1) + 1)]
        lines += [f"{query} Q0 {document} 1 {-position} t" for position, document in enumerate(documents)]
    return check.write(name, lines)


def wilcoxon_p(differences):
    nonzero = differences[differences != 0]
    n = len(nonzero)
    if n == 0:
        return 0.0, 1.0
    ties = len(np.unique(np.abs(nonzero))) < n
    if n > 50:
        found = stats.wilcoxon(nonzero, method="asymptotic")
    elif not ties:
        found = stats.wilcoxon(nonzero, method="exact")
    elif n <= 8:
        found = stats.wilcoxon(nonzero, method=stats.PermutationMethod(n_resamples=np.inf))
    else:
        ranks = np.round(2 * stats.rankdata(np.abs(nonzero))).astype(int)
        ways = np.zeros(ranks.sum() + 1)
        ways[0] = 1
        for rank in ranks:
            ways[rank:] = ways[rank:] + ways[:-rank]
        positive = ranks[nonzero > 0].sum()
        least = min(positive, ranks.sum() - positive)
        return least / 2, min(1.0, 2 * ways[: least + 1].sum() / ways.sum())
    return found.statistic, found.pvalue


def check_randomization(check, found, a, b):
    n = int(np.count_nonzero(b - a))

    def difference(x, y, axis):
        return np.mean(y - x, axis=axis)

    if 2**n <= RESAMPLES:
        keep = b != a
        if n < 2:
            expected = 1.0
        else:
            expected = stats.permutation_test(
                (a[keep], b[keep]), difference, permutation_type="samples", vectorized=True, n_resamples=np.inf
            ).pvalue
        check.equal("randomisation", found["p"], expected)
    elif len(a) > 14:
        signs = np.random.default_rng(check.rng.randrange(99)).choice([-1, 1], (2000, len(a)))
        expected = np.mean(np.abs(signs @ (b - a)) >= abs((b - a).sum()) - 1e-12)
        error = math.sqrt(expected * (1 - expected) * (1 / RESAMPLES + 1 / 2000)) + 1 / RESAMPLES
        check.equal("randomisation", found["p"], expected, 4 * error)


def check_bootstrap(check, found, differences):
    differences = differences.tolist()
    random, n = differential.WyRand(42), len(differences)
    means = np.array([sum(differences[random.below(n)] for _ in range(n)) / n for _ in range(RESAMPLES)])
    mean = sum(differences) / n
    low, high = np.quantile(means, [0.025, 0.975])
    check.equal("low end of the bootstrap", found["interval"][0], low)
    check.equal("high end of the bootstrap", found["interval"][1], high)
    as_far = np.count_nonzero(np.abs(means - mean) >= abs(mean) * (1 - 1e-12))
    check.equal("bootstrap p", found["p"], (as_far + 1) / (RESAMPLES + 1))


def check_measure(check, found, a, b, n_planned):
    differences = b - a
    n = len(differences)
    tests = found["tests"]
    check.equal("mean of a", found["mean_a"], a.mean())
    check.equal("difference", found["difference"], differences.mean())
    if n > 1 and differences.any():
        deviation = differences.std(ddof=1)
        if deviation > 1e-9:
            expected = stats.ttest_rel(b, a)
            check.equal("t", tests["t"]["statistic"], expected.statistic)
            check.equal("p of t", tests["t"]["p"], expected.pvalue)
            check.equal("effect size", found["effect_size"], differences.mean() / deviation)
            effect = found["minimum_detectable_difference"] / deviation
            power = TTestPower().power(effect, n_planned, 0.05, alternative="two-sided")
            check.equal("power at the detectable difference", power, 0.8)
    statistic, p = wilcoxon_p(differences)
    check.equal("Wilcoxon's statistic", tests["wilcoxon"]["statistic"], statistic)
    check.equal("Wilcoxon's p", tests["wilcoxon"]["p"], p)
    check_randomization(check, tests["randomisation"], a, b)
    check_bootstrap(check, found, differences)
    binary = np.isin([a, b], [0, 1]).all()
    if binary != ("mcnemar" in tests):
        raise differential.Difference(f"McNemar's test where it does not apply, or the reverse: {a} {b}")
    if binary:
        only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
        table = [[0, only_a], [only_b, 0]]
        check.equal("McNemar's p", found["mcnemar"]["p"], mcnemar(table, exact=True).pvalue)
        if only_a + only_b > 0:
            corrected = mcnemar(table, exact=False, correction=True)
            check.equal("McNemar's chi-squared", found["mcnemar"]["chi_squared"], corrected.statistic)
            check.equal("its p", found["mcnemar"]["p_chi_squared"], corrected.pvalue)


def check_case(check):
    n = check.rng.choice([1, 2, 3, 6, 11, 20, 45, 60, 150])
    n_planned = check.rng.choice([3, 10, 50, 500, 5000])
    ranks = [random_ranks(check.rng, n) for _ in range(3)]
    if check.rng.random() < 0.3:
        ranks[1] = [a if check.rng.random() < 0.7 else b for a, b in zip(*ranks[:2])]
    qrels = check.write("qrels", [f"{query} 0 x 1" for query in range(n)])
    runs = [write_run(check, f"run{i}", of_run) for i, of_run in enumerate(ranks)]
    options = ["--metrics", "mrr,success@1", "--resamples", RESAMPLES, "--planned-queries", n_planned]
    report = check.run("compare", *runs, "--qrels", qrels, *options)
    # Queries are in the order of their ids as text.
    order = sorted(range(n), key=str)
    ranks = [np.array([of_run[query] for query in order]) for of_run in ranks]
    values = {
        "mrr": [np.array([1 / rank if rank else 0.0 for rank in of_run]) for of_run in ranks],
        "success@1": [(of_run == 1).astype(float) for of_run in ranks],
    }
    together = {}
    for i, comparison in enumerate(report["comparisons"]):
        for metric, found in comparison["metrics"].items():
            check_measure(check, found, values[metric][0], values[metric][i + 1], n_planned)
            for name, test in found["tests"].items():
                together.setdefault(name, []).append((test["p"], test["p_holm"]))
    for name, of_tests in together.items():
        p_values, corrected = zip(*of_tests)
        if None not in p_values:
            for found, expected in zip(corrected, multipletests(p_values, method="holm")[1]):
                check.equal(f"Holm over {name}", found, expected)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(differential.main(__doc__, 40, check_case))
