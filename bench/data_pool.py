"""Measures how fast `quarry data build` turns source trees into a pool, and how much memory that takes.

Builds until the pool is there, once for each directory and for all together, and then stops: what follows depends on the
methods of a plan. Bytes are those of the files that were read; seconds include listing and hashing; the rate is that of
the processors' time, which other programs disturb less. `--processors` limits
the process to as many. With `--functions N` there are no directories: N functions in the form of CodeSearchNet are written,
a tenth of them nearly the same as another one, and near duplicates are folded.

    python data_pool.py QUARRY DIRECTORY... [--processors N] [--near SIMILARITY]
    python data_pool.py QUARRY --functions 1000000
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

REST = """
[[queries]]
name = "docstrings"
kind = "docstrings"
maximum = 10
[[labels]]
kind = "pairing"
[[exports]]
format = "beir"
"""


def plan(sources, near):
    text = "".join(
        f'[[sources]]\nname = "s{number}"\nkind = "{kind}"\npath = {json.dumps(str(path))}\n'
        for number, (kind, path) in enumerate(sources)
    )
    pool = 'filters = ["documented", "cosqa", "cosqa-plus"]\nmask = true\n'
    return text + "[pool]\n" + pool + (f"near_duplicates = {near}\n" if near else "") + REST


def measure(quarry, directory, sources, near, processors):
    """Seconds, seconds of processors, maximum memory in MiB, and counts of sources and pool, until the pool is there."""
    path = directory / "plan.toml"
    path.write_text(plan(sources, near))
    limit = (lambda: os.sched_setaffinity(0, range(processors))) if processors else None
    environment = {**os.environ, **({"RAYON_NUM_THREADS": str(processors)} if processors else {})}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=directory) as out:
        command = [quarry, "data", "build", path, "--out", out]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=limit, env=environment)
        counts, said = {}, []
        for line in process.stderr:
            said.append(line)
            match = re.match(r"quarry: (source \S+|pool): (.*)", line)
            if not match:
                continue
            for name, count in re.findall(r"([^,]+?) (\d+)(?:, |$)", match[2]):
                key = ("pool " if match[1] == "pool" else "") + name.strip()
                counts[key] = counts.get(key, 0) + int(count)
            if match[1] == "pool":
                seconds = time.monotonic() - start
                fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
                processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                memory = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
                process.kill()
                process.wait()
                return seconds, processor, memory, counts
        raise SystemExit("".join(said))


WORDS = ("read", "write", "open", "sum", "node", "list", "key", "tree", "file", "line")


def write_functions(path, number, seed=1):
    draw = random.Random(seed)
    words = [f"{a}{b}" for a in WORDS for b in range(500)]
    kept = []
    with path.open("w") as file:
        for n in range(number):
            if kept and n % 10 == 9:
                body = list(draw.choice(kept))
                body[draw.randrange(len(body))] = draw.choice(words)
            else:
                body = draw.choices(words, k=60)
                if len(kept) < 1000:
                    kept.append(body)
            lines = "".join(f"    {body[i]} = {body[i + 1]}({body[i + 2]})\n" for i in range(0, 60, 3))
            code = f"def f{n}(x):\n{lines}    return x\n"
            row = {"repo": "a/b", "path": f"{n}.py", "func_name": f"f{n}", "language": "python", "code": code,
                   "code_tokens": [], "docstring": f"Return the value number {n}.", "docstring_tokens": [], "url": f"u{n}"}
            file.write(json.dumps(row) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry", type=pathlib.Path)
    parser.add_argument("directories", nargs="*", type=pathlib.Path)
    parser.add_argument("--processors", type=int)
    parser.add_argument("--near", type=float)
    parser.add_argument("--functions", type=int)
    arguments = parser.parse_args()
    quarry = arguments.quarry.resolve()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        if arguments.functions:
            path = directory / "functions.jsonl"
            write_functions(path, arguments.functions)
            rounds = [("functions", [("data-set", "functions.jsonl")])]
            arguments.near = arguments.near or 0.8
        else:
            for number, source in enumerate(arguments.directories):
                # Paths in a plan are relative to its directory.
                (directory / f"{number}").mkdir()
                subprocess.run(["cp", "-r", f"{source.resolve()}/.", directory / f"{number}"], check=True)
            all_sources = [("directory", f"{number}") for number in range(len(arguments.directories))]
            rounds = [(source.name, [of]) for source, of in zip(arguments.directories, all_sources)]
            rounds += [("all", all_sources)] if len(all_sources) > 1 else []
        print("| source | MB | functions | kept | seconds | of processors | MB a minute of a processor | memory, MiB |\n|---|---|---|---|---|---|---|---|")
        for name, sources in rounds:
            seconds, processor, memory, counts = measure(quarry, directory, sources, arguments.near, arguments.processors)
            size = counts["bytes"] / 1e6
            row = [name, f"{size:.1f}", counts["functions"], counts["pool kept"], f"{seconds:.1f}", f"{processor:.2f}", f"{size / processor * 60:.0f}",
                   f"{memory:.0f}"]
            print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
