#!/usr/bin/env python3
"""Measures `quarry serve`: the overhead of HTTP, requests per second, and the effect of slow clients.

    python3 bench/serve.py --quarry target/release/quarry            # a made-up tree of 10,000 functions
    python3 bench/serve.py --quarry target/release/quarry --tree DIR
    python3 bench/serve.py --quarry target/release/quarry --minutes 10    # only memory, under load for so long

The load comes from this program, on the same cores. Each number is printed with its target; the exit code is 1 if one is
missed. The floor is what the same client gets from a request that searches nothing (/healthz), before and after: where
other programs run, ratios to it say more than times. With several rounds, the median of each number counts. Needs only Python's standard library."""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote_plus, urlsplit

VERBS = "read write parse open close send merge split load store find count check build draw sort copy move lock wait".split()
NOUNS = "file socket header index token user order price page cache queue buffer record query path tree node key label".split()
ADJECTIVES = "new old next last first open empty full local remote shared hidden sorted cached stale fresh".split()


def make_tree(directory: Path, n_functions: int, seed: int) -> None:
    """Writes a tree of Python functions with documentation, 20 in each file."""
    rng = random.Random(seed)
    for start in range(0, n_functions, 20):
        path = directory / f"{rng.choice(NOUNS)}s" / f"module_{start}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        functions = []
        for number in range(start, min(start + 20, n_functions)):
            verb, adjective, noun = rng.choice(VERBS), rng.choice(ADJECTIVES), rng.choice(NOUNS)
            other = rng.choice(NOUNS)
            functions.append(
                f"def {verb}_{adjective}_{noun}_{number}({noun}, {other}):\n"
                f'    """{verb.title()}s the {adjective} {noun} of a {other}."""\n'
                f"    for item in {noun}.{rng.choice(NOUNS)}s:\n"
                f"        if item.{rng.choice(ADJECTIVES)}:\n"
                f"            {other}.{rng.choice(VERBS)}(item)\n"
                f"    return {other}\n"
            )
        path.write_text("\n\n".join(functions))


