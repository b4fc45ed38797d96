"""Measures how many pairs per second `quarry judge run` judges with a model that answers at once, and its memory.

Clear pairs are decided by one question; for each unclear one a program is written too, which ends at once, is run with
bubblewrap, and judged. The model is a thread of this script; its share of the processor time is printed, as it works on
the same cores. Then the time to prepare a plan of LARGE pairs, for the first time and again.

    python judge_load.py QUARRY [CLEAR] [UNCLEAR] [LARGE]
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripted_model import ModelServer, completion, response, says, write_pairs, write_plan

WORKERS = 32


def run(quarry, plan, *options):
    """Seconds of wall time, of processor time, and the maximum memory in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen([quarry, "judge", "run", plan, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"judge run ended with {process.returncode}: {errors}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(quarry, name, n_pairs, clear):
    with tempfile.TemporaryDirectory() as directory:
        write_pairs(directory, range(n_pairs))
        cpu, times = [0.0], []

        def script(request):
            begin = time.thread_time()
            answer = response(completion(says(request, clear=lambda _: clear)))
            cpu[0] += time.thread_time() - begin
            times.append(time.perf_counter())
            return answer

        with ModelServer(script) as server:
            plan = write_plan(directory, server.url, model=f"concurrency = {WORKERS}")
            wall, used, memory = run(quarry, plan)
            begin, end = times[0], times[-1]
        size = (Path(directory) / "plan.ledger").stat().st_size / (1 << 20)
        print(
            f"{n_pairs} {name} pairs: {n_pairs / (end - begin):.0f} a second from the first answer to the last; {wall:.1f} s"
            f" in all, {used:.1f} s of processor time and {cpu[0]:.1f} s of the model's, at most {memory:.0f} MiB of"
            f" memory; {server.count} questions; the ledger has {size:.0f} MiB"
        )


def prepare(quarry, n_pairs):
    with tempfile.TemporaryDirectory() as directory:
        write_pairs(directory, range(n_pairs))
        plan = write_plan(directory, "http://127.0.0.1:1/v1")
        for name in ["new", "known"]:
            wall, used, memory = run(quarry, plan, "--dry-run")
            print(f"a plan of {n_pairs} {name} pairs is ready in {wall:.1f} s, with at most {memory:.0f} MiB of memory")


def main(quarry, clear=20000, unclear=600, large=1000000):
    for count in {int(clear) // 10, int(clear)}:
        measure(quarry, "clear", count, True)
    measure(quarry, "unclear", int(unclear), False)
    prepare(quarry, int(large))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
