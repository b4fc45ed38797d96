#!/usr/bin/env python3
"""Checks trees in Milvus, with Milvus Lite: `quarry index --to` and `quarry serve --from`.

    pip install milvus-lite==3.2.2 pymilvus==3.0.2
    cargo build --release -p quarry-cli --features milvus
    python3 bench/check_engine.py target/release/quarry

Two trees are uploaded and searched, beside a server that has their indexes. An upload is killed and resumed, a file is
changed while somebody searches, a tree is removed, and the engine is stopped."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote_plus

REPOSITORY = Path(__file__).resolve().parent.parent
QUERIES = (
    "split an identifier into its parts",
    "bootstrap confidence interval of a mean",
    "tie policy of ranks",
    "query_terms",
    "queryterms",
    "stem of a word",
    "write a table as LaTeX",
    "how is the harmonic mean of precision and recall computed?",
)
ENGINE = """
import sys, time
from milvus_lite.adapter.grpc.server import start_server_in_thread
server, database, port = start_server_in_thread(sys.argv[1], port=int(sys.argv[2]))
print(port, flush=True)
sys.stdin.read()
server.stop(0)
database.close()
"""


def expect(is_so: bool, what: str) -> None:
    if not is_so:
        sys.exit(f"expected that {what}")
    print(f"ok: {what}", flush=True)


class Engine:
    """Milvus Lite in a process of its own."""

    def __init__(self, directory: Path, port: int = 0):
        self.process = subprocess.Popen(
            [sys.executable, "-c", ENGINE, str(directory), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        atexit.register(self.process.kill)
        self.port = int(self.process.stdout.readline())
        self.url = f"milvus://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.process.stdin.close()
        # It ends what it does in the background.
        self.process.wait(timeout=1800)


class Server:
    """`quarry serve` with some arguments."""

    def __init__(self, quarry: str, *args: str):
        self.process = subprocess.Popen(
            [quarry, "serve", "--listen", "127.0.0.1:0", "--quality", "fast", *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        atexit.register(self.process.kill)
        self.base = self.process.stdout.readline().strip().rstrip("/")
        while self.get("/readyz", as_json=False)[0] == 503:
            time.sleep(0.1)

    def get(self, path: str, as_json: bool = True):
        try:
            with urllib.request.urlopen(self.base + path, timeout=60) as reply:
                return reply.status, json.load(reply) if as_json else reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def results(self, query: str, more: str = "") -> list[tuple]:
        status, answer = self.get(f"/api/v1/search?q={quote_plus(query)}&threshold=0{more}")
        if status != 200:
            sys.exit(f"{query}: {status} {answer}")
        return [(found["path"], found["start_line"], found["snippet"]) for found in answer["results"]]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)


def main() -> int:
    quarry = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        os.environ.update(XDG_CACHE_HOME=f"{scratch}/cache", XDG_STATE_HOME=f"{scratch}/state", QUARRY_QUIET="1")
        trees = []
        for crate in ("metrics", "text"):
            shutil.copytree(REPOSITORY / "crates" / crate / "src", scratch / crate)
            trees.append(scratch / crate)
        engine = Engine(scratch / "milvus")

        def index(tree: Path, *more: str) -> dict:
            command = [quarry, "index", str(tree), "--to", engine.url, "--json", *more]
            return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["upload"]

        for tree in trees:
            files = sum(path.is_file() for path in tree.rglob("*"))
            expect(index(tree)["stored_files"] == files, f"all {files} files of {tree.name} are stored")
        expect(index(trees[0])["stored_files"] == 0, "a second upload stores nothing")

        kept, local = Server(quarry, "--from", engine.url), Server(quarry, *map(str, trees))
        for more in ("", "&tree=text", "&lang=rust&dir=ranking", "&kind=function"):
            same = [kept.results(query, more) == local.results(query, more) for query in QUERIES]
            expect(all(same), f"results are those of the local index{more and ' with ' + more[1:]}")
        path = "/api/v1/similar?tree=text&path=plural.rs&line=9"
        both = [[found["name"] for found in server.get(path)[1]["results"]] for server in (kept, local)]
        expect(both[0] == both[1] != [], "similar units are those of the local index")
        text = (trees[1] / "plural.rs").read_text()
        expect(kept.get("/raw/text/plural.rs", as_json=False) == (200, text), "the text of a file is kept")
        for page in ("/", "/?q=stem", "/file/text/plural.rs?line=9", "/similar?tree=text&path=plural.rs&line=9"):
            expect(kept.get(page, as_json=False)[0] == 200, f"{page} is a page")
        status, answer = kept.get("/api/v1/callers?name=plural")
        expect(status == 404 and "not kept" in answer, "calls are not there, which is said")
        status, answer = kept.get("/api/v1/units/text/nowhere.rs")
        expect(status == 404, "a file that is not there is not found")

        # A change while somebody searches: every answer is of before or of after.
        changed = trees[1] / "plural.rs"
        seen, is_over = [], threading.Event()

        def search() -> None:
            while not is_over.is_set():
                seen.append(kept.results("plural of a noun", "&tree=text&lines=0&limit=3"))

        before = kept.results("plural of a noun", "&tree=text&lines=0&limit=3")
        searcher = threading.Thread(target=search)
        searcher.start()
        changed.write_text(text.replace("noun", "substantive"))
        upload = index(trees[1])
        is_over.set()
        searcher.join()
        after = kept.results("plural of a noun", "&tree=text&lines=0&limit=3")
        expect(upload["stored_files"] == 1 and upload["removed_files"] == 1, "a changed file is replaced, and nothing else")
        expect(before != after and all(found in (before, after) for found in seen), f"{len(seen)} searches saw before or after")

        # An upload that is killed: of many batches, so that it does not end before.
        large = scratch / "large"
        for crate in ("index", "cli", "source"):
            shutil.copytree(REPOSITORY / "crates" / crate / "src", large / crate)
        subprocess.run([quarry, "index", str(large)], check=True, capture_output=True)
        # Loaded before, since that takes longer than the upload.
        from pymilvus import MilvusClient

        client = MilvusClient(uri=f"http://127.0.0.1:{engine.port}")
        killed = subprocess.Popen([quarry, "index", str(large), "--to", engine.url], stderr=subprocess.DEVNULL)
        # It is stopped during each look, so that it does not end between a look and its kill.
        while killed.send_signal(signal.SIGSTOP) or not client.query(
            "quarry_records", filter='tree == "large"', output_fields=["id"], limit=1
        ):
            killed.send_signal(signal.SIGCONT)
            time.sleep(0.02)
            if killed.poll() is not None:
                sys.exit("the upload ended before it could be killed")
        killed.kill()
        killed.wait()
        expect(not client.query("quarry_trees", filter='id == "tree/large"', output_fields=["id"]), "half a tree is no tree")
        expect(kept.results("plural of a noun", "&tree=text&lines=0&limit=3") == after, "others are searched as before")
        upload = index(large)
        expect(upload["resumed_files"] > 0 and upload["stored_files"] > 0, "what was stored is taken over")
        fresh = Server(quarry, "--from", engine.url)
        status, answer = fresh.get("/api/v1/trees")
        expect([tree["name"] for tree in answer["trees"]] == ["large", "metrics", "text"], "all trees are served")
        expect(fresh.results("reciprocal rank fusion", "&tree=large")[0][0] == "index/ranking/fusion.rs", "the resumed tree is searched")

        # Removal.
        subprocess.run([quarry, "index", str(large), "--to", engine.url, "--remove"], check=True, capture_output=True)
        expect(not fresh.results("reciprocal rank fusion", "&tree=large"), "a removed tree is not found")
        rows = client.query("quarry_units", filter='tree == "large"', output_fields=["id"], limit=1)
        expect(not rows, "nothing of it is left")
        fresh.stop()

        # The engine goes, and comes back.
        client.close()
        engine.stop()
        start = time.monotonic()
        status, answer = kept.get("/api/v1/search?q=plural")
        took = time.monotonic() - start
        expect(status == 503 and took < 20, f"without the engine a search is refused ({took:.1f} s)")
        expect(kept.get("/healthz", as_json=False)[0] == 200, "the server lives on")
        failed = subprocess.run([quarry, "index", str(trees[0]), "--to", engine.url], capture_output=True, text=True)
        expect(failed.returncode == 2 and "does not respond" in failed.stderr, "an upload says that the engine does not respond")
        engine = Engine(scratch / "milvus", engine.port)
        while (status := kept.get("/api/v1/search?q=plural")[0]) == 503 and time.monotonic() - start < 60:
            time.sleep(0.5)
        if status != 200:
            # A collection is loaded by whoever connects.
            kept.stop()
            kept = Server(quarry, "--from", engine.url)
        expect(kept.results("plural of a noun", "&tree=text&lines=0&limit=3") == after, "it searches when the engine is back")
        for server in (kept, local):
            server.stop()
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
