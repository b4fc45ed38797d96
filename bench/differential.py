"""Shared by the scripts that compare the quarry binary with a library on random input."""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOLERANCE = 1e-9


class Difference(Exception):
    """Quarry and a library disagree."""


class Check:
    """Runs the binary and counts what agrees."""

    def __init__(self, quarry, directory, rng):
        self.quarry, self.directory, self.rng = quarry, directory, rng
        self.compared, self.furthest = 0, 0.0

    def write(self, name, lines):
        path = self.directory / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def run(self, *arguments):
        """The JSON that `quarry eval ARGUMENTS --json` prints."""
        command = [self.quarry, "eval", *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Difference(f"{' '.join(command[1:])}\n{done.stderr}")
        return json.loads(done.stdout)

    def equal(self, name, found, expected, tolerance=TOLERANCE):
        """Both numbers, or both undefined (None here, NaN or infinite there), and close; relative above 1."""
        if expected is not None and not math.isfinite(expected):
            expected = None
        if found is None or expected is None:
            if found is not expected:
                raise Difference(f"{name}: {found}, expected {expected}")
            return
        apart = abs(found - expected) / max(1.0, abs(expected))
        if not apart <= tolerance:
            raise Difference(f"{name}: {found}, expected {expected}, {apart:.1e} apart")
        self.compared += 1
        if tolerance == TOLERANCE:
            self.furthest = max(self.furthest, apart)


def main(description, cases, check_case):
    """Calls `check_case(check)` for seeded random cases; returns an exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry", help="path of the quarry binary")
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start, compared, furthest = time.monotonic(), 0, 0.0
    for case in range(arguments.cases):
        with tempfile.TemporaryDirectory() as name:
            check = Check(arguments.quarry, Path(name), random.Random(f"{arguments.seed}/{case}"))
            try:
                check_case(check)
            except Difference as difference:
                print(f"case {case} of seed {arguments.seed}: {difference}", file=sys.stderr)
                return 1
        compared += check.compared
        furthest = max(furthest, check.furthest)
    print(
        f"{arguments.cases} cases, {compared} numbers: agree, at most {furthest:.1e} apart, "
        f"in {time.monotonic() - start:.0f} s"
    )
    return 0


class WyRand:
    """The generator of the crate fastrand, which quarry uses for resampling."""

    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x2D358DCCAA6C78A5) & self.MASK
        product = self.state * (self.state ^ 0x8BB84B93962EACC9)
        return (product ^ (product >> 64)) & self.MASK

    def below(self, n):
        """A number below n (Lemire, 2019)."""
        while True:
            product = self.next() * n
            if product & self.MASK >= n or product & self.MASK >= (1 << 64) % n:
                return product >> 64
