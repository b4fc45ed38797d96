#!/usr/bin/env python3
"""Fuzzes the HTTP API of `quarry serve` from its own description.

    pip install schemathesis==4.32.5
    python3 bench/check_api.py target/release/quarry

Schemathesis makes requests that the description of the API allows, and others that it does not, from a fixed seed. No
answer may be a failure of the server (5xx), have a status, a type or a content that the description does not have, or
accept what it forbids. The server must answer afterwards, and must not have panicked.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

FILES = {
    "src/retry.py": "from wait import pause\n\n\ndef retry(call, times):\n    for n in range(times):\n        pause(n)\n        call()\n",
    "src/wait.py": "def pause(seconds):\n    clock.sleep(seconds)\n\n\ndef rest():\n    pause(60)\n",
    "lib/http.rs": "/// Opens a connection.\npub fn connect(host: &str) -> Stream {\n    dial(host)\n}\n",
}
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
]
PATIENCE = 60
# What is there, so that what is asked for is found and not only refused.
KNOWN = """[parameters]
"path.tree" = "shop"
"path.path" = "src/wait.py"
"query.tree" = "shop"
"query.path" = "src/wait.py"
"query.line" = 1
"""


def is_ready(base):
    try:
        with urllib.request.urlopen(base + "/readyz", timeout=5) as reply:
            return reply.status == 200
    except urllib.error.URLError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", help="the built binary")
    parser.add_argument("--examples", type=int, default=150, help="requests of each kind, for each path")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "shop"
        for name, text in FILES.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        command = [args.quarry, "serve", "--listen", "127.0.0.1:0", "--index", str(Path(directory) / "index"), str(tree)]
        log = Path(directory) / "log"
        with open(log, "w") as errors:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            base = server.stdout.readline().strip().rstrip("/")
            end = time.monotonic() + PATIENCE
            while not is_ready(base):
                if time.monotonic() > end:
                    raise SystemExit(f"{base} is not ready after {PATIENCE} seconds")
                time.sleep(0.1)
            known = Path(directory) / "known.toml"
            known.write_text(KNOWN)
            program = Path(sys.executable).parent / "schemathesis"
            fuzz = [
                "run", base + "/api/v1/openapi.json",
                "--checks", ",".join(CHECKS), "--max-examples", str(args.examples), "--seed", str(args.seed),
                "--generation-database", "none", "--request-timeout", "10", "--workers", "1", "--no-color",
            ]  # fmt: skip
            environment = {**os.environ, "COLUMNS": "120"}
            commands = [program, *fuzz], [program, "--config-file", known, *fuzz, "--mode", "positive"]
            statuses = [subprocess.run(command, cwd=directory, env=environment).returncode for command in commands]
            if not is_ready(base):
                raise SystemExit("the server does not answer any longer")
        finally:
            server.send_signal(signal.SIGINT)
            ended = server.wait(timeout=PATIENCE)
        text = log.read_text()
        if ended != 0 or "panicked" in text:
            raise SystemExit(f"the server ended with {ended}:\n{text}")
    sys.exit(max(statuses))


main()
