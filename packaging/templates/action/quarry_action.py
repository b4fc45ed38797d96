"""Indexes a repository and reports how well its code is found, with the change since a base, as the summary of a job.

Options are the environment variables that action.yml sets, and those of the runner. Nothing in the repository chooses
what is run.
"""

import hashlib
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections import defaultdict
from pathlib import Path

SYSTEMS = {"Linux": "linux", "macOS": "darwin", "Windows": "win32"}
SOURCES = {"docstring": "Documentation", "commit": "Commit messages", "test": "Test names"}
# Rows of a list of queries.
SHOWN = 8
# Places that changed together with this less often are not worth a look.
LEAST_PROBABILITY = 0.3
# Begins the comment on a pull request, by which the next run finds it.
MARK = "<!-- quarry: related -->"
RESAMPLES = 2000
# Of fewer differences not even a test of their signs can tell that they are not due to chance: 2 / 2**5 > 0.05.
FEWEST_DIFFERENCES = 6


class Failure(Exception):
    """What the user has to change."""


def main():
    environment = os.environ
    workspace = Path(environment["GITHUB_WORKSPACE"]).resolve()
    path = (workspace / environment["QUARRY_PATH"]).resolve()
    if not path.is_dir() or not path.is_relative_to(workspace):
        raise Failure(f"path: expected a directory of the workspace, found {environment['QUARRY_PATH']!r}")
    queries = environment["QUARRY_QUERIES"]
    if not queries.isdecimal() or int(queries) == 0:
        raise Failure(f"queries: expected a number from 1, found {queries!r}")
    if environment["QUARRY_FAIL_IF_WORSE"] not in ("true", "false"):
        raise Failure(f"fail-if-worse: expected true or false, found {environment['QUARRY_FAIL_IF_WORSE']!r}")
    scratch = Path(tempfile.mkdtemp(prefix="quarry-", dir=environment["RUNNER_TEMP"]))
    program = find_program(scratch)
    base_name = environment["QUARRY_BASE"]
    repository = find_repository(path, workspace) if base_name else None
    base_commit = find_base(repository, base_name) if base_name else None

    index = json.loads(run([program, "index", path, "--json"]))
    head = measure(program, path, queries, scratch / "head")
    base = None
    if base_commit:
        tree = scratch / "base-tree"
        git(repository, "worktree", "add", "--quiet", "--detach", str(tree), base_commit)
        try:
            base = measure(program, tree / path.relative_to(repository), queries, scratch / "base")
        finally:
            git(repository, "worktree", "remove", "--force", str(tree))

    changes = compare(head, base, int(queries)) if head and base else {}
    worse = [source for source, change in changes.items() if change.direction < 0]
    report = summary(head, changes, index, base_name, base_commit)
    if base_commit:
        places = untouched(program, repository, path, base_commit)
        report += "\n\n" + "\n".join(related(places))
        if environment["QUARRY_TOKEN"]:
            comment(places)
    write_line(environment["GITHUB_STEP_SUMMARY"], report)
    write_line(environment["GITHUB_OUTPUT"], f"results={scratch}\nworse={','.join(worse)}")
    write_line(environment["GITHUB_PATH"], str(Path(program).parent))
    if worse and environment["QUARRY_FAIL_IF_WORSE"] == "true":
        raise Failure(
            f"queries from {' and '.join(worse)} are answered worse than at {base_name}; see the summary of the job"
        )


def find_program(scratch):
    """The program that the user names, or that of the release, whose checksum is part of this action."""
    if given := os.environ["QUARRY_PROGRAM"]:
        if not (program := shutil.which(given)):
            raise Failure(f"program: expected a program, found {given!r}")
        return str(Path(program).resolve())
    release = json.loads(Path(__file__).with_name("release.json").read_text(encoding="utf-8"))
    platform = f"{SYSTEMS.get(os.environ['RUNNER_OS'])}-{os.environ['RUNNER_ARCH'].lower()}"
    if not (archive := release["archives"].get(platform)):
        raise Failure(
            f"no release is for {platform}, only for {', '.join(release['archives'])}; build quarry, and set `program`"
        )
    with urllib.request.urlopen(archive["url"], timeout=60) as response:
        content = response.read()
    if hashlib.sha256(content).hexdigest() != archive["sha256"]:
        raise Failure(f"{archive['url']}: its checksum is not the one that this action has")
    packed = scratch / archive["url"].rsplit("/", 1)[1]
    packed.write_bytes(content)
    if packed.suffix == ".zip":
        with zipfile.ZipFile(packed) as opened:
            opened.extractall(scratch)
    else:
        with tarfile.open(packed) as opened:
            opened.extractall(scratch, filter="data")
    packed.unlink()
    [program] = scratch.glob("quarry-*/quarry*")
    return str(program)


