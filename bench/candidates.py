"""Measures how fast `quarry data build` finds the candidates of queries in a pool, and how much memory that takes.

CODES functions are generated, and a tenth of QUERIES and QUERIES queries are asked for their 10 best codes by the built-in
model (`--encoder` names others). A build has to embed every code, whatever is asked, and to compare each query with each
code: of the two builds over one pool the difference is what comparing takes. From both it says how long TARGET queries over
as many codes would take a processor, which nobody measured: seconds of processors are what other programs disturb less.

    python candidates.py QUARRY [--codes 200000] [--queries 2000] [--target 20000x1000000] [--processors N] [--encoder METHOD]
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import time

from data_pool import write_functions

PLAN = """
[[sources]]
name = "functions"
kind = "data-set"
path = "functions.jsonl"
[pool]
keep_duplicates = true
[[queries]]
name = "asked"
kind = "file"
path = "queries.txt"
[candidates]
encoders = [{encoder}]
union = []
k = 10
[[labels]]
kind = "negative"
[splits.parts]
test = 1
[[exports]]
format = "beir"
"""


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def candidates(command, environment, limit):
    """Seconds and seconds of processors of the step, and the maximum memory of the process in MiB when it was done."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=limit)
    begin, said = None, []
    for line in process.stderr:
        said.append(line)
        if line.startswith("quarry: merge"):
            begin, processor = time.monotonic(), processor_seconds(process)
        if line.startswith("quarry: candidates"):
            seconds, processor = time.monotonic() - begin, processor_seconds(process) - processor
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            memory = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
            process.kill()
            process.wait()
            return seconds, processor, memory
    raise SystemExit("".join(said))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry", type=pathlib.Path)
    parser.add_argument("--codes", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--target", default="20000x1000000")
    parser.add_argument("--processors", type=int)
    parser.add_argument("--encoder", default="static")
    arguments = parser.parse_args()
    quarry, n_codes = arguments.quarry.resolve(), arguments.codes
    n = arguments.processors
    limit = (lambda: os.sched_setaffinity(0, range(n))) if n else None
    environment = {**os.environ, **({"RAYON_NUM_THREADS": str(n)} if n else {})}
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        write_functions(directory / "functions.jsonl", n_codes)
        plan = directory / "plan.toml"
        plan.write_text(PLAN.format(encoder=json.dumps(arguments.encoder)))
        words = ["read", "write", "open", "sum", "node", "list", "key", "tree", "file", "line"]
        draw, taken = random.Random(1), {}
        print("| queries | codes | seconds | processor, s | memory, MiB |\n|---|---|---|---|---|")
        for n_queries in (arguments.queries // 10, arguments.queries):
            lines = [f"{' '.join(draw.choices(words, k=4))} {number}\n" for number in range(n_queries)]
            (directory / "queries.txt").write_text("".join(lines))
            command = [quarry, "data", "build", plan, "--out", directory / "out"]
            seconds, processor, memory = candidates(command, environment, limit)
            taken[n_queries] = processor
            print(f"| {n_queries} | {n_codes} | {seconds:.1f} | {processor:.1f} | {memory:.0f} |", flush=True)
        few, many = sorted(taken)
        by_pair = (taken[many] - taken[few]) / ((many - few) * n_codes)
        by_code = (taken[few] - by_pair * few * n_codes) / n_codes
        wanted_queries, wanted_codes = map(int, arguments.target.split("x"))
        hours = (by_pair * wanted_queries * wanted_codes + by_code * wanted_codes) / 3600
        print(f"of a processor: a code takes {by_code * 1e6:.0f} µs to read and embed, whatever is asked; {1 / by_pair / 1e6:.1f} million"
              f" comparisons a second; extrapolated to {wanted_queries} queries over {wanted_codes} codes: {hours:.2f} hours")


if __name__ == "__main__":
    main()
