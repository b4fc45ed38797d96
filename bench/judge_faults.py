"""Judges PAIRS pairs with a model server that fails in every way it can, and checks that nothing is lost, repeated,
or missing from the books.

The first run has a budget that ends it about half way, the second completes the work, the third asks only about the pairs
that never get an answer. Programs run with bubblewrap. Exits with 1 at the first violation of:

- every pair has the label that the server intended, or is in the list of those without one, with a reason;
- no answer that arrived was asked for again, and each is in the ledger once;
- what the ledger books is what the server counted, to the token and to the 10⁻¹² dollar: the tokens of the answers that
  state theirs, and the maximum cost of a request if it is not known;
- the budget is never exceeded.

    python judge_faults.py QUARRY [PAIRS]
"""

import asyncio
import gzip
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from scripted_model import ModelServer, completion, expected, response, says, write_pairs, write_plan

FREE, COUNTED, WORST = "free", "counted", "worst"
NO_USAGE = json.dumps({"choices": [{"message": {"content": "preliminary_screening: 1, explanation: x"}}]})


def cut(data):
    def send(transport):
        transport.write(data)
        transport.close()

    return send


def drip(data):
    def send(transport):
        def next_byte(at):
            if at < len(data) and not transport.is_closing():
                transport.write(data[at : at + 1])
                asyncio.get_running_loop().call_later(0.1, next_byte, at + 1)

        next_byte(0)

    return send


def silent(transport):
    pass


def refusal(text):
    return completion(None, refusal=text)