def find_repository(path, workspace):
    """The work tree around a directory, by its entry `.git`, which git never checks out from a repository."""
    for directory in (path, *path.parents):
        if (directory / ".git").exists():
            return directory
        if directory == workspace:
            break
    raise Failure(f"base: {path} is not in a clone; use actions/checkout before this action")


def find_base(repository, name):
    """The commit at which the head left the base."""
    for revision in (f"refs/remotes/origin/{name}", name):
        if commit := git(
            repository, "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", may_fail=True
        ):
            return git(repository, "merge-base", "HEAD", commit, may_fail=True) or commit
    raise Failure(f"base: {name!r} is not in this clone; use actions/checkout with `fetch-depth: 0`")


def measure(program, path, queries, results):
    """The report of `quarry eval repo` with the values of its queries, or None if there is nothing to ask."""
    values = f"{results}-queries.jsonl"
    command = [program, "eval", "repo", path, "--queries", queries, "--per-query", values, "--json"]
    text = run(command, codes=(0, 1)) if path.is_dir() else ""
    if not text:
        return None
    Path(f"{results}.json").write_text(text, encoding="utf-8")
    report = json.loads(text)
    with open(values, encoding="utf-8") as lines:
        report["queries"] = [json.loads(line) for line in lines]
    return report


def untouched(program, repository, path, base_commit):
    """The places that usually change with what this change touches, in files that it does not touch."""
    command = [program, "related", "--diff", f"{base_commit}..HEAD", path, "--kind", "change", "-k", "50", "--json"]
    found = run(command, codes=(0, 1))
    changed = git(repository, "diff", "--name-only", "-z", base_commit, "HEAD").split("\0")
    changed = {repository / name for name in changed if name}
    places = json.loads(found)["results"] if found else []
    return [
        place
        for place in places
        if place["probability"] >= LEAST_PROBABILITY and Path(place["root"], place["path"]) not in changed
    ]


def related(places):
    """Lines of Markdown about places that are untouched."""
    if not places:
        return ["### Nothing untouched usually changes with this"]
    lines = ["### Untouched, but usually changed together", "", "| Place | Probability | Why |", "|---|--:|---|"]
    for place in places[:SHOWN]:
        name = f" {text(place['name'])}" if place["name"] else ""
        position = f"<code>{text(place['path'])}:{place['start_line']}</code>{name}"
        lines.append(f"| {position} | {place['probability']:.0%} | {text(place['reasons'][0]['evidence'])} |")
    return lines


def comment(places):
    """Writes the places as a comment on the pull request, or into the one of an earlier run."""
    environment = os.environ
    reference = environment["GITHUB_REF"].split("/")
    if reference[:2] != ["refs", "pull"] or not reference[2].isdecimal():
        return
    issues = f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}/issues"
    body = "\n".join([MARK, *related(places)])
    listed = request("GET", f"{issues}/{reference[2]}/comments?per_page=100")
    earlier = [found["url"] for found in listed if found["body"].startswith(MARK)]
    if earlier:
        request("PATCH", earlier[0], {"body": body})
    elif places:
        request("POST", f"{issues}/{reference[2]}/comments", {"body": body})


def request(method, url, content=None):
    headers = {"Authorization": f"Bearer {os.environ['QUARRY_TOKEN']}", "Accept": "application/vnd.github+json"}
    data = None if content is None else json.dumps(content).encode()
    asked = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as response:
            return json.load(response)
    except OSError as error:
        raise Failure(f"token: the comment cannot be written ({error}); allow `pull-requests: write`") from error


