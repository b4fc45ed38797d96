#!/usr/bin/env python3
"""Measures how much of a large tree Milvus Lite bears, and what `quarry serve --from` needs for it.

    pip install milvus-lite==3.2.2 pymilvus==3.0.2
    cargo build --release -p quarry-cli --features milvus
    python3 bench/large_tree.py TREE --files 160000         # 40 parts, about a million units
    python3 bench/engine_size.py --quarry target/release/quarry TREE

Each part becomes a tree. Whenever the number of parts has doubled, Milvus Lite writes what it holds to its files, starts anew
and builds its indexes; then the same queries are asked of `quarry serve --from` and of `quarry serve` with the local indexes
of the same trees, once when nothing is known and once more. It stops when an upload fails, after --minutes, or when half of
the searches are refused. Beside the clock stand seconds of a processor, which other programs do not lengthen much. Speeds and
sizes are those of Milvus Lite, which is written in Python."""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote_plus

from check_engine import Engine, Server
from engine_quality import settled
from large_tree import NOUNS, VERBS
from serve_trees import memory

QUERIES = 20


def queries() -> list[str]:
    drawn = random.Random(5)
    return [f"{drawn.choice(VERBS)} the {' of a '.join(drawn.choices(NOUNS, k=3))}" for _ in range(QUERIES)]


def processor(pid: int) -> float:
    """Seconds of a processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children() -> float:
    """Seconds of a processor that processes have used that ended."""
    times = os.times()
    return times.children_user + times.children_system


def search(base: str, query: str) -> tuple[list[tuple] | None, float]:
    """Places of the ten results, none if the search was refused, and the seconds."""
    start = time.monotonic()
    try:
        with urllib.request.urlopen(f"{base}/api/v1/search?q={quote_plus(query)}&limit=10&threshold=0", timeout=120) as reply:
            results = json.load(reply)["results"]
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return None, time.monotonic() - start
    return [(found["root"], found["path"], found["start_line"]) for found in results], time.monotonic() - start


def measured(name: str, server: Server, *used: int) -> list[list[tuple] | None]:
    """The answers, whose times and memory are printed; `used` are processes that the server uses."""
    opened = memory(server.process.pid)
    processes = (server.process.pid, *used)
    first = [search(server.base, query) for query in queries()]
    before = [processor(process) for process in processes]
    again = [search(server.base, query) for query in queries()]
    spent = [(processor(process) - seconds) / QUERIES for process, seconds in zip(processes, before)]
    after = memory(server.process.pid)
    columns = []
    for answers in (first, again):
        times = sorted(seconds for places, seconds in answers if places is not None)
        refused = sum(places is None for places, _ in answers)
        columns.append(f"{statistics.median(times):.2f} s, {times[-1]:.2f} at most" if times else "none")
        columns[-1] += f", {refused} refused" if refused else ""
    print(
        f"  {name}: first time {columns[0]}; again {columns[1]}; of a processor {' and '.join(f'{n:.3f}' for n in spent)} s; "
        f"memory {opened['own']:.0f} MiB when ready, {after['own']:.0f} after (and {after['files']:.0f} of files)",
        flush=True,
    )
    return [places for places, _ in again]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("tree", type=Path)
    args = parser.parse_args()
    parts = sorted(path for path in args.tree.iterdir() if path.is_dir())
    stops = {len(parts), *(2**power for power in range(10))}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(XDG_CACHE_HOME=f"{scratch}/cache", XDG_STATE_HOME=f"{scratch}/state")
        directory = Path(scratch, "milvus")
        engine = Engine(directory)
        # Seconds: of uploads by the clock, of a processor for quarry and for Milvus Lite, and what this had used before.
        units, took, uploading, storing, before = 0, 0.0, 0.0, 0.0, 0.0
        for number, part in enumerate(parts, 1):
            subprocess.run([args.quarry, "index", str(part)], check=True, capture_output=True)
            start, of_children = time.monotonic(), children()
            command = [args.quarry, "index", str(part), "--to", engine.url, "--json"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{part.name}: {done.stderr.strip()}")
                break
            recent = time.monotonic() - start
            took += recent
            uploading += children() - of_children
            stored = json.loads(done.stdout)["upload"]["stored_units"]
            units += stored
            print(f"{part.name}: {stored} units in {recent:.1f} s; {units} in {time.monotonic() - begin:.0f} s", flush=True)
            is_late = time.monotonic() - begin > 60 * args.minutes
            if number not in stops and not is_late:
                continue
            held = memory(engine.process.pid)["own"]
            start, of_children = time.monotonic(), children()
            engine = settled(engine, directory)
            built = time.monotonic() - start
            # All that the process used that ended, and the new one.
            storing += children() - of_children - before + processor(engine.process.pid)
            size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
            print(
                f"{units} units of {number} trees: uploads {took:.0f} s, settled in {built:.0f} s; of a processor {uploading:.0f} s for "
                f"quarry and {storing:.0f} s for Milvus Lite; {size / units:.0f} bytes a unit on disk; memory of Milvus Lite {held:.0f} "
                f"MiB before, {memory(engine.process.pid)['own']:.0f} after",
                flush=True,
            )
            server = Server(args.quarry, "--from", engine.url)
            theirs = measured("engine", server, engine.process.pid)
            server.stop()
            before = processor(engine.process.pid)
            print(f"  memory of Milvus Lite after the searches {memory(engine.process.pid)['own']:.0f} MiB", flush=True)
            server = Server(args.quarry, *map(str, parts[:number]))
            ours = measured("local", server)
            server.stop()
            same = [len(set(mine) & set(found)) / len(mine) for mine, found in zip(ours, theirs) if found is not None]
            if same:
                print(f"  of the ten local results {statistics.fmean(same):.3f} are those of the engine", flush=True)
            if is_late or len(same) < QUERIES / 2:
                break
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
