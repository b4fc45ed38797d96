#!/usr/bin/env python3
"""Measures `quarry mcp`: the time of warm answers, and memory with one tree and with many, half of which are never asked; and
the time of a warm `workspace/symbol` of `quarry lsp`.

    python3 bench/mcp_trees.py target/release/quarry
    python3 bench/mcp_trees.py target/release/quarry --functions 1000 --trees 5 --rounds 10

Trees are of made-up functions. Of one tree, each tool is asked --rounds times: medians and 95th percentiles in ms, until the
line of the answer has been read. Memory is the process's own and that of files that it maps, in MB, after answers, and the
highest while it answered. Needs only Python's standard library.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from serve import make_tree, quantile, queries


def start(quarry: Path, home: Path, *arguments) -> subprocess.Popen:
    environment = dict(os.environ, HOME=str(home), XDG_CACHE_HOME=str(home / "cache"), XDG_STATE_HOME=str(home / "state"))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([quarry, *arguments], env=environment, **pipes)


class Server:
    """`quarry mcp` for some trees."""

    def __init__(self, quarry: Path, home: Path, trees: list[Path]):
        self.process = start(quarry, home, "mcp", "--quality", "fast", *trees)
        self.n_requests = 0
        client = {"name": "bench", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params) -> dict:
        self.n_requests += 1
        self.send({"jsonrpc": "2.0", "id": self.n_requests, "method": method, "params": params})
        answer = json.loads(self.process.stdout.readline())
        assert answer.get("id") == self.n_requests and "error" not in answer, answer
        return answer["result"]

    def call(self, tool: str, **arguments) -> str:
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def memory(self) -> str:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        own, files, most = (int(fields[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile", "VmHWM"))
        return f"own {own:.1f}, mapped files {files:.1f}, at most {most:.1f} MB"

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Editor:
    """`quarry lsp` for a tree."""

    def __init__(self, quarry: Path, home: Path, tree: Path):
        self.process = start(quarry, home, "lsp", "--quality", "fast")
        self.n_requests = 0
        self.request("initialize", {"processId": None, "capabilities": {}, "rootUri": tree.as_uri()})
        self.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})

    def send(self, message) -> None:
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def request(self, method: str, params):
        self.n_requests += 1
        self.send({"jsonrpc": "2.0", "id": self.n_requests, "method": method, "params": params})
        while True:
            length = int(self.process.stdout.readline().split(b":")[1])
            while self.process.stdout.readline().strip():
                pass
            answer = json.loads(self.process.stdout.read(length))
            # Others are notices and requests of the server.
            if answer.get("id") == self.n_requests and "method" not in answer:
                assert "error" not in answer, answer
                return answer["result"]

    def close(self) -> None:
        self.request("shutdown", None)
        self.send({"jsonrpc": "2.0", "method": "exit"})
        self.process.wait(timeout=60)


def timed(name: str, rounds: int, ask) -> None:
    taken = []
    for number in range(rounds):
        start = time.perf_counter()
        answer = ask(number)
        taken.append((time.perf_counter() - start) * 1000)
        assert answer, name
    print(f"{name:<28} median {statistics.median(taken):7.2f} ms, 95 % within {quantile(taken, 0.95):7.2f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry", type=Path)
    parser.add_argument("--functions", type=int, default=10_000, help="functions of each tree")
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=50)
    args = parser.parse_args()
    quarry = args.quarry.resolve()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        trees = [home / f"tree{number}" for number in range(args.trees)]
        for number, tree in enumerate(trees):
            make_tree(tree, args.functions, number)
        file = min(trees[0].rglob("*.py")).relative_to(trees[0]).as_posix()
        asked = queries(args.rounds, 1)

        server = Server(quarry, home, trees[:1])
        server.call("search", query=asked[0])
        status = server.call("index_status").splitlines()[0]
        print(f"one tree of {args.functions:,} functions: {status}")
        print(f"after indexing               {server.memory()}")
        server.close()

        server = Server(quarry, home, trees[:1])
        server.call("search", query=asked[0])
        timed("search", args.rounds, lambda number: server.call("search", query=asked[number]))
        timed("context", args.rounds, lambda number: server.call("context", query=asked[number]))
        timed("read_unit", args.rounds, lambda number: server.call("read_unit", path=file, line=1))
        timed("callers", args.rounds, lambda number: server.call("callers", path=file, line=1))
        print(f"one tree                     {server.memory()}")
        server.close()

        editor = Editor(quarry, home, trees[0])
        editor.request("workspace/symbol", {"query": asked[0]})
        timed("workspace/symbol", args.rounds, lambda number: editor.request("workspace/symbol", {"query": asked[number]}))
        editor.close()

        # Indexed before it is measured, so that memory is that of answering.
        server = Server(quarry, home, trees)
        server.call("search", query=asked[0])
        server.close()
        half = [tree.name for tree in trees[: len(trees) // 2]]
        server = Server(quarry, home, trees)
        for name in half:
            server.call("search", query=asked[0], path=name)
        print(f"{args.trees} trees, {len(half)} asked{'':<11} {server.memory()}")
        timed(f"search in one of {args.trees}", args.rounds, lambda number: server.call("search", query=asked[number], path=half[0]))
        timed(f"search in all {args.trees}", max(args.rounds // 10, 3), lambda number: server.call("search", query=asked[number]))
        print(f"{args.trees} trees, all asked{'':<10} {server.memory()}")
        server.close()


if __name__ == "__main__":
    main()
