#!/usr/bin/env python3
"""Checks `quarry pick` in a pseudo-terminal, on this repository.

    pip install pyte==0.8.2
    python3 bench/check_pick.py target/release/quarry

It types a query, moves through the results and picks one, at several sizes of the terminal; pyte, an emulator of a
terminal, renders what a user would see. --show prints it.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from terminal import Session, expect

ROOT = Path(__file__).resolve().parent.parent
QUERY = "IndexDirectory.lock"
FILE = "crates/index/src/storage/index_directory.rs"


def pick(quarry, index, columns, lines, arguments=()):
    command = [quarry, "pick", "--index", index, *arguments]
    return Session(command, columns, lines, ROOT, XDG_STATE_HOME=index + "-state")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", help="the built binary")
    parser.add_argument("--show", action="store_true", help="print what the terminal shows")
    arguments = parser.parse_args()
    quarry = str(Path(arguments.quarry).resolve())
    with tempfile.TemporaryDirectory() as directory:
        index = str(Path(directory) / "index")
        for columns, lines in [(140, 30), (80, 24), (40, 10)]:
            session = pick(quarry, index, columns, lines)
            session.wait_for("> ")
            session.press(QUERY)
            shown = session.wait_for(f"{QUERY} method")
            if arguments.show:
                print(f"{columns} columns, {lines} lines\n{shown}\n")
            session.press("\x1b[B\x1b[A\r")
            code, printed = session.end()
            expect(code == 0 and printed.startswith(FILE + ":"), code, printed)
        session = pick(quarry, index, 100, 24, [QUERY, "--vi"])
        session.wait_for("index_directory.rs")
        session.press("\r")
        code, printed = session.end()
        expect(code == 0 and printed.startswith("+") and printed.endswith(f" {FILE}\n"), code, printed)
        session = pick(quarry, index, 100, 24)
        session.wait_for("Esc quits")
        session.press("\x1b")
        expect(session.end() == (1, ""), "a picker that is left")
        refused = subprocess.run([quarry, "pick", "x"], capture_output=True, cwd=ROOT, text=True)
        expect(refused.returncode == 2 and "terminal" in refused.stderr, refused)
    print("picked in 3 sizes of the terminal, printed for vi, left, and refused without a terminal")


main()
