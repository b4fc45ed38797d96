"""Fits the trees that rank units for an issue (crates/index/issues.json), and cross-validates them by repository.

    quarry eval localize dev.jsonl --repos MIRRORS --features features.jsonl
    quarry eval localize dev-multi.jsonl --repos MIRRORS --features multi.jsonl
    pip install lightgbm numpy
    python bench/fit_issues.py features.jsonl multi.jsonl --more COMMITS/*/features.jsonl --out crates/index/issues.json

The issues that `bench/commit_issues.py` makes of commit messages (--more) are fitted with the others. --curve prints what parts
of them bring, by repositories.

With the features of descriptions that `bench/description_queries.py` makes (--descriptions), also fits the trees for
descriptions (crates/index/descriptions.json) and the weights that tell them from reports (crates/index/text-kinds.json): those
with which the mixture of both rankings gives the gold functions the largest shares, by trees fitted on other repositories. With
those of questions that `bench/questions_as_issues.py` makes (--questions), also the weights that tell long texts from ordinary
queries.

With the features of `--method best`, `--reranking` prints what weights of its re-ranker bring, after trees that were
fitted on the other repositories; `--history` prints
what two more features bring: how many commits ago a file was changed, and how often in the last 500.

LambdaMART (LightGBM) with trees of seven splits that rise with evidence; gold functions in tests do not count, because an
issue asks what to change. The values are scaled for a softmax over them.
"""

import argparse
import json
import math
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import lightgbm
import numpy

INDEX = Path(__file__).parent.parent / "crates/index"
MODEL = INDEX / "src/ranking/issue/model.rs"
KINDS = INDEX / "src/ranking/issue/kind.rs"
FALLING = {"test", "demoted", "rank_in_file"}
FREE = {
    "function", "method", "type", "private", "log_lines", "log_lines_squared", "best_in_file", "title_word", "trace_name",
    "code_file_lexical", "all_matched", "title_matched",
}
# Evidence that is too rare in a few hundred issues to be learned: its weights are given, and the trees are fitted to the rest.
WEIGHTS = {"innermost_frame": 1.5, "frame": 1.0, "message": 3.5, "position": 1.0}
# Trees and their leaves.
SHAPE = (400, 8)
# The weights of re-rankers that are tried.
RERANKING = [0, 2, 4, 6, 8, 10, 15, 22]
# What the scores of LambdaMART are multiplied by for the softmax, about.
SCALE = 1.5
# Commits before an issue's that are read, and those among them in which changes are counted.
HISTORY, RECENT = 2000, 500
# The weight of an issue made of a commit message, relative to a real one.
WEIGHT_OF_COMMITS = 1
# Parts of their repositories, each ranked by trees that were fitted on the others.
FOLDS = 4
# Candidates of an issue that are learned from, besides the gold ones: the best by the preselection.
KEPT = 200


# As in crates/index/src/ranking/issue.rs.
MIN_WORDS, MIXED = 10, (0.5, 0.9)

# The L2 penalty of the weights that tell descriptions from reports, over standardized features.
KIND_PENALTY = 0.02


def feature_names(path=MODEL):
    return re.findall(r'^    "(\w+)",', path.read_text().split("];")[0], re.MULTILINE)


TEXT_FEATURES = feature_names(KINDS)


def is_test(function):
    return any(part.startswith("test") for part in function.split(":")[0].split("/"))


def load(path, n_features):
    issues = []
    for line in open(path):
        issue = json.loads(line)
        issue["x"] = numpy.array(issue.pop("features"), dtype=numpy.float32).reshape(-1, n_features)
        issue["cosines"] = numpy.array(issue["cosines"])
        issue["query_shares"] = numpy.array(issue["query_shares"])
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
        "objective": "lambdarank", "lambdarank_truncation_level": 30, "learning_rate": 0.06, "num_leaves": SHAPE[1],
        "min_data_in_leaf": 150, "lambda_l2": 30, "feature_fraction": 0.4, "bagging_fraction": 0.7, "bagging_freq": 1,
        "max_bin": 63, "verbosity": -1, "num_threads": 1, "seed": 1, "deterministic": True,
        "monotone_constraints": [-1 if n in FALLING else 0 if n in FREE else 1 for n in names],
    }
    return lightgbm.train(parameters, data, SHAPE[0])


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