# What replaces the first answer to a request: its name, what that costs, and how it is made of the honest
# one.
ONCE = [
    ("429 with Retry-After", FREE, lambda honest: response("{}", 429, "retry-after: 0\r\n")),
    ("429", FREE, lambda honest: response('{"error": {"message": "slow down"}}', 429)),
    ("500", WORST, lambda honest: response("oops", 500)),
    ("503", FREE, lambda honest: response("", 503)),
    ("cut in half", WORST, lambda honest: cut(response(honest)[: -len(honest) // 2])),
    ("closed without a word", WORST, lambda honest: cut(b"")),
    ("truncated JSON", WORST, lambda honest: response(honest[: len(honest) // 2])),
    ("not JSON", WORST, lambda honest: response("<html>busy</html>")),
    ("not HTTP", WORST, lambda honest: cut(b"\x00\x01 this is no web server\r\n\r\n")),
    ("another schema", WORST, lambda honest: response('{"candidates": [{"text": "yes"}]}')),
    ("no choices", COUNTED, lambda honest: response(json.dumps({**json.loads(honest), "choices": []}))),
    ("an error with status 200", WORST, lambda honest: response('{"error": {"message": "overloaded"}}')),
    ("an empty answer", COUNTED, lambda honest: response(completion(""))),
    ("UTF-16", WORST, lambda honest: response(honest.encode("utf-16"))),
    ("Latin-1", WORST, lambda honest: response(honest.replace('"content": "', '"content": "\xe9').encode("latin-1"))),
    ("packed", WORST, lambda honest: response(gzip.compress(honest.encode()))),
]
# Faults that cost the client time, and are rarer for that reason.
SLOW = [
    ("no answer", WORST, lambda honest: silent),
    ("a slow drip", WORST, lambda honest: drip(response(honest))),
    ("429 with a second to wait", FREE, lambda honest: response("{}", 429, "retry-after: 1\r\n")),
]
# Usable answers.
ODD = [
    ("the whole response twice", COUNTED, lambda honest: response(honest) + response(honest)),
    ("the text twice", COUNTED, lambda honest: response(twice(honest))),
    ("two choices", COUNTED, lambda honest: response(json.dumps({**json.loads(honest), "choices": json.loads(honest)["choices"] * 2}))),
]


def twice(honest):
    text = json.loads(honest)["choices"][0]["message"]["content"]
    return completion(text if "```" in text else f"{text}\n{text}")


class Script:
    """Decides by the number of a pair how the server fails, and keeps the books."""

    def __init__(self):
        self.tokens, self.money, self.unconfirmed, self.faults, self.answered, self.begun = 0, 0, 0, Counter(), Counter(), time.monotonic()

    def __call__(self, request):
        name, cost, answer, is_answer = self.choose(request)
        self.faults[name] += 1
        sent, written = {FREE: (0, 0), COUNTED: (100, 10), WORST: (request.worst - request.limit, request.limit)}[cost]
        self.tokens += sent + written
        self.unconfirmed += sent + written if cost is WORST else 0
        self.money += sent * 1_000_000 + written * 2_000_000
        if is_answer:
            self.answered[request.body] += 1
        return answer

    def choose(self, request):
        number, honest = request.number, completion(says(request))
        kind = number % 500
        if kind == 499:
            return "422 always", FREE, response('{"error": {"message": "no"}}', 422), False
        if kind == 498:
            return "500 always", WORST, response("oops", 500), False
        if kind in (497, 496) and (kind == 497 or request.body.count(b'"role":"user"') == 1):
            # One refuses every time, the other answers when it is asked again.
            return "refusal", COUNTED, response(refusal("I cannot help with that.")), True
        if kind == 495:
            return "no usage", WORST, response(NO_USAGE if request.step == "screener" else honest), True
        if kind % 100 < len(SLOW) and request.tries == 1:
            return *self.made(SLOW[kind % 100], honest), False
        if kind % 2 and request.tries == 1:
            return *self.made(ONCE[kind // 2 % len(ONCE)], honest), False
        if kind % 4 == 0:
            return *self.made(ODD[kind // 4 % len(ODD)], honest), True
        return "an honest answer", COUNTED, response(honest), True

    @staticmethod
    def made(fault, honest):
        name, cost, make = fault
        return name, cost, make(honest)


def judge(quarry, plan, *options):
    done = subprocess.run([quarry, "judge", "run", plan, "--json", *options], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def check(condition, *words):
    if not condition:
        sys.exit(" ".join(str(word) for word in words))


def check_books(script, status, name):
    spent = status["spent"]
    found = (spent["tokens"], round(spent["dollars"] * 1e12))
    check(found == (script.tokens, script.money), f"{name}: booked {found}, the server counted {(script.tokens, script.money)}")
    worst = status["unconfirmed"]["tokens"]
    check(worst == script.unconfirmed, f"{name}: {worst} tokens at the worst case, and nobody told {script.unconfirmed}")
    check(max(script.answered.values()) == 1, f"{name}: an answer was asked for twice")


def main(quarry, n_pairs=10000):
    n_pairs, script = int(n_pairs), Script()
    with tempfile.TemporaryDirectory() as directory, ModelServer(script, keep=True) as server:
        write_pairs(directory, range(n_pairs))
        model = "concurrency = 64\nattempts = 4\ntimeout_seconds = 4.0"
        budget = n_pairs * 700
        code, status, errors = judge(quarry, write_plan(directory, server.url, model=model, last=f"[budget]\ntokens = {budget}"))
        check(code == 2 and f"{budget} tokens" in errors, "the first run did not end with its budget:", code, errors)
        check_books(script, status, "first run")
        check(script.tokens <= budget, f"{script.tokens} tokens were spent of {budget}")
        print(f"first run: {status['pairs'] - status['waiting']} pairs, {script.tokens} of {budget} tokens spent")

        plan = write_plan(directory, server.url, model=model)
        code, status, errors = judge(quarry, plan)
        check(code == 2 and "some pairs have no verdict" in errors, "the second run ended otherwise:", code, errors)
        check_books(script, status, "second run")

        ledger = sqlite3.connect(Path(directory) / "plan.ledger")
        labels = dict(ledger.execute("SELECT id, outcome FROM verdicts JOIN pairs USING (pair)").fetchall())
        open_pairs = {number for number in range(n_pairs) if number % 500 in (497, 498, 499)}
        for number in set(range(n_pairs)) - open_pairs - {number for number in range(n_pairs) if number % 500 == 495}:
            check(labels.get(str(number)) == expected(number), f"pair {number} is {labels.get(str(number))}")
        stored = ledger.execute("SELECT count(*), count(DISTINCT messages) FROM answers").fetchone()
        check(stored == (len(script.answered),) * 2, f"{len(script.answered)} answers were sent, {stored} are in the ledger")

        listed = subprocess.run([quarry, "judge", "status", plan, "--json", "--all"], capture_output=True, text=True, check=True)
        listed = {int(pair): reason for pair, reason in json.loads(listed.stdout)["unresolved"]}
        check(set(listed) == open_pairs, "listed without a label:", sorted(set(listed) ^ open_pairs))
        for number, reason in listed.items():
            words = {497: "cannot be read", 498: "status 500", 499: "status 422"}[number % 500]
            check(words in reason, f"pair {number}: {reason}")
        asked = server.count
        code, status, errors = judge(quarry, plan)
        check_books(script, status, "third run")
        again = {request.number % 500 for request in server.asked[asked:]}
        check(again <= {498, 499}, "the third run asked about", again)
        print(
            f"second run: {len(labels)} verdicts, {len(listed)} pairs without a label, all listed; {asked} questions,"
            f" {stored[0]} answers; {script.tokens} tokens booked as the server counted"
        )
        for name, count in script.faults.most_common():
            print(f"{count:8} {name}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
