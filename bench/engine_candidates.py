#!/usr/bin/env python3
"""Measures what an index in another engine would lose: how much of Quarry's own ranking is among the candidates of Milvus.

    pip install milvus-lite pymilvus
    python3 bench/engine_candidates.py --quarry target/release/quarry TABLE REPOS gin rack gson
    python3 bench/engine_candidates.py --quarry target/release/quarry --together TABLE REPOS gin rack gson

Units of the checkouts go into a collection of Milvus Lite, which speaks Milvus's gRPC, with the vectors of `quarry serve` and
the words of names, paths and code, for BM25 in the engine. Each query of the table is then answered by `quarry serve`, and
its results are restricted to the engine's candidates: what an exact ranking of these could find at best. Of candidates there
are three kinds: the best by vectors and by words together; these with all other units of their files; and, for comparison,
the best by vectors alone. The engine's own order of them (reciprocal rank fusion) is measured too. With --together, all trees are in one collection
and ranked together."""

import argparse
import csv
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, quote_plus

from milvus_lite.adapter.grpc.server import start_server_in_thread
from pymilvus import DataType, Function, FunctionType, MilvusClient

EMBEDDED_AT_ONCE = 64
EMBEDDED_CHARACTERS = 2000
RANKED = 200
RESULTS = 10
DEPTHS = (50, 100, 200, 400)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(text: str) -> str:
    """Parts of identifiers, and the identifiers themselves in one piece."""
    whole = [name.lower() for name in re.findall(r"\w+", text)]
    return " ".join([part.lower() for part in WORD.findall(text)] + [name for name in whole if "_" in name or len(name) > 12])


def get(base: str, path: str):
    with urllib.request.urlopen(base + path, timeout=120) as reply:
        return json.load(reply)


def embed(base: str, texts: list[str], kind: str) -> list[list[float]]:
    vectors = []
    for start in range(0, len(texts), EMBEDDED_AT_ONCE):
        body = {"kind": kind, "texts": [text[:EMBEDDED_CHARACTERS] for text in texts[start : start + EMBEDDED_AT_ONCE]]}
        request = urllib.request.Request(
            base + "/api/v1/embed", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            vectors += json.load(reply)["vectors"]
    return vectors


def units(base: str) -> list[dict]:
    """All units that the server has, with their lines of code."""
    found = []
    for tree in get(base, "/api/v1/trees")["trees"]:
        root = Path(tree["root"])
        files = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts]
        for file in sorted(files):
            name = file.relative_to(root).as_posix()
            try:
                view = get(base, f"/api/v1/units/{quote(tree['name'])}/{quote(name)}")
            except urllib.error.HTTPError:
                continue  # Not a source file.
            lines = file.read_text(errors="replace").split("\n")
            for unit in view["units"]:
                text = "\n".join(lines[unit["start_line"] - 1 : unit["end_line"]])
                place = (tree["root"], name, unit["start_line"], unit["end_line"])
                found.append({"file": (tree["root"], name), "place": place, "name": unit["name"], "text": text})
    return found


def collection(client: MilvusClient, name: str, rows: list[dict], dimension: int) -> float:
    """Stores rows; returns how many seconds that took."""
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("words", DataType.VARCHAR, max_length=65_535, enable_analyzer=True)
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_field("dense", DataType.FLOAT_VECTOR, dim=dimension)
    bm25 = Function(
        name="bm25", input_field_names=["words"], output_field_names=["sparse"], function_type=FunctionType.BM25
    )
    schema.add_function(bm25)
    indexes = client.prepare_index_params()
    indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    indexes.add_index("dense", index_type="HNSW", metric_type="IP", params={"M": 16, "efConstruction": 200})
    client.create_collection(name, schema=schema, index_params=indexes)
    start = time.monotonic()
    for first in range(0, len(rows), 500):
        client.insert(name, rows[first : first + 500])
    client.flush(name)
    client.load_collection(name)
    return time.monotonic() - start


