"""Prints what each tree-sitter grammar adds to the program: bytes of its parser's tables and code, and of its scanner.

    python3 bench/grammar_sizes.py target/release/quarry

The program must have its symbols, as `cargo build --release` leaves it. The symbol table lists the local symbols of each
C file below the name of the file; the grammar of a `parser.c` is known by its global function `tree_sitter_X`,
which follows the file's other functions. Relocations are not counted (24 bytes for each pointer of a
table). Needs readelf.
"""

import re
import subprocess
import sys
from collections import defaultdict

SYMBOL = re.compile(r"\s*\d+:\s+([0-9a-f]+)\s+(\S+)\s+(\w+)\s+(\w+)\s+\w+\s+(\S+)\s*(.*)")


def symbols(program):
    table = subprocess.run(["readelf", "-sW", program], capture_output=True, text=True, check=True).stdout
    for line in table.splitlines():
        if found := SYMBOL.match(line):
            address, size, kind, binding, section, name = found.groups()
            yield int(address, 16), int(size, 0), kind, binding, section, name.strip()


def main(program):
    files, current = [], None  # (name, bytes, addresses of functions)
    roots, scanners = {}, defaultdict(int)
    for address, size, kind, binding, section, name in symbols(program):
        if kind == "FILE":
            current = [name, 0, []]
            files.append(current)
        elif binding == "LOCAL" and current and section != "UND":
            current[1] += size
            if kind == "FUNC":
                current[2].append(address)
        elif binding != "LOCAL" and kind == "FUNC":
            if found := re.fullmatch(r"tree_sitter_(\w+?)_external_scanner_\w+", name):
                scanners[found[1]] += size
            elif found := re.fullmatch(r"tree_sitter_(\w+)", name):
                roots[found[1]] = address
    parsers = [file for file in files if file[0] == "parser.c" and file[2]]
    if not parsers:
        sys.exit(f"{program}: expected a program with its symbols, found no parser; build it with `cargo build --release`")
    rows = []
    for name, address in roots.items():
        # It is the last function of its file.
        before = [(max(at for at in file[2] if at < address), file[1]) for file in parsers if min(file[2]) < address]
        if before and address - max(before)[0] < 1 << 20:
            rows.append((max(before)[1] + scanners[name], name))
    for size, name in sorted(rows, reverse=True):
        print(f"| {name} | {size / 1e6:.2f} |")
    print(f"| all {len(rows)} | {sum(size for size, _ in rows) / 1e6:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
