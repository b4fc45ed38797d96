"""Kills `quarry judge run` at random moments and checks that nothing is lost, paid for twice or left over.

PAIRS pairs are judged once undisturbed, and once more with a new ledger by runs that are killed (SIGKILL) KILLS times,
each after a random time, and then by one that comes to its end. The test programs run with bubblewrap, and each starts
a process that would outlive it. Exits with 1 at the first violation of:

- after a kill, the ledger can be read, and no process of a program is left;
- no question whose answer was in the ledger is asked again, and between two starts no more questions are repeated than
  there are workers, each of them one that was on its way;
- the final ledger equals the undisturbed one, pair by pair: the verdict with its reason, and each question, answer and
  program that led to it;
- what is booked is what the server counted, and for each interrupted call its worst case.

    python kill_judge.py QUARRY [KILLS] [PAIRS] [SEED]
"""

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripted_model import TOKENS, ModelServer, completion, expected, response, says, write_pairs, write_plan

WORKERS = 8
# If the model answered at once, a kill would rarely hit a call in flight.
ANSWER_SECONDS = 0.01
# Maximum time for processes to end, and time without a request after which none of the killed run is on its way, both on
# a busy machine.
PATIENCE_SECONDS, QUIET_SECONDS = 30, 0.5


def story(path):
    """The verdict and the evidence of each pair."""
    ledger = sqlite3.connect(path)
    verdicts = ledger.execute("SELECT id, outcome, grade, decided_by, reason FROM verdicts JOIN pairs USING (pair)")
    events = ledger.execute(
        "SELECT id, position, events.prompt, request, text, program, result FROM events JOIN pairs USING (pair)"
        " LEFT JOIN answers USING (answer) LEFT JOIN runs USING (run)"
    )
    return sorted(verdicts.fetchall()), sorted(events.fetchall())


def messages(body):
    return json.dumps(json.loads(body)["messages"], separators=(",", ":"), ensure_ascii=False)


def stored(path):
    """The messages of the stored answers in a ledger, if it exists."""
    try:
        ledger = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        return {row[0] for row in ledger.execute("SELECT messages FROM answers")}
    except sqlite3.OperationalError as error:
        if "unable to open" in str(error) or "no such table" in str(error):
            return set()
        raise


def left_over(mark):
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in words:
            found.append(b" ".join(words).decode())
    return found


def main(quarry, kills=50, n_pairs=600, seed=7):
    kills, n_pairs, draw = int(kills), int(n_pairs), random.Random(int(seed))
    # A duration that no other process sleeps.
    mark = str(draw.uniform(300, 400) + os.getpid() / 1e6)
    program = f"import subprocess\nsubprocess.Popen(['sleep', '{mark}'])\nassert True\n"

    def script(request):
        answer = response(completion(says(request, program)))

        def later(transport):
            asyncio.get_running_loop().call_later(ANSWER_SECONDS, transport.write, answer)

        return later

    with tempfile.TemporaryDirectory() as directory, ModelServer(script, keep=True) as server:
        write_pairs(directory, range(n_pairs))
        plan = write_plan(directory, server.url, model=f"concurrency = {WORKERS}")
        ledger, calm = Path(directory) / "plan.ledger", Path(directory) / "calm.ledger"
        begin = time.perf_counter()
        subprocess.run([quarry, "judge", "run", plan, "--ledger", calm], check=True, capture_output=True)
        took = time.perf_counter() - begin
        n_questions, known, repeated, asked_before = server.count, set(), 0, set()
        server.asked.clear()

        def look():
            """Reads the ledger after a run, and compares the questions asked with the answers known before."""
            nonlocal known, repeated
            asked = [messages(request.body) for request in server.asked]
            server.asked.clear()
            if again := known.intersection(asked):
                sys.exit(f"asked again although the answer was stored: {again.pop()}")
            if len(set(asked)) < len(asked):
                sys.exit("the same question was asked twice by one run")
            repeats = [text for text in asked if text in asked_before]
            if len(repeats) > WORKERS:
                sys.exit(f"{len(repeats)} questions were repeated, and only {WORKERS} can have been on their way")
            repeated += len(repeats)
            known = stored(ledger)
            asked_before.clear()
            asked_before.update(text for text in asked if text not in known)

        killed, limit = 0, took / max(kills, 1)
        while killed < kills:
            process = subprocess.Popen(
                [quarry, "judge", "run", plan], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
            )
            before = server.count
            pause = draw.uniform(0, 2.5 * limit)
            # Timed from the first question, so that most kills hit a run at work.
            if draw.random() < 0.9:
                while server.count == before and process.poll() is None:
                    time.sleep(0.001)
            time.sleep(pause)
            ended = process.poll()
            if ended is not None:
                errors = process.stderr.read().decode()
                if ended or len(story(ledger)[0]) < n_pairs:
                    sys.exit(f"a run ended with {ended}: {errors}")
                break
            process.kill()
            process.wait()
            killed += 1
            deadline = time.monotonic() + PATIENCE_SECONDS
            while (left := left_over(mark.encode())) and time.monotonic() < deadline:
                time.sleep(0.01)
            if left:
                sys.exit(f"kill {killed} left {left}")
            # Requests of the run may still be in the server's sockets.
            count = None
            while count != server.count:
                count = server.count
                time.sleep(QUIET_SECONDS)
            look()
        last = subprocess.run([quarry, "judge", "run", plan, "--json"], check=True, capture_output=True, text=True)
        look()
        (verdicts, events), (calm_verdicts, calm_events) = story(ledger), story(calm)
        if verdicts != calm_verdicts or events != calm_events:
            sys.exit("the ledger differs from that of an undisturbed run")
        if {int(pair): outcome for pair, outcome, *_ in verdicts} != {number: expected(number) for number in range(n_pairs)}:
            sys.exit("a label is not what the model said")
        rows = sqlite3.connect(ledger)
        ends = rows.execute("SELECT count(*), sum(tokens) FROM call_ends").fetchone()
        open_calls, worst = rows.execute(
            "SELECT count(*), coalesce(sum(worst_tokens), 0) FROM calls WHERE call NOT IN (SELECT call FROM call_ends)"
        ).fetchone()
        if ends != (n_questions, n_questions * TOKENS["total_tokens"]):
            sys.exit(f"{ends[0]} calls with {ends[1]} tokens have ended, expected {n_questions}")
        spent = json.loads(last.stdout)["spent"]["tokens"]
        if spent != ends[1] + worst or open_calls > killed * WORKERS or repeated > open_calls:
            sys.exit(f"{spent} tokens are booked, {ends[1]} were counted and {worst} may have been; {repeated} of {open_calls}")
        print(
            f"{killed} kills in a run that takes {took:.1f} s: {n_pairs} labels and their stories as undisturbed;"
            f" {n_questions} questions, {repeated} of them repeated as they were on their way ({open_calls} calls were cut"
            f" off); no process left over"
        )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