def quality(ranked: list[tuple], relevant: set[tuple]) -> tuple[float, float]:
    """nDCG at 10 and whether a relevant file is among the first 10, by files, each where it comes first."""
    files = list(dict.fromkeys(ranked))[:RESULTS]
    gains = [1 / math.log2(rank + 2) for rank, file in enumerate(files) if file in relevant]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(relevant), RESULTS)))
    return sum(gains) / ideal, float(bool(gains))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("table", type=Path)
    parser.add_argument("repos", type=Path)
    parser.add_argument("names", nargs="+", metavar="REPO")
    args = parser.parse_args()
    with args.table.open(newline="") as file:
        questions = [row for row in csv.DictReader(file, delimiter="\t") if row["repo"] in args.names]
    # By kind of candidates and depth: nDCG, hits, share of our results that are candidates, number of candidates.
    sums: dict[tuple[str, int], list[tuple[float, float, float, float]]] = {}
    stored = 0
    took = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(XDG_CACHE_HOME=f"{scratch}/cache", XDG_STATE_HOME=f"{scratch}/state")
        engine, database, port = start_server_in_thread(f"{scratch}/milvus")
        client = MilvusClient(uri=f"http://127.0.0.1:{port}")
        def checkout(row: dict) -> Path:
            return (args.repos / row["repo"] / (row["root"] or ".")).resolve()

        trees = sorted({checkout(row) for row in questions})
        for number, group in enumerate([trees] if args.together else [[tree] for tree in trees]):
            asked = [row for row in questions if checkout(row) in group]
            server = subprocess.Popen(
                [args.quarry, "serve", "--listen", "127.0.0.1:0", "--quality", "fast", *map(str, group)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            try:
                base = server.stdout.readline().strip().rstrip("/")
                while True:
                    try:
                        get(base, "/api/v1/search?q=code&limit=1")
                        break
                    except urllib.error.HTTPError:
                        time.sleep(0.2)
                rows = units(base)
                head = [words(Path(row["file"][1]).with_suffix("").as_posix()) + " " + words(row["name"]) for row in rows]
                dense = embed(base, [f"{first}\n{row['text']}" for first, row in zip(head, rows)], "document")
                data = [
                    {"id": at, "words": (first + " " + words(row["text"]))[:16_000], "dense": vector}
                    for at, (first, row, vector) in enumerate(zip(head, rows, dense))
                ]
                took += collection(client, f"c{number}", data, len(dense[0]))
                stored += len(rows)
                places = {row["place"]: at for at, row in enumerate(rows)}
                of_files: dict[tuple, list[int]] = {}
                for at, row in enumerate(rows):
                    of_files.setdefault(row["file"], []).append(at)
                for row in asked:
                    root, query = str(checkout(row)), row["query"]
                    relevant = {(root, path.removeprefix(f"{row['root']}/")) for path in row["relevant"].split("|")}
                    answer = get(base, f"/api/v1/search?q={quote_plus(query)}&limit={RANKED}&threshold=0")
                    ranked = []
                    for result in answer["results"]:
                        file = (result["root"], result["path"])
                        ranked.append((file, places.get((*file, result["start_line"], result["end_line"]))))
                    lists = []
                    for given, field in ((embed(base, [query], "query"), "dense"), ([words(query)], "sparse")):
                        hits = client.search(f"c{number}", data=given, anns_field=field, limit=min(max(DEPTHS), len(rows)))[0]
                        lists.append([hit["id"] for hit in hits])
                    add = lambda kind, depth, *values: sums.setdefault((kind, depth), []).append(values)
                    add("own ranking", 0, *quality([file for file, _ in ranked], relevant), 1.0, len(rows))
                    for depth in DEPTHS:
                        by_vectors = set(lists[0][:depth])
                        both = by_vectors | set(lists[1][:depth])
                        of_their_files = {at for file in {rows[at]["file"] for at in both} for at in of_files[file]}
                        for kind, candidates in (
                            ("vectors alone", by_vectors),
                            ("vectors and words", both),
                            ("and the rest of their files", of_their_files),
                        ):
                            left = [file for file, at in ranked if at in candidates]
                            kept = [at in candidates for _, at in ranked[:RESULTS]]
                            add(kind, depth, *quality(left, relevant), sum(kept) / max(1, len(kept)), len(candidates))
                    fused: dict[int, float] = {}
                    for ids in lists:
                        for rank, at in enumerate(ids[:100]):
                            fused[at] = fused.get(at, 0) + 1 / (60 + rank)
                    order = sorted(fused, key=lambda at: -fused[at])
                    add("the engine's own order", 100, *quality([rows[at]["file"] for at in order], relevant), 0.0, len(order))
            finally:
                server.send_signal(signal.SIGINT)
                server.wait(timeout=60)
            print(f"{len(group)} trees: {len(rows)} units, {len(asked)} queries", file=sys.stderr, flush=True)
        size = sum(path.stat().st_size for path in Path(scratch, "milvus").rglob("*") if path.is_file())
        engine.stop(0)
        database.close()
    print(f"{stored} units stored in {took:.1f} s ({stored / took:.0f}/s), {size / stored:.0f} bytes each; {len(questions)} queries")
    print(f"{'candidates':<30} {'each':>5} {'nDCG@10':>8} {'hit@10':>7} {'of our 10':>9} {'candidates':>10}")
    for (kind, depth), values in sums.items():
        means = [statistics.fmean(column) for column in zip(*values)]
        print(f"{kind:<30} {depth or '':>5} {means[0]:>8.4f} {means[1]:>7.3f} {means[2]:>9.3f} {means[3]:>10.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
