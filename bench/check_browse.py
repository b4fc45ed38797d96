#!/usr/bin/env python3
"""Checks `quarry data browse` in a pseudo-terminal, on the example in `examples/build`.

    pip install pyte==0.8.2
    python3 bench/check_browse.py target/release/quarry

It builds the example, pages through its pairs, filters and searches them, at several sizes of the terminal; pyte, an
emulator of a terminal, renders what a user would see. --show prints it.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from terminal import Session, expect

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "build"
F2, F3, F4, PAGE_DOWN, DOWN = "\x1bOQ", "\x1bOR", "\x1bOS", "\x1b[6~", "\x1b[B"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", help="the built binary")
    parser.add_argument("--show", action="store_true", help="print what the terminal shows")
    arguments = parser.parse_args()
    quarry = str(Path(arguments.quarry).resolve())
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        shutil.copytree(EXAMPLE, directory / "build", ignore=shutil.ignore_patterns("*.build"))
        subprocess.run([quarry, "data", "build", "plan.toml"], cwd=directory / "build", check=True, capture_output=True)
        built = directory / "build" / "plan.build"
        printed = subprocess.run([quarry, "data", "browse", built, "--json"], capture_output=True, text=True, check=True)
        pairs = [json.loads(line) for line in printed.stdout.splitlines()]
        positive = sum((pair["label"] or 0) > 0 for pair in pairs)
        for columns, lines in [(140, 30), (80, 24), (40, 10)]:
            session = Session([quarry, "data", "browse", built], columns, lines, directory, stdout=None)
            session.wait_for(f"{len(pairs)} pairs")
            session.press(F2)
            shown = session.wait_for("label: answers")
            session.wait_for(f"1 of {positive}, of {len(pairs)}")
            session.press(DOWN)
            session.wait_for(f"2 of {positive}, of {len(pairs)}")
            session.press(PAGE_DOWN)
            session.press("prime number")
            shown = session.wait_for("> prime number")
            session.wait_for("1 of ")
            if lines > 10:
                shown = session.wait_for("is_prime")
            if arguments.show:
                print(f"{columns} columns, {lines} lines\n{shown}\n")
            session.press(F2 + F2 + F2 + F3)
            session.wait_for("label: any   F3 lang")
            session.press("\x1b")
            code, _ = session.end()
            expect(code == 0, code)
        unknown = subprocess.run([quarry, "data", "browse", directory / "none"], capture_output=True, text=True)
        expect(unknown.returncode == 2, unknown)
    print(f"{len(pairs)} pairs were paged, filtered and searched in 3 sizes of the terminal, and printed without one")


main()
