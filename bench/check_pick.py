#!/usr/bin/env python3
"""Checks `quarry pick` in a pseudo-terminal, on this repository.

    pip install pyte==0.8.2
    python3 bench/check_pick.py target/release/quarry

It types a query, moves through the results and picks one, at several sizes of the terminal; pyte, an emulator of a
terminal, renders what a user would see. --show prints it.
"""

import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parent.parent
QUERY = "IndexDirectory.lock"
FILE = "crates/index/src/index_directory.rs"
PATIENCE = 60.0


class Session:
    """`quarry pick` with its screen on a pseudo-terminal and its stdout in a pipe."""

    def __init__(self, quarry, index, columns, lines, arguments=()):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = dict(os.environ, TERM="xterm-256color", XDG_STATE_HOME=index + "-state")
        self.process = subprocess.Popen(
            [quarry, "pick", "--index", index, *arguments],
            stdin=other, stdout=subprocess.PIPE, stderr=other, cwd=ROOT, env=environment, start_new_session=True,
            # The size is asked of the terminal that a process belongs to.
            preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),
        )
        os.close(other)

    def wait_for(self, words):
        """Reads the screen until it has these words."""
        end = time.monotonic() + PATIENCE
        while not any(words in line for line in self.screen.display):
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"{words!r} is not on the screen:\n" + "\n".join(self.screen.display))
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.stream.feed(os.read(self.terminal, 65536))
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys):
        os.write(self.terminal, keys.encode())

    def end(self):
        """The exit code and what it printed."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    os.read(self.terminal, 65536)
                except OSError:
                    break
        printed = self.process.communicate(timeout=PATIENCE)[0].decode()
        os.close(self.terminal)
        return self.process.returncode, printed


def expect(condition, *found):
    if not condition:
        raise SystemExit("unexpected: " + " ".join(map(repr, found)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", help="the built binary")
    parser.add_argument("--show", action="store_true", help="print what the terminal shows")
    arguments = parser.parse_args()
    quarry = str(Path(arguments.quarry).resolve())
    with tempfile.TemporaryDirectory() as directory:
        index = str(Path(directory) / "index")
        for columns, lines in [(140, 30), (80, 24), (40, 10)]:
            session = Session(quarry, index, columns, lines)
            session.wait_for("> ")
            session.press(QUERY)
            shown = session.wait_for("index_directory.rs")
            if arguments.show:
                print(f"{columns} columns, {lines} lines\n{shown}\n")
            session.press("\x1b[B\x1b[A\r")
            code, printed = session.end()
            expect(code == 0 and printed.startswith(FILE + ":"), code, printed)
        session = Session(quarry, index, 100, 24, [QUERY, "--vi"])
        session.wait_for("index_directory.rs")
        session.press("\r")
        code, printed = session.end()
        expect(code == 0 and printed.startswith("+") and printed.endswith(f" {FILE}\n"), code, printed)
        session = Session(quarry, index, 100, 24)
        session.wait_for("Esc leaves")
        session.press("\x1b")
        expect(session.end() == (1, ""), "a picker that is left")
        refused = subprocess.run([quarry, "pick", "x"], capture_output=True, cwd=ROOT, text=True)
        expect(refused.returncode == 2 and "terminal" in refused.stderr, refused)
    print("picked in 3 sizes of the terminal, printed for vi, left, and refused without a terminal")


main()
