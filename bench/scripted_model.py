"""Model servers on loopback, in OpenAI's form, for the scripts beside it and for those that record examples.

`serve_answers` serves any function of the messages. `ModelServer` is for judging pairs: it knows the prompts of the
agents by words in them, and a pair by the number in its code, `subject27`; what it says is defined by `says`, so that a
label is known without a model. A script may replace an answer by a fault. It records the requests, and counts tokens
itself.
"""

import asyncio
import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOKENS = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
# The client's allowance for tokens that it cannot see (HIDDEN_TOKENS in crates/llm/src/wire).
HIDDEN_TOKENS = 512

NUMBER = re.compile(rb"subject(\d+)")
LIMIT = re.compile(rb'"max_tokens":(\d+)')
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
STEPS = [(b"a package is missing", "fixer"), (b"preliminary_screening", "screener"), (b"You write tests", "generator")]


class Request:
    """A request. The answer may have `limit` tokens, and `worst` is the worst case that the client has to assume for
    both directions; `tries` is the number of requests with the same body so far."""

    def __init__(self, body, tries):
        self.body, self.tries = body, tries
        found = NUMBER.search(body)
        self.number = int(found.group(1)) if found else None
        self.step = next((name for words, name in STEPS if words in body), "arbiter")
        self.limit = int(LIMIT.search(body).group(1))
        self.worst = len(body) + HIDDEN_TOKENS + self.limit


def completion(text, **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **more}, "finish_reason": "stop"}
    return json.dumps({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": TOKENS})


def response(body, status=200, headers=""):
    body = body if isinstance(body, bytes) else body.encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def is_clear(number):
    return number % 3 != 2


def says(request, program="def subject(): pass\nassert True\n", clear=is_clear):
    """Of every three pairs, the first is a clear yes and the second a clear no. A program is written for the third, and
    every second of those is a yes then."""
    number = request.number
    if request.step == "screener":
        value = ("1", "0")[number % 3 % 2] if clear(number) else "0.5"
        return f"preliminary_screening: {value}, explanation: e{number}"
    if request.step == "generator":
        return f"```python\n# subject{number}\n{program}```"
    if request.step == "fixer":
        return "pip install PyYAML"
    return f"final_verdict: {number // 3 % 2}, final_explanation: e{number}"


def expected(number):
    return (["yes", "no"] + [["no", "yes"][number // 3 % 2]])[number % 3]


def serve_answers(answer, port=0):
    """Serves `answer(messages)`, a text, in a separate thread until the returned server is shut down. Tokens are counted
    as four bytes each."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            request = self.rfile.read(int(self.headers["content-length"]))
            text = answer(json.loads(request)["messages"])
            usage = {"prompt_tokens": len(request) // 4, "completion_tokens": len(text.encode()) // 4}
            choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            body = json.dumps({"choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class ModelServer:
    """Serves in a separate thread while it is entered. `script(request)` returns the response: its bytes,
    or a function that is called with the transport of the connection."""

    def __init__(self, script, keep=False):
        self.script, self.keep = script, keep
        self.count, self.asked, self.tries = 0, [], Counter()

    def __enter__(self):
        self.loop, started = asyncio.new_event_loop(), threading.Event()

        def serve():
            asyncio.set_event_loop(self.loop)
            listen = self.loop.create_server(lambda: Connection(self), "127.0.0.1", 0, backlog=1000)
            self.server = self.loop.run_until_complete(listen)
            started.set()
            self.loop.run_forever()

        self.thread = threading.Thread(target=serve, daemon=True)
        self.thread.start()
        started.wait()
        self.url = "http://127.0.0.1:{}/v1".format(self.server.sockets[0].getsockname()[1])
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def take(self, body):
        self.count += 1
        if self.keep:
            self.tries[body] += 1
        request = Request(body, self.tries[body] if self.keep else 1)
        if self.keep:
            self.asked.append(request)
        return self.script(request)


class Connection(asyncio.Protocol):
    def __init__(self, server):
        self.server, self.data = server, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            length = int(LENGTH.search(self.data, 0, end).group(1))
            if len(self.data) < end + 4 + length:
                return
            body, self.data = self.data[end + 4 : end + 4 + length], self.data[end + 4 + length :]
            answer = self.server.take(body)
            if callable(answer):
                answer(self.transport)
            else:
                self.transport.write(answer)


def write_pairs(directory, numbers, code="def subject{}(): pass"):
    with open(Path(directory) / "pairs.jsonl", "w") as file:
        for number in numbers:
            pair = {"pair-idx": number, "query-idx": number // 4, "query": f"question {number // 4}"}
            print(json.dumps({**pair, "code-idx": number, "code": code.format(number)}), file=file)


def write_plan(directory, url, first="", model="", last=""):
    """Writes a plan with additional lines: before and in its table of the model, and tables after it."""
    plan = Path(directory) / "plan.toml"
    plan.write_text(
        f"pairs = ['pairs.jsonl']\nlanguage = 'python'\n{first}\n[model]\nprovider = 'openai-compatible'\n"
        f"base_url = '{url}'\nmodel = 'm'\ninput_price = 1.0\noutput_price = 2.0\n{model}\n{last}\n"
    )
    return plan
