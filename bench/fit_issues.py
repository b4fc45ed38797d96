"""Fits the trees that rank units for an issue (crates/index/issues.json), and cross-validates them by repository.

    quarry eval localize dev.jsonl --repos MIRRORS --features features.jsonl
    pip install lightgbm numpy
    python bench/fit_issues.py features.jsonl --more COMMITS/*/features.jsonl --out crates/index/issues.json

The issues that `bench/commit_issues.py` makes of commit messages (--more) are fitted with those of features.jsonl, and never
measured.

With the features of `--method balanced`, `--reranking` prints what weights of its re-ranker bring, after trees that were
fitted on the other repositories; with those of `best` also of the second one, in a program that asks it. `--history` prints
what two more features bring: how many commits ago a file was changed, and how often in the last 500.

LambdaMART (LightGBM) with trees of three splits that rise with evidence; gold functions in tests do not count, because an
issue asks what to change. The values are scaled for a softmax over them.
"""

import argparse
import json
import math
import re
import subprocess
from collections import Counter
from pathlib import Path

import lightgbm
import numpy

MODEL = Path(__file__).parent.parent / "crates/index/src/ranking/issue/model.rs"
FALLING = {"test", "demoted", "rank_in_file"}
FREE = {
    "function", "method", "type", "private", "log_lines", "log_lines_squared", "best_in_file", "title_word", "trace_name",
    "code_file_lexical", "all_matched", "title_matched",
}
# Evidence that is too rare in a few hundred issues to be learned: its weights are given, and the trees are fitted to the rest.
WEIGHTS = {"innermost_frame": 1.5, "frame": 1.0, "message": 3.5, "position": 1.0}
ROUNDS = 200
# The weights of re-rankers that are tried.
RERANKING = [0, 2, 4, 6, 8, 10, 15, 22]
# What the scores of LambdaMART are multiplied by for the softmax, about.
SCALE = 1.5
# Commits before an issue's that are read, and those among them in which changes are counted.
HISTORY, RECENT = 2000, 500
# How much an issue made of a commit message counts.
WEIGHT_OF_COMMITS = 0.3
# Parts of their repositories, each ranked by trees that were fitted on the others.
FOLDS = 4
# Candidates of an issue that are learned from, besides the gold ones: the best by the preselection.
KEPT = 200


def feature_names():
    return re.findall(r'^    "(\w+)",', MODEL.read_text().split("];")[0], re.MULTILINE)


def is_test(function):
    return any(part.startswith("test") for part in function.split(":")[0].split("/"))


def load(path, n_features):
    issues = []
    for line in open(path):
        issue = json.loads(line)
        issue["x"] = numpy.array(issue.pop("features"), dtype=numpy.float32).reshape(-1, n_features)
        issue["cosines"] = numpy.array(issue["cosines"]).reshape(-1, 2)
        gold = set(issue["gold"])
        issue["y"] = numpy.array([bool(f) and f in gold and not is_test(f) for f in issue["functions"]])
        issues.append(issue)
    return issues


def given(x, names):
    return sum(weight * x[:, names.index(name)] for name, weight in WEIGHTS.items())


def fit(issues, names, commits=()):
    weighted = [(i, 1) for i in issues] + [(i, WEIGHT_OF_COMMITS) for i in commits]
    used, weights = zip(*[(i, weight) for i, weight in weighted if i["y"].any()])
    kept = [(numpy.arange(len(i["y"])) < KEPT) | i["y"] for i in used]
    data = lightgbm.Dataset(
        numpy.vstack([i["x"][k] for i, k in zip(used, kept)]),
        numpy.concatenate([i["y"][k] for i, k in zip(used, kept)]).astype(float),
        weight=numpy.concatenate([numpy.full(k.sum(), weight) for weight, k in zip(weights, kept)]),
        group=[int(k.sum()) for k in kept],
        init_score=numpy.concatenate([given(i["x"][k], names) / SCALE for i, k in zip(used, kept)]),
        params={"max_bin": 63, "verbosity": -1},
    )
    parameters = {
        "objective": "lambdarank", "lambdarank_truncation_level": 30, "learning_rate": 0.06, "num_leaves": 4,
        "min_data_in_leaf": 150, "lambda_l2": 30, "feature_fraction": 0.4, "bagging_fraction": 0.7, "bagging_freq": 1,
        "max_bin": 63, "verbosity": -1, "num_threads": 1, "seed": 1, "deterministic": True,
        "monotone_constraints": [-1 if n in FALLING else 0 if n in FREE else 1 for n in names],
    }
    return lightgbm.train(parameters, data, ROUNDS)