def fold_scores(issues, names, others=(), learned=None):
    """The scores of each text by trees that were fitted on other repositories' `learned` texts, by default all, in folds of these."""
    repositories = sorted({i["repository"] for i in issues})
    scores = {}
    for number in range(FOLDS):
        fold = repositories[number::FOLDS]
        model = fit([i for i in learned or issues if i["repository"] not in fold], names, others)
        scores |= {i["id"]: scores_by(model, i, names) for i in issues if i["repository"] in fold}
    return scores


def gold_share(issue, scores):
    shares = numpy.exp(scores - scores.max())
    return max(shares[issue["y"]].sum() / shares.sum(), 1e-6)


def fit_kinds(groups):
    """The intercept and the weights of a logistic regression for which texts are ranked as reports: the maximum of the
    likelihood of the mixture. Each group counts the same; a text is its features and its gold shares as report and description."""
    x = numpy.array([text for group in groups for text, _, _ in group], dtype=float)
    shares = numpy.array([[report, description] for group in groups for _, report, description in group])
    weight = numpy.concatenate([numpy.full(len(group), 1 / len(group)) for group in groups]) / len(groups)
    mean, deviation = x.mean(0), x.std(0) + 1e-9
    z = numpy.hstack([(x - mean) / deviation, numpy.ones((len(x), 1))])
    at, momentum, square = numpy.zeros(z.shape[1]), numpy.zeros(z.shape[1]), numpy.zeros(z.shape[1])
    for step in range(1, 4001):
        p = 1 / (1 + numpy.exp(-z @ at))
        mixture = p * shares[:, 0] + (1 - p) * shares[:, 1]
        slope = weight * (shares[:, 0] - shares[:, 1]) * p * (1 - p) / mixture
        gradient = z.T @ slope - KIND_PENALTY * numpy.append(at[:-1], 0)
        momentum, square = 0.9 * momentum + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        at += 0.01 * (momentum / (1 - 0.9**step)) / (numpy.sqrt(square / (1 - 0.999**step)) + 1e-9)
    weights = at[:-1] / deviation
    return float(at[-1] - weights @ mean), weights


def probability(kinds, text):
    intercept, weights = kinds
    return 1 / (1 + math.exp(-(intercept + weights @ numpy.array(text))))


def mixed(probability, report, description):
    """The logarithm of the mixture of two softmaxes."""
    shares = [numpy.exp(scores - scores.max()) for scores in (report, description)]
    shares = [share / share.sum() for share in shares]
    return numpy.log(probability * shares[0] + (1 - probability) * shares[1] + 1e-12)


def rank_of_first(issue, scores):
    found = numpy.nonzero(issue["y"][numpy.argsort(-scores, kind="stable")])[0]
    return found[0] + 1 if len(found) else math.inf


def report_ranks(label, texts, scores):
    ranks = numpy.array([rank_of_first(text, scores[text["id"]]) for text in texts], dtype=float)
    at = " ".join(f"{(ranks <= k).mean():.3f}" for k in (1, 5, 10))
    print(f"{label}: {len(texts)} texts, first gold at 1/5/10 {at}, MRR {(1 / ranks).mean():.3f}", flush=True)
    return ranks