class Change:
    """How the queries of a source that both trees have are answered; `new` has those of the head alone."""

    def __init__(self, pairs, new, is_sampled):
        self.pairs, self.is_sampled = pairs, is_sampled
        # Of samples, these may be old.
        self.new = [] if is_sampled else new
        self.before = statistics.fmean(before for _, before, _ in pairs) if pairs else math.nan
        self.after = statistics.fmean(after for _, _, after in pairs) if pairs else math.nan
        differences = [after - before for _, before, after in pairs]
        self.differing = sum(difference != 0 for difference in differences)
        self.interval = interval(differences) if self.differing >= FEWEST_DIFFERENCES else None

    @property
    def direction(self):
        """1 if the queries are answered better, -1 if worse, 0 if that may be due to chance."""
        low, high = self.interval or (0, 0)
        return (low > 0) - (high < 0)


def compare(head, base, limit):
    """A change by source. A query is the same if its text is; one text may be asked of several functions."""
    default, known = head["default"], defaultdict(list)
    for line in base["queries"]:
        known[line["proxy"], line["query"]].append(line["ndcg@10"][default])
    found = {source["proxy"]: ([], []) for source in head["proxies"]}
    for line in head["queries"]:
        pairs, new = found[line["proxy"]]
        before, after = known[line["proxy"], line["query"]], line["ndcg@10"][default]
        if before:
            pairs.append((line, before.pop(0), after))
        else:
            new.append((line, after))
    sampled = {
        source["proxy"] for report in (head, base) for source in report["proxies"] if source["questions"] >= limit
    }
    return {source: Change(*queries, source in sampled) for source, queries in found.items()}