def tree(node, names, factor):
    if "leaf_value" in node:
        return round(node["leaf_value"] * factor, 5)
    return {
        "feature": names[node["split_feature"]],
        "threshold": round(node["threshold"], 5),
        "mean": round(node["internal_value"] * factor, 5),
        "below": tree(node["left_child"], names, factor),
        "above": tree(node["right_child"], names, factor),
    }


def accuracy(issue, scores, k):
    found = []
    for position in numpy.argsort(-scores, kind="stable"):
        function = issue["functions"][position]
        if function and function not in found:
            found.append(function)
        if len(found) == k:
            break
    return all(gold in found for gold in issue["gold"])


def scores_by(model, issue, names):
    return SCALE * model.predict(issue["x"]) + given(issue["x"], names)


def held_out_scores(issues, names, commits=()):
    """The scores of each issue by trees that were fitted on the other repositories, and on commits."""
    scores = {}
    for repository in sorted({i["repository"] for i in issues}):
        model = fit([i for i in issues if i["repository"] != repository], names, commits)
        for issue in issues:
            if issue["repository"] == repository:
                scores[issue["id"]] = scores_by(model, issue, names)
    return scores


def held_out_commits(issues, names, commits):
    """The scores of each issue made of a commit by trees that were fitted on issues and on other repositories' commits."""
    repositories = sorted({i["repository"] for i in commits})
    scores = {}
    for number in range(FOLDS):
        fold = repositories[number::FOLDS]
        model = fit(issues, names, [i for i in commits if i["repository"] not in fold])
        scores |= {i["id"]: scores_by(model, i, names) for i in commits if i["repository"] in fold}
    return scores


def report(label, issues, scores):
    found = {}
    for issue in issues:
        values = [accuracy(issue, scores[issue["id"]], k) for k in (1, 5, 10, 20)]
        found.setdefault(issue["source"], []).append(values)
    for source, rows in sorted(found.items()):
        means = " ".join(f"{mean:.3f}" for mean in numpy.mean(rows, axis=0))
        print(f"{label}{source}: {len(rows)} issues, Acc@1/5/10/20 {means}", flush=True)


def compare(label, issues, before, after):
    for k in (1, 5, 10, 20):
        pairs = [(accuracy(i, before[i["id"]], k), accuracy(i, after[i["id"]], k)) for i in issues]
        lost, gained = pairs.count((True, False)), pairs.count((False, True))
        # The sign test, two-sided.
        tail = sum(math.comb(lost + gained, n) for n in range(min(lost, gained) + 1)) / 2 ** (lost + gained)
        print(f"{label} Acc@{k}: {gained} more, {lost} fewer, p {min(1, 2 * tail):.2f}", flush=True)


def reranked(scores, cosines, weight, depth):
    """The logarithms of scores after `factors` of crates/index/src/ranking/rerank.rs, for the first `depth` candidates."""
    first = numpy.argsort(-scores, kind="stable")[:depth]
    read = [cosines[at] for at in first if cosines[at] != 0]
    if not read:
        return scores
    evidence = numpy.full(len(scores), min(read))
    evidence[first] = [cosines[at] if cosines[at] != 0 else min(read) for at in first]
    return scores + weight * (evidence - max(read))


def try_reranking(issues, scores):
    for first in RERANKING:
        for second in RERANKING if any(i["cosines"][:, 1].any() for i in issues) else [0]:
            after = {
                i["id"]: reranked(reranked(scores[i["id"]], i["cosines"][:, 0], first, 30), i["cosines"][:, 1], second, 12)
                for i in issues
            }
            report(f"{first} {second} ", issues, after)