def fit_descriptions(issues, commits, descriptions, names):
    """Cross-validates the mixture by repository; returns the trees for descriptions, and the kinds."""
    as_reports = fold_scores(issues, names, commits)
    report_model, description_model = fit(issues, names, commits), fit(descriptions, names)
    as_descriptions = fold_scores(descriptions, names)
    as_reports |= {i["id"]: scores_by(report_model, i, names) for i in descriptions}
    as_descriptions |= {i["id"]: scores_by(description_model, i, names) for i in issues}

    def row(text):
        of_report, of_description = as_reports[text["id"]], as_descriptions[text["id"]]
        return text["text"], gold_share(text, of_report), gold_share(text, of_description)

    def kinds_of(accepts):
        return fit_kinds([[row(text) for text in group if text["y"].any() and accepts(text)] for group in (issues, descriptions)])

    texts = issues + descriptions
    repositories = sorted({text["repository"] for text in texts})
    scores, chosen = {}, {}
    for number in range(FOLDS):
        fold = repositories[number::FOLDS]
        kinds = kinds_of(lambda text: text["repository"] not in fold)
        for text in (text for text in texts if text["repository"] in fold):
            chosen[text["id"]] = probability(kinds, text["text"])
            scores[text["id"]] = mixed(chosen[text["id"]], as_reports[text["id"]], as_descriptions[text["id"]])
    for label, group in (("reports", issues), ("descriptions", descriptions)):
        before = report_ranks(f"{label}, as reports", group, as_reports)
        report_ranks(f"{label}, as descriptions", group, as_descriptions)
        after = report_ranks(f"{label}, mixed", group, scores)
        better, worse = int((after < before).sum()), int((after > before).sum())
        tail = sum(math.comb(better + worse, n) for n in range(min(better, worse) + 1)) / 2 ** (better + worse)
        mean = numpy.mean([chosen[text["id"]] for text in group])
        print(f"  {better} better, {worse} worse, p {min(1, 2 * tail):.4f}; mean probability of a report {mean:.2f}", flush=True)
    return description_model, kinds_of(lambda text: True), scores


def fit_long(questions, descriptions, scores):
    """The weights that tell long texts from ordinary queries, cross-validated by repository: those with which the mixture of the
    ranking of a long text, by trees fitted on other repositories, and that of a query gives the gold functions the largest shares."""
    def row(text):
        return text["text"], gold_share(text, scores[text["id"]]), max(text["query_shares"][text["y"]].sum(), 1e-6)

    # Short ones are a group of their own.
    length = TEXT_FEATURES.index("log_words")
    is_short = lambda text: text["text"][length] < math.log(40)
    groups = [questions, [d for d in descriptions if is_short(d)], [d for d in descriptions if not is_short(d)]]
    kinds_of = lambda fold: fit_kinds([[row(t) for t in group if t["y"].any() and t["repository"] not in fold] for group in groups if group])
    repositories = sorted({text["repository"] for group in groups for text in group})
    for number in range(FOLDS):
        fold = repositories[number::FOLDS]
        kinds = kinds_of(fold)
        for text in (text for group in groups for text in group if text["repository"] in fold):
            n_words = math.exp(text["text"][length])
            by_length = min(max(n_words / MIN_WORDS - 1, 0), 1)
            share = (by_length * probability(kinds, text["text"]) - MIXED[0]) / (MIXED[1] - MIXED[0])
            text["share"] = min(max(share, 0), 1)
    for label, group in (("questions", questions), ("descriptions", descriptions)):
        as_query = {t["id"]: numpy.log(t["query_shares"] + 1e-12) for t in group}
        together = {}
        for text in group:
            long = numpy.exp(scores[text["id"]] - scores[text["id"]].max())
            together[text["id"]] = numpy.log(text["share"] * long / long.sum() + (1 - text["share"]) * text["query_shares"] + 1e-12)
        before = report_ranks(f"{label}, as queries", group, as_query)
        after = report_ranks(f"{label}, mixed by length", group, together)
        share = numpy.mean([text["share"] for text in group])
        print(f"  {int((after < before).sum())} better, {int((after > before).sum())} worse; mean share of a long text {share:.2f}", flush=True)
    return kinds_of([])


def write_trees(model, names, path):
    trees = [tree(info["tree_structure"], names, SCALE) for info in model.dump_model()["tree_info"]]
    # Trees without a split say nothing.
    trees = [one for one in trees if isinstance(one, dict)]
    with open(path, "w") as out:
        out.write('{"weights": ' + json.dumps(list(WEIGHTS.items())) + ',\n"trees": [\n' + ",\n".join(json.dumps(one) for one in trees) + "\n]}\n")
    print(f"{len(trees)} trees in {path}")


