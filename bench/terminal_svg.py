"""Draws a search of this repository in a terminal, as shown in the README.

Runs the README's first `cargo run --release … -- search …` command with the given binary, in colors, and draws what it
prints as an SVG with a light and a dark scheme, of which a viewer chooses one. Lines that are too wide are truncated.

    python3 bench/terminal_svg.py QUARRY [OUT]

QUARRY is the binary, OUT the picture (docs/images/search.svg without it).
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import unicodedata
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
# Size of a character in a 14-pixel monospaced font; the text is stretched to it, whatever the font.
CELL_WIDTH, LINE_HEIGHT, MARGIN, TITLE_HEIGHT = 8.4, 20, 16, 34

STYLE = """
    text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328;
           white-space: pre; }
    .window { fill: #f6f8fa; stroke: #d0d7de; }
    .button { fill: #d0d7de; }
    .prompt { fill: #1a7f37; }
    .bold { font-weight: 700; }
    .dim { fill: #59636e; }
    .cyan { fill: #0a6c8c; }
    .yellow { fill: #9a4a00; }
    .green { fill: #1a7f37; }
    .red { fill: #cf222e; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .window { fill: #0d1117; stroke: #30363d; }
      .button { fill: #30363d; }
      .prompt, .green { fill: #3fb950; }
      .dim { fill: #9198a1; }
      .cyan { fill: #56d4dd; }
      .yellow { fill: #e3b341; }
      .red { fill: #ff7b72; }
    }
"""
CLASSES = {1: "bold", 2: "dim", 31: "red", 32: "green", 33: "yellow", 36: "cyan"}
COLORS = {"red", "green", "yellow", "cyan"}


def command():
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("cargo run --release"):
            return shlex.split(line.split(" -- ", 1)[1])
    sys.exit("README.md: expected a line that begins with: cargo run --release")


def output(quarry, arguments):
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache, "XDG_CONFIG_HOME": cache, "XDG_STATE_HOME": cache}
        environment.pop("NO_COLOR", None)
        line = [str(Path(quarry).resolve()), *arguments, "--color", "always"]
        return subprocess.run(line, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def width(text):
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def spans(line):
    """The pieces of a line with the classes of their colors, cut to the window."""
    classes, left = set(), COLUMNS
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b["):
            for code in map(int, piece[2:-1].split(";")):
                if code == 0:
                    classes = set()
                elif code in CLASSES:
                    classes = classes | {CLASSES[code]}
                else:
                    sys.exit(f"color {code} has no class here")
        elif piece and left > 0:
            if width(piece) > left:
                piece = piece[: left - 1] + "…"
            left -= width(piece)
            # Colored text is not dimmed.
            yield piece, sorted(classes - {"dim"} if classes & COLORS else classes)


def drawn(lines):
    height = TITLE_HEIGHT + LINE_HEIGHT * len(lines) + MARGIN
    total = round(2 * MARGIN + COLUMNS * CELL_WIDTH)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}" height="{height}" role="img">'
    yield "  <title>A search in a terminal</title>"
    yield f"  <style>{STYLE}  </style>"
    yield f'  <rect class="window" x="0.5" y="0.5" width="{total - 1}" height="{height - 1}" rx="8"/>'
    for n in range(3):
        yield f'  <circle class="button" cx="{20 + 18 * n}" cy="17" r="5.5"/>'
    for n, line in enumerate(lines):
        y, column = TITLE_HEIGHT + LINE_HEIGHT * (n + 0.75), 0
        for text, classes in line:
            if text.strip():
                lead = len(text) - len(text.lstrip(" "))
                x = MARGIN + CELL_WIDTH * (column + lead)
                length = CELL_WIDTH * width(text.strip(" "))
                names = f' class="{" ".join(classes)}"' if classes else ""
                yield (
                    f'  <text{names} x="{x:.1f}" y="{y:.0f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"'
                    f' xml:space="preserve">{escape(text.strip(" "))}</text>'
                )
            column += width(text)
    yield "</svg>"


def main():
    quarry = sys.argv[1] if len(sys.argv) > 1 else sys.exit(__doc__)
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/images/search.svg"
    arguments = command()
    typed = " ".join(f'"{word}"' if " " in word else word for word in ["quarry", *arguments])
    lines = [[("$ ", ["prompt"]), (typed, ["bold"])]]
    lines += [list(spans(line)) for line in output(quarry, arguments).rstrip("\n").split("\n")]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(drawn(lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
