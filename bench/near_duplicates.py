"""Measures how long `quarry data dedupe --same near` takes for many functions, and how much memory.

Functions in the form of CodeSearchNet are generated (`write_functions` of data_pool.py, in blocks with words of their own):
a tenth of them differ from an earlier one in one word, and have to be found. Seconds of the processor include reading the file twice, and are what other
programs disturb less than those of the clock.

    python near_duplicates.py QUARRY [NUMBER...]    # of more than 100,000, whole hundred thousands
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from data_pool import WORDS, write_functions

BLOCK = 100_000


def write_blocks(path, number):
    """As many functions, of which every block is another one with its words spelled differently."""
    write_functions(path, min(number, BLOCK))
    first = path.read_bytes()
    with path.open("ab") as file:
        for block in range(1, number // BLOCK):
            text = first
            for word in WORDS:
                text = text.replace(word.encode(), f"{word}_{block}_".encode())
            file.write(text)


def main():
    quarry = pathlib.Path(sys.argv[1]).resolve()
    numbers = [int(number) for number in sys.argv[2:]] or [BLOCK, 10 * BLOCK]
    print("| functions | MB | kept | seconds | processor, s | memory, MiB |\n|---|---|---|---|---|---|")
    for number in numbers:
        with tempfile.TemporaryDirectory() as directory:
            functions, out = pathlib.Path(directory, "functions.jsonl"), pathlib.Path(directory, "kept")
            write_blocks(functions, number)
            start = time.monotonic()
            command = [quarry, "data", "dedupe", functions, "--same", "near", "--on", "code", "--out", out]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
            seconds = time.monotonic() - start
            files = [path for path in out.rglob("*") if path.is_file()] if out.is_dir() else [out]
            kept = sum(1 for path in files for _ in path.open())
            row = [number, f"{functions.stat().st_size / 1e6:.0f}", kept, f"{seconds:.1f}",
                   f"{used.ru_utime + used.ru_stime:.1f}", f"{used.ru_maxrss / 1024:.0f}"]
            print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