def write_kinds(name, kinds, path):
    intercept, weights = kinds
    features = dict(zip(TEXT_FEATURES, (round(float(weight), 4) for weight in weights)))
    known = json.loads(path.read_text()) | {name: {"intercept": round(intercept, 4), "features": features}}
    path.write_text(json.dumps(known, indent=2) + "\n")


def learning_curve(issues, names, commits):
    """Each issue ranked by trees that were fitted on other repositories' issues, and on the commits of some repositories."""
    repositories = sorted({i["repository"] for i in commits})
    random.Random(1).shuffle(repositories)
    for share in (0, 0.25, 0.5, 1):
        kept = set(repositories[: round(share * len(repositories))])
        used = [i for i in commits if i["repository"] in kept]
        scores = fold_scores(issues, names, used)
        label = f"with {len(used)} commits of {len(kept)} repositories"
        report(f"{label}, ", issues, scores)
        for source in sorted({i["source"] for i in issues}):
            report_ranks(f"{label}, {source}", [i for i in issues if i["source"] == source], scores)


def curve_of_descriptions(descriptions, names):
    """Each description ranked by trees that were fitted on those of some of the other repositories."""
    repositories = sorted({d["repository"] for d in descriptions})
    random.Random(1).shuffle(repositories)
    for share in (0.25, 0.5, 1):
        kept = set(repositories[: round(share * len(repositories))])
        learned = [d for d in descriptions if d["repository"] in kept]
        report_ranks(f"of {len(learned)} texts in {len(kept)} repositories", descriptions, fold_scores(descriptions, names, (), learned))


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
    for weight in RERANKING:
        after = {i["id"]: reranked(scores[i["id"]], i["cosines"], weight, 30) for i in issues}
        report(f"{weight} ", issues, after)


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
    parser.add_argument("features", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--reranking", action="store_true", help="try weights of re-rankers, and fit nothing")
    parser.add_argument("--history", nargs=2, metavar=("ISSUES", "MIRRORS"), help="try features of histories, and fit nothing")
    parser.add_argument("--curve", action="store_true", help="print what parts of --more, or of --descriptions, bring, and fit nothing")
    parser.add_argument("--more", nargs="+", default=[], metavar="FEATURES", help="features of issues made of commit messages")
    parser.add_argument("--descriptions", nargs="+", default=[], metavar="FEATURES", help="also fit the trees for these, and the kinds of texts")
    parser.add_argument("--questions", nargs="+", default=[], metavar="FEATURES", help="also fit which texts are long ones, on these questions")
    parser.add_argument("--no-validation", action="store_true", help="only fit")
    arguments = parser.parse_args()
    if not (arguments.out or arguments.reranking or arguments.history or arguments.curve):
        parser.error("--out is required without --reranking, --history and --curve")
    names = feature_names()
    issues = [issue for path in arguments.features for issue in load(path, len(names))]
    commits = [issue for path in arguments.more for issue in load(path, len(names))]
    descriptions = [text for path in arguments.descriptions for text in load(path, len(names))]
    if arguments.curve:
        if descriptions:
            curve_of_descriptions(descriptions, names)
        return learning_curve(issues, names, commits) if issues else None
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
    write_trees(fit(issues, names, commits), names, arguments.out)
    if descriptions:
        model, kinds, scores = fit_descriptions(issues, commits, descriptions, names)
        write_trees(model, names, INDEX / "descriptions.json")
        write_kinds("reports", kinds, INDEX / "text-kinds.json")
        if arguments.questions:
            questions = [text for path in arguments.questions for text in load(path, len(names))]
            long = fit(descriptions, names)
            scores |= {text["id"]: scores_by(long, text, names) for text in questions}
            write_kinds("long", fit_long(questions, descriptions, scores), INDEX / "text-kinds.json")


if __name__ == "__main__":
    main()
