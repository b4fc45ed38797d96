"""Kills `quarry index` at random moments and checks that nothing is lost; then runs readers and writers on one index.

A tree of made-up files is indexed; then, KILLS times, some files are changed and an indexing process is killed
(SIGKILL) after a random part of a time that adapts itself so that some come to their end, while another process keeps searching. After each kill the
index must open without an update and answer with a function of an old or the new state; in the end it must equal one
that is built from nothing.

Then, ROUNDS times, all stamps in the tree are raised by one and two processes index it at once while READERS others
search: each answer must hold the stamps of one state only, and never go back. Exits with 1 at the first violation.

    python kill_test.py QUARRY [KILLS] [SEED]
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

FILES = 400
CHANGED = 60
STAMPS = 12
ROUNDS = 8
READERS = 3
WORDS = "open close read write parse merge split cache retry index graph token queue socket header".split()


def write(tree, number, version, draw):
    functions = [
        f'def {draw.choice(WORDS)}_{draw.choice(WORDS)}_{number}_{i}(value):\n    """{" ".join(draw.choices(WORDS, k=8))}."""\n    return value + {version}\n'
        for i in range(20)
    ]
    marker = f"def marker_{number}_{version}():\n    return {version}\n"
    (tree / f"file_{number}.py").write_text("\n".join([marker, *functions]))


def search(quarry, tree, index, query, *options):
    command = [quarry, "search", query, tree, "--index", index, "--json", "--threshold", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"search failed with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["results"]


def results(quarry, tree, index):
    results = lambda query: [(r["path"], r["start_line"], r["name"], round(r["score"], 4)) for r in search(quarry, tree, index, query)]
    return [results(f"{a} {b}") for a, b in zip(WORDS, WORDS[1:])]


def stamps(quarry, tree, index):
    """The states in one answer: the last numbers of the stamps in it."""
    found = search(quarry, tree, index, "stamp", "--no-index-update", "-k", str(2 * STAMPS))
    names = [r["name"] for r in found if r["name"].startswith("stamp_")]
    return len(names), sorted({int(name.rsplit("_", 1)[1]) for name in names})


def readers_and_writers(quarry, tree, index):
    """Returns the number of answers that readers got while two writers were at work."""

    def raise_stamps(state):
        for n in range(STAMPS):
            (tree / f"stamp_{n}.py").write_text(f"def stamp_{n}_{state}():\n    return {state}\n")

    def read():
        last = 0
        while not stop.is_set() and not wrong:
            count, states = stamps(quarry, tree, index)
            if count != STAMPS or len(states) != 1 or states[0] < last:
                wrong.append(f"{count} stamps of the states {states} after state {last}")
            else:
                last = states[0]
                answers.append(last)

    build = [quarry, "index", tree, "--index", index]
    raise_stamps(0)
    subprocess.run(build, check=True, capture_output=True)
    stop, wrong, answers = threading.Event(), [], []
    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    for state in range(1, ROUNDS + 1):
        raise_stamps(state)
        writers = [subprocess.Popen(build, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
        for writer in writers:
            _, errors = writer.communicate()
            if writer.returncode:
                wrong.append(f"a writer failed: {errors.decode()}")
        if stamps(quarry, tree, index) != (STAMPS, [state]):
            wrong.append(f"after two writers the index is not of state {state}")
    stop.set()
    for reader in readers:
        reader.join()
    if wrong:
        sys.exit(wrong[0])
    return len(answers)


def main(quarry, kills=100, seed=7):
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        tree, index = Path(scratch) / "tree", Path(scratch) / "index"
        tree.mkdir()
        versions = dict.fromkeys(range(FILES), 0)
        for number in versions:
            write(tree, number, 0, draw)
        build = [quarry, "index", tree, "--index", index]
        start = time.perf_counter()
        subprocess.run(build, check=True, capture_output=True)
        took, killed = 1.5 * (time.perf_counter() - start), 0
        stop, searches = threading.Event(), []

        def reader():
            while not stop.is_set():
                if not search(quarry, tree, index, "read header", "--no-index-update"):
                    searches.append(None)
                searches.append(1)

        thread = threading.Thread(target=reader)
        thread.start()
        for kill in range(int(kills)):
            for number in draw.sample(range(FILES), CHANGED):
                versions[number] += 1
                write(tree, number, versions[number], draw)
            process = subprocess.Popen(build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=draw.uniform(0, took))
                took *= 0.8
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                took *= 1.1
                killed += 1
            number = draw.randrange(FILES)
            only = ("--no-index-update", "-g", f"file_{number}.py")
            found = search(quarry, tree, index, f"marker_{number}_{versions[number]}", *only)
            if not any(r["name"].startswith(f"marker_{number}_") for r in found):
                sys.exit(f"kill {kill}: no state of file_{number}.py is in the index: {[r['name'] for r in found]}")
        stop.set()
        thread.join()
        if None in searches:
            sys.exit("a search during indexing found nothing")
        subprocess.run(build, check=True, capture_output=True)
        fresh = Path(scratch) / "fresh"
        if results(quarry, tree, index) != results(quarry, tree, fresh):
            sys.exit("the index differs from one that is built from nothing")
        names = sorted(path.name for path in index.iterdir())
        print(f"{kills} runs, {killed} killed, {len(searches)} searches beside them, nothing lost; the directory holds {', '.join(names)}")
        answers = readers_and_writers(quarry, tree, index)
        print(f"{ROUNDS} rounds of two writers, {answers} answers of {READERS} readers beside them, each of one state")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
