"""Measures `quarry callers` on a checkout, and compares what several builds of it find.

The names are those that stand most often before a bracket in the checkout, and as many drawn from the others. Each is
asked for ROUNDS times by each program in turn; the median and the 95th percentile over the names are of the fastest
answers: the time of the whole process, the processor time of all its threads, and what the index says about its own part.
Names for which a program finds other calls than the first one are listed.

    python callers.py CHECKOUT NAMES ROUNDS QUARRY [QUARRY ...]
"""

import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CALLED = re.compile(rb"\b([A-Za-z_][A-Za-z0-9_]{2,40})\s?\(")
MAX_BYTES = 1 << 20
KEYWORDS = {"and", "catch", "elif", "for", "func", "function", "match", "not", "return", "switch", "while"}


def names_of(checkout, number):
    """The names before brackets: half of them the most frequent ones, half a random sample of the others."""
    counts = Counter()
    for path in sorted(checkout.rglob("*")):
        if path.is_file() and ".git" not in path.parts and path.stat().st_size <= MAX_BYTES:
            counts.update(name.decode() for name in CALLED.findall(path.read_bytes()))
    ranked = [name for name, _ in counts.most_common() if name not in KEYWORDS]
    common = ranked[: number // 2]
    return common, random.Random(7).sample(ranked[number // 2 :], min(number - len(common), len(ranked) - len(common)))


def ask(quarry, checkout, index, name):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [quarry, "callers", name, checkout, "--index", index, "--json", "-k", "1000000"]
    done = subprocess.run(command, capture_output=True)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"{name}: {done.stderr.decode()}")
    answer = json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = {(site["path"], site["line"], site["receiver"], site["certain"]) for site in answer["callers"]}
    return elapsed * 1000, cpu * 1000, answer["took_ms"], found


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    checkout, number, rounds, programs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    kinds = dict(zip(("common", "other"), names_of(checkout, number)))
    with tempfile.TemporaryDirectory() as directory:
        indexes = [Path(directory) / str(at) for at in range(len(programs))]
        for program, index in zip(programs, indexes):
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([program, "index", checkout, "--index", index], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            bytes_of_index = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{program}: indexed in {time.perf_counter() - start:.2f} s, {cpu:.2f} s of processor time, {bytes_of_index:,} bytes")
        for kind, names in kinds.items():
            fastest = [{} for _ in programs]
            found = [{} for _ in programs]
            for name in names:
                for _ in range(rounds):
                    for at, (program, index) in enumerate(zip(programs, indexes)):
                        *times, found[at][name] = ask(program, checkout, index, name)
                        known = fastest[at].get(name, times)
                        fastest[at][name] = [min(pair) for pair in zip(known, times)]
            for program, times in zip(programs, fastest):
                columns = zip(("process", "processor", "query"), zip(*times.values()))
                shown = [f"{what} {percentile(column, 0.5):.0f}/{percentile(column, 0.95):.0f} ms" for what, column in columns]
                print(f"{program}: {len(names)} {kind} names, median/p95: {', '.join(shown)}")
            for program, others in zip(programs[1:], found[1:]):
                for name in names:
                    missing, more = found[0][name] - others[name], others[name] - found[0][name]
                    if missing or more:
                        print(f"  {program}: {name}: {len(found[0][name])} calls, {len(missing)} missing, {len(more)} more, such as {[*missing, *more][0]}")


main()
