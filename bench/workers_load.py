"""Measures how many pairs per second one, two and three workers judge over a NATS server, beside one process without.

Everything is on one machine, so this shows the cost of workers, not the gain from more machines: with a model that
answers at once, the rate is that of the processors, which workers, server and model share; with one that takes its time,
it is that of the questions that may be asked at the same time, QUESTIONS for each worker and for the process without.
Clear pairs are decided by one question; for each unclear one a program is written too, run with bubblewrap, and judged.

    python workers_load.py QUARRY [CLEAR] [UNCLEAR]
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripted_model import ModelServer, completion, response, says, write_pairs, write_plan
from workers import Nats, nats_server, worker

QUESTIONS = 8
SLOW_SECONDS = 0.25


def measure(quarry, n_pairs, clear, delay, n_workers):
    """Pairs per second, from the first answer to the last."""
    times = []

    def script(request):
        answer = response(completion(says(request, clear=lambda _: clear)))

        def give(transport):
            times.append(time.perf_counter())
            transport.write(answer)

        return lambda transport: asyncio.get_running_loop().call_later(delay, give, transport)

    with tempfile.TemporaryDirectory() as directory, ModelServer(script) as server:
        write_pairs(directory, range(n_pairs))
        slots = QUESTIONS * max(n_workers, 1)
        plan = write_plan(directory, server.url, first=f"workers = {2 * slots}", model=f"concurrency = {slots}")
        command, team = [quarry, "judge", "run", plan], []
        if n_workers:
            nats = Nats(Path(directory) / "nats")
            command += ["--nats", nats.url]
            team = [worker(quarry, nats, server.url, "--questions", QUESTIONS) for _ in range(n_workers)]
        judged = subprocess.run(command, capture_output=True, text=True)
        if judged.returncode:
            sys.exit(judged.stderr)
        for member in team:
            member.stop()
        if n_workers:
            nats.kill()
        return n_pairs / (times[-1] - times[0])


def main(quarry, clear=2000, unclear=200):
    if nats_server() is None:
        print("SKIPPED: nats-server is not installed")
        return
    for kind, count, delay in [
        ("clear", int(clear), 0),
        ("unclear", int(unclear), 0),
        ("clear", int(clear) // 4, SLOW_SECONDS),
    ]:
        rates = [measure(quarry, count, kind == "clear", delay, n_workers) for n_workers in range(4)]
        model = f"a model that takes {delay} s" if delay else "a model that answers at once"
        print(
            f"{count} {kind} pairs with {model}: {rates[0]:.0f} a second in one process; over NATS "
            + ", ".join(f"{rate:.0f} with {n + 1}" for n, rate in enumerate(rates[1:]))
        )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
