"""Kills workers of `quarry judge run --nats` at random moments, and checks that nothing is lost or done twice.

PAIRS pairs are judged once in one process, and once more with a new ledger by three workers over a NATS server, all on
this machine. Meanwhile workers are killed (SIGKILL) and started again KILLS times, the NATS server is killed and started
again once, and so is the judging process. Exits with 1 at the first violation of:

- the final ledger equals the undisturbed one, pair by pair: the verdict with its reason, and each question, answer and
  program that led to it;
- no question is asked again whose answer was in the ledger, or came long enough before the death of the worker that had
  it to be stored: a question is repeated only if a worker was killed while it was under way;
- no key is in the files of the NATS server;
- what is booked is at least what the model's server counted, and at most that and the worst case of each call that was
  cut off.

    python kill_workers.py QUARRY [KILLS] [PAIRS] [SEED]
"""

import asyncio
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from kill_judge import story
from scripted_model import TOKENS, ModelServer, completion, expected, response, says, write_pairs, write_plan
from workers import Nats, Process, nats_server, repetitions, worker

WORKERS, QUESTIONS = 3, 4
ANSWER_SECONDS = 0.05
KEY = "sk-bench-key-that-no-message-may-hold"


def main(quarry, kills=30, n_pairs=300, seed=7):
    kills, n_pairs, draw = int(kills), int(n_pairs), random.Random(int(seed))
    if nats_server() is None:
        print("SKIPPED: nats-server is not installed")
        return
    asked, deaths = defaultdict(list), []

    def script(request):
        answer, begin = response(completion(says(request))), time.monotonic()
        asked[request.body].append([begin, begin + ANSWER_SECONDS])

        def later(transport):
            asyncio.get_running_loop().call_later(ANSWER_SECONDS, transport.write, answer)

        return later

    with tempfile.TemporaryDirectory() as directory, ModelServer(script) as server:
        directory = Path(directory)
        write_pairs(directory, range(n_pairs))
        plan = write_plan(directory, server.url, first="workers = 12", model="concurrency = 12")
        ledger, calm = directory / "plan.ledger", directory / "calm.ledger"
        subprocess.run([quarry, "judge", "run", plan, "--ledger", calm], check=True, capture_output=True)
        n_questions = server.count
        if n_questions != len(asked):
            sys.exit("the undisturbed run asked twice")
        asked.clear()

        nats = Nats(directory / "nats")
        more = ["--questions", QUESTIONS, "--programs", 2, "--lease", 3]
        team = [worker(quarry, nats, f"{server.url}=BENCH_KEY", *more, BENCH_KEY=KEY) for _ in range(WORKERS)]
        judge = Process([quarry, "judge", "run", plan, "--nats", nats.url])
        begin = time.monotonic()
        # Numbers of killed workers after which the server, and the judging process, are killed.
        server_dies, judge_dies = kills // 3, 2 * kills // 3
        killed = 0
        while judge.process.poll() is None and killed < kills:
            before = server.count
            deadline = time.monotonic() + 30
            while server.count == before and judge.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.4))
            victim = draw.choice(team)
            deaths.append(time.monotonic())
            victim.kill()
            deaths.append(time.monotonic())
            victim.start()
            killed += 1
            if killed == server_dies:
                nats.kill()
                time.sleep(0.5)
                nats.start()
            if killed == judge_dies:
                judge.kill()
                judge.start()
        errors = judge.process.communicate(timeout=300)[1].decode()
        took = time.monotonic() - begin
        if judge.process.returncode:
            sys.exit(f"judging ended with {judge.process.returncode}: {errors}")
        for member in team:
            member.stop()
        nats.kill()

        (verdicts, events), (calm_verdicts, calm_events) = story(ledger), story(calm)
        if verdicts != calm_verdicts or events != calm_events:
            sys.exit("the ledger differs from that of an undisturbed run")
        if {int(pair): outcome for pair, outcome, *_ in verdicts} != {number: expected(number) for number in range(n_pairs)}:
            sys.exit("a label is not what the model said")
        repeated = repetitions(asked.values(), deaths)
        if len(asked) != n_questions or repeated > killed * QUESTIONS:
            sys.exit(f"{len(asked)} questions were asked, expected {n_questions}; {repeated} repeated")
        if any(KEY.encode() in path.read_bytes() for path in (directory / "nats").rglob("*") if path.is_file()):
            sys.exit("the NATS server has the key")
        rows = sqlite3.connect(ledger)
        spent = rows.execute("SELECT sum(tokens) FROM call_ends").fetchone()[0]
        cut_off, worst = rows.execute(
            "SELECT count(*), coalesce(sum(worst_tokens), 0) FROM calls WHERE call NOT IN (SELECT call FROM call_ends)"
        ).fetchone()
        counted = sum(map(len, asked.values())) * TOKENS["total_tokens"]
        if spent + worst < counted:
            sys.exit(f"{spent} tokens are booked and {worst} may have been, fewer than the {counted} of the server")
        print(
            f"{killed} kills of {WORKERS} workers, one of the NATS server and one of the judging process, in {took:.1f} s:"
            f" {n_pairs} labels and their stories as undisturbed; {n_questions} questions, {repeated} of them repeated as"
            f" they were under way at a worker that died; {spent} tokens booked of {counted} that the server counted,"
            f" {cut_off} calls cut off"
        )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