def history(mirror, commit):
    """For each path, how many commits before `commit` it was changed last, and in how many of the last ones."""
    git = ["git", f"--git-dir={mirror}", "log", f"-n{HISTORY}", "--no-renames", "--no-merges", "--name-only", "--format=%x01", commit]
    commits = subprocess.run(git, check=True, stdout=subprocess.PIPE).stdout.decode("utf-8", "replace").split("\x01")[1:]
    last, changes = {}, Counter()
    for position, paths in enumerate(commits):
        for path in paths.split("\n"):
            last.setdefault(path, position)
            changes[path] += position < RECENT
    return last, changes


def try_history(issues, names, dev, mirrors):
    commits = {issue["id"]: issue["commit"] for issue in map(json.loads, open(dev))}
    columns = []
    for issue in issues:
        mirror = Path(mirrors) / issue["repository"].replace("/", "+")
        last, changes = history(mirror / "repo" if (mirror / "repo").is_dir() else mirror, commits[issue["id"]])
        paths = [(function or "").split(":")[0] for function in issue["functions"]]
        columns.append([[-math.log2(1 + last.get(path, HISTORY)), math.log2(1 + changes[path])] for path in paths])
    before = {issue["id"]: issue["x"] for issue in issues}
    without = held_out_scores(issues, names)
    for label, kept in (("recency", [0]), ("changes", [1]), ("both", [0, 1])):
        for issue, values in zip(issues, columns):
            added = numpy.array(values, dtype=numpy.float32)[:, kept]
            issue["x"] = numpy.hstack([before[issue["id"]], added])
        scores = held_out_scores(issues, names + [("recency", "changes")[column] for column in kept])
        report(f"{label} ", issues, scores)
        compare(label, issues, without, scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features")
    parser.add_argument("--out")
    parser.add_argument("--reranking", action="store_true", help="try weights of re-rankers, and fit nothing")
    parser.add_argument("--history", nargs=2, metavar=("ISSUES", "MIRRORS"), help="try features of histories, and fit nothing")
    parser.add_argument("--more", nargs="+", default=[], metavar="FEATURES", help="features of issues made of commit messages")
    parser.add_argument("--no-validation", action="store_true", help="only fit")
    arguments = parser.parse_args()
    if not (arguments.out or arguments.reranking or arguments.history):
        parser.error("--out is required without --reranking and --history")
    names = feature_names()
    issues = load(arguments.features, len(names))
    commits = [issue for path in arguments.more for issue in load(path, len(names))]
    if arguments.history:
        return try_history(issues, names, *arguments.history)
    if not arguments.no_validation:
        scores = held_out_scores(issues, names, commits)
        report("", issues, scores)
        if arguments.reranking:
            return try_reranking(issues, scores)
        if commits:
            without = held_out_scores(issues, names)
            report("without commits ", issues, without)
            compare("with commits", issues, without, scores)
            of_commits = fit([], names, commits)
            report("commits alone ", issues, {i["id"]: scores_by(of_commits, i, names) for i in issues})
            of_issues = fit(issues, names)
            without = {i["id"]: scores_by(of_issues, i, names) for i in commits}
            scores = held_out_commits(issues, names, commits)
            report("without commits, of commits: ", commits, without)
            report("of commits: ", commits, scores)
            compare("of commits, with commits of other repositories", commits, without, scores)
    model = fit(issues, names, commits)
    trees = [tree(info["tree_structure"], names, SCALE) for info in model.dump_model()["tree_info"]]
    # Trees without a split say nothing.
    trees = [one for one in trees if isinstance(one, dict)]
    with open(arguments.out, "w") as out:
        out.write('{"weights": ' + json.dumps(list(WEIGHTS.items())) + ',\n"trees": [\n' + ",\n".join(json.dumps(one) for one in trees) + "\n]}\n")
    print(f"{len(trees)} trees")


if __name__ == "__main__":
    main()