def queries(n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [f"{rng.choice(VERBS)} the {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} of a {rng.choice(NOUNS)}" for _ in range(n)]


class Connection:
    """Sends requests one after the other over one connection."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def get(self, path: str) -> tuple[int, bytes]:
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nAccept: text/html\r\n\r\n".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, length = int(head[9:12]), 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, await self.reader.readexactly(length)

    def close(self) -> None:
        self.writer.close()


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def added(host: str, port: int, n: int) -> tuple[float, float]:
    """Milliseconds at the median: of a search, and of what is added to it."""
    connection = Connection(host, port)
    await connection.open()
    searches, differences = [], []
    for query in queries(n, 1):
        start = time.perf_counter()
        status, body = await connection.get(f"/api/v1/search?q={quote_plus(query)}")
        total = (time.perf_counter() - start) * 1000
        assert status == 200, (status, body)
        took = json.loads(body)["took_ms"]
        searches.append(took)
        differences.append(total - took)
    connection.close()
    return statistics.median(searches), statistics.median(differences)


async def load(host: str, port: int, path: str, n_connections: int, seconds: float) -> tuple[float, float, float, int]:
    """Answers per second, the median and 99th percentile of their milliseconds, and how many were not 200."""
    texts = queries(5000, 2)
    times: list[float] = []
    bad = 0
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal bad
        connection = Connection(host, port)
        await connection.open()
        position = number * 131
        while time.perf_counter() < end:
            start = time.perf_counter()
            status, _ = await connection.get(path + quote_plus(texts[position % len(texts)]))
            times.append((time.perf_counter() - start) * 1000)
            bad += status != 200
            position += 1
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(n_connections)))
    rate = len(times) / (time.perf_counter() - start)
    return rate, statistics.median(times), quantile(times, 0.99), bad


async def pages(host: str, port: int) -> int:
    """Bytes of the largest page of results."""
    connection = Connection(host, port)
    await connection.open()
    largest = 0
    for query in queries(50, 3):
        for path in (f"/?q={quote_plus(query)}", f"/?q={quote_plus(query)}&limit=50&lines=40&explain=1"):
            status, body = await connection.get(path)
            assert status == 200, status
            largest = max(largest, len(body))
    connection.close()
    return largest


async def floor(host: str, port: int, n: int) -> float:
    """Milliseconds of a request that does nothing, at the median."""
    connection = Connection(host, port)
    await connection.open()
    times = []
    for _ in range(n):
        start = time.perf_counter()
        status, _ = await connection.get("/healthz")
        times.append((time.perf_counter() - start) * 1000)
        assert status == 200, status
    connection.close()
    return statistics.median(times)


def memory_over_time(server: subprocess.Popen, host: str, port: int, n_connections: int, minutes: float) -> list[float]:
    """Resident memory in MB under load, now and after each minute, half of the time of it by the API and half by pages."""
    values = [resident(server.pid)]
    for minute in range(max(1, round(minutes))):
        for path in ("/api/v1/search?q=", "/?q="):
            rate, _, late, bad = asyncio.run(load(host, port, path, n_connections, 30))
            assert bad == 0, bad
        values.append(resident(server.pid))
        print(f"minute {minute + 1:>2}: {values[-1]:.1f} MB, {rate:.0f} pages/s, 99th percentile {late:.0f} ms", flush=True)
    return values


def resident(pid: int) -> float:
    """Resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(server: subprocess.Popen, host: str, port: int, args: argparse.Namespace, check) -> None:
    """One round; `check` takes what was measured, the value, its limit and its unit."""
    before = asyncio.run(floor(host, port, 500))
    search, more = asyncio.run(added(host, port, 500))
    after = asyncio.run(floor(host, port, 500))
    nothing = (before + after) / 2
    check("floor: median of a request that does nothing", nothing, None, "ms")
    check("median of a search in the library", search, None, "ms")
    check("median that HTTP adds to it", more, 2, "ms")
    check("the same, relative to the floor", more / nothing, None, "times")
    memory = resident(server.pid)
    floor_rate, _, floor_late, _ = asyncio.run(load(host, port, "/healthz?q=", args.connections, min(args.seconds, 5)))
    check("floor: answers per second", floor_rate, None, "/s")
    check("floor: 99th percentile", floor_late, None, "ms")
    for path, name in (("/api/v1/search?q=", "API"), ("/?q=", "pages")):
        rate, median, late, bad = asyncio.run(load(host, port, path, args.connections, args.seconds))
        is_api = path.startswith("/api")
        check(f"{name}: median of an answer under load", median, None, "ms")
        check(f"{name}: answers per second, {args.connections} connections", rate, 500 if is_api else None, "/s", at_least=True)
        check(f"{name}: answers per second, relative to the floor", rate / floor_rate, None, "")
        check(f"{name}: 99th percentile", late, 50 if is_api else None, "ms")
        check(f"{name}: answers other than 200", bad, 0, "")
    check("growth of memory meanwhile", resident(server.pid) - memory, 64, "MB")
    slow = []
    for number in range(1000):
        stream = socket.create_connection((host, port))
        if number % 2:
            stream.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        slow.append(stream)
    rate, _, late, _ = asyncio.run(load(host, port, "/api/v1/search?q=", args.connections, min(args.seconds, 8)))
    check("beside 1,000 slow clients: answers per second", rate, 500, "/s", at_least=True)
    check("beside 1,000 slow clients: 99th percentile", late, 50, "ms")
    for stream in slow:
        stream.close()
    check("largest page of results", asyncio.run(pages(host, port)) / 1000, 100, "KB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("--tree", type=Path, help="serve this tree instead of a made-up one")
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="measure only memory, over this time")
    args = parser.parse_args()
    # In the order in which they are measured first.
    values: dict[str, list[float]] = {}
    targets: dict[str, tuple[str, float | None, bool]] = {}

    def check(what: str, value: float, limit: float | None, unit: str, at_least: bool = False) -> None:
        values.setdefault(what, []).append(value)
        targets[what] = (unit, limit, at_least)

    def is_kept(what: str) -> bool:
        value, (unit, limit, at_least) = statistics.median(values[what]), targets[what]
        print(f"{what:<58} {value:>10.2f} {unit:<5}", end="")
        kept = limit is None or (value >= limit if at_least else value <= limit)
        print("" if limit is None else f" {'≥' if at_least else '≤'} {limit:g}{'' if kept else ' NOT KEPT'}", flush=True)
        return kept

    with tempfile.TemporaryDirectory() as scratch:
        tree = args.tree or Path(scratch) / "tree"
        if args.tree is None:
            make_tree(tree, args.units, 0)
        environment = {**os.environ, "XDG_CACHE_HOME": scratch, "XDG_STATE_HOME": scratch}
        server = subprocess.Popen(
            [args.quarry, "serve", "--listen", "127.0.0.1:0", "--quality", "fast", str(tree)], stdout=subprocess.PIPE, env=environment, text=True
        )
        try:
            address = urlsplit(server.stdout.readline().strip())
            host, port = address.hostname, address.port
            while True:
                with socket.create_connection((host, port)) as probe:
                    probe.sendall(f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                    if probe.recv(12).endswith(b"200"):
                        break
                time.sleep(0.2)
            if args.minutes:
                over_time = memory_over_time(server, host, port, args.connections, args.minutes)
                # Caches and the allocator's arenas fill first; what leaks grows for ever.
                half = over_time[len(over_time) // 2]
                check("resident memory after half of the time", half, None, "MB")
                check("growth of memory from then on", over_time[-1] - half, 2, "MB")
            else:
                for _ in range(args.rounds):
                    measure(server, host, port, args, check)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=30)
    return 0 if all([is_kept(what) for what in values]) else 1


if __name__ == "__main__":
    sys.exit(main())