def interval(differences):
    """A 95 % interval of the mean, from a paired bootstrap over queries."""
    generator = random.Random(42)
    means = sorted(statistics.fmean(generator.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return means[round(0.025 * RESAMPLES)], means[round(0.975 * RESAMPLES) - 1]


def summary(head, changes, index, base_name, base_commit):
    if head is None:
        return "## Code search\n\nThere is no documentation, commit or test to make queries from.\n"
    lines = [f"## Code search: {verdict(changes)}" if changes else "## Code search", ""]
    scale = "NDCG@10 of `quarry search`: 1 if every answer comes first, 0 if none is among the first ten"
    if changes:
        lines += [f"{scale}. Compared are the queries that {text(base_name)} ({base_commit[:9]}) has too.", ""]
        lines += compared(changes, base_name) + moved(changes, base_name) + unanswered(changes)
    else:
        missing = f" {text(base_name)} has no queries to compare with." if base_name else ""
        lines += [f"{scale}.{missing}", "", *measured(head)]
    lines += ["", advice(head["advice"]), "", "<details><summary>Other ways to search</summary>", ""]
    lines += [*variants(head["proxies"]), "", "</details>", ""]
    notes = "".join(f" Note: {text(note)}." for note in head["notes"])
    return "\n".join([*lines, f"{index['files']:,} files, {index['units']:,} units are indexed.{notes}"])


def verdict(changes):
    words = []
    for word, direction in (("worse", -1), ("better", 1)):
        sources = [SOURCES[source].lower() for source, change in changes.items() if change.direction == direction]
        if sources:
            words.append(f"{word} for queries from {' and '.join(sources)}")
    if words:
        return ", ".join(words)
    return "no change beyond chance" if any(change.differing for change in changes.values()) else "unchanged"


def compared(changes, base_name):
    lines = [
        f"| Queries from | number | {text(base_name)} | this change | difference | 95 % interval |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for source, change in changes.items():
        values = "– | – | – | –"
        if change.pairs:
            mark = "**" if change.direction else ""
            difference = f"{mark}{change.after - change.before:+.3f}{mark}"
            interval = (
                "{:+.3f} to {:+.3f}".format(*change.interval)
                if change.interval
                else f"{change.differing} of {len(change.pairs)} changed, too few"
            )
            values = f"{change.before:.3f} | {change.after:.3f} | {difference} | {interval}"
        lines.append(f"| {SOURCES[source]} | {len(change.pairs):,} | {values} |")
    if sampled := [SOURCES[source].lower() for source, change in changes.items() if change.is_sampled]:
        lines += [
            "",
            f"Only samples of the queries from {' and '.join(sampled)} were asked, and those in both samples compared. "
            "Raise `queries` to compare more.",
        ]
    return lines


def measured(head):
    lines = ["| Queries from | number | NDCG@10 | 95 % interval |", "|---|--:|--:|---|"]
    for source in head["proxies"]:
        [found] = [variant for variant in source["variants"] if variant["name"] == head["default"]]
        value = f"{found['ndcg@10']:.3f} | {found['interval'][0]:.3f} to {found['interval'][1]:.3f}"
        lines.append(f"| {SOURCES[source['proxy']]} | {source['questions']:,} | {value} |")
    return lines


def moved(changes, base_name):
    """The queries that moved most, the worse ones first."""
    pairs = sorted((pair for change in changes.values() for pair in change.pairs), key=lambda pair: pair[2] - pair[1])
    worse = [pair for pair in pairs if pair[2] < pair[1]]
    better = [pair for pair in reversed(pairs) if pair[2] > pair[1]]
    if not worse + better:
        return []
    lines = ["", f"### {counted(len(worse), 'query', 'queries')} answered worse, {len(better):,} better", ""]
    lines += [f"| Query | Answer | {text(base_name)} | this change |", "|---|---|---|---|"]
    for line, before, after in worse[:SHOWN] + better[:SHOWN]:
        lines.append(
            f"| {text(line['query'])} | <code>{text(line['answer'])}</code> | {place(before)} | {place(after)} |"
        )
    return lines


def unanswered(changes):
    """The queries that this change brings and search does not answer."""
    new = [pair for change in changes.values() for pair in change.new]
    if not new:
        return []
    missed = [line for line, after in new if after == 0]
    lines = ["", f"### {counted(len(new), 'new query', 'new queries')}, {len(missed):,} not answered", ""]
    lines.append(
        "From code, commits and tests that this change adds or rewords; "
        f"mean {statistics.fmean(after for _, after in new):.3f}."
    )
    if missed:
        lines += ["", "| Query whose answer is not among the first ten | Answer |", "|---|---|"]
    return lines + [f"| {text(line['query'])} | <code>{text(line['answer'])}</code> |" for line in missed[:SHOWN]]


def counted(number, one, many):
    return f"{number:,} {one if number == 1 else many}"


def place(value):
    """The position of an answer; a query with several answers has a value between."""
    if value == 0:
        return "not in ten"
    for position in range(1, 11):
        if math.isclose(value, 1 / math.log2(1 + position)):
            return f"rank {position}"
    return f"{value:.2f}"


def advice(found):
    if found["advice"] == "keep_default":
        return "No other way to search is significantly better here."
    if found["advice"] == "change":
        setting = f" To search so: {text(found['setting'])}." if found["setting"] else ""
        return f"{text(found['variant'])} is significantly better here, and significantly worse for no source.{setting}"
    return f"{text(found['variant'])} is significantly better for some sources, and significantly worse for others."


def variants(sources):
    yield f"| | {' | '.join(SOURCES[source['proxy']] for source in sources)} | |"
    yield "|---|" + "--:|" * len(sources) + "---|"
    for row in zip(*(source["variants"] for source in sources)):
        values = " | ".join(f"{variant['ndcg@10']:.3f}" for variant in row)
        yield f"| {text(row[0]['name'])} | {values} | {text(row[0]['about'])} |"


def text(untrusted):
    """Text of the repository in a line of Markdown, where it is neither markup nor a link nor a mention."""
    line = " ".join(untrusted.split())
    line = line if len(line) <= 120 else line[:119] + "…"
    shown = (character for character in line if character.isprintable())
    return "".join(
        character if character.isalnum() or character == " " else f"&#{ord(character)};" for character in shown
    )


def git(repository, *arguments, may_fail=False):
    # The git directory is named, not discovered: files of a pull request can look like a bare repository, whose settings
    # name programs. Hooks are programs, too.
    command = ["git", "-c", "core.hooksPath=" + os.devnull, "-c", "safe.bareRepository=explicit"]
    command += ["-C", repository, f"--git-dir={repository / '.git'}", f"--work-tree={repository}", *arguments]
    return run(command, codes=(0, 1, 128) if may_fail else (0,)).strip()


def run(command, codes=(0,)):
    command = [str(part) for part in command]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8")
    if ended.returncode not in codes:
        raise Failure(f"{' '.join(command)}: exit code {ended.returncode}")
    return ended.stdout if ended.returncode == 0 else ""


def write_line(path, line):
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        # On one line, so that it is one annotation and no other command of the runner.
        print("::error title=Quarry::" + " ".join(str(failure).split()), flush=True)
        sys.exit(1)
