"""Draws the share of questions that are answered within a number of tokens, as docs/images/tokens.svg.

Reads the files that `quarry eval repo-search TABLE --repos DIR --per-query FILE` wrote with the same --policy arguments,
whose names are given in their order; a name that begins with - is not drawn. Shares are means over repositories.

    python tokens_svg.py NAME,NAME,... FILE...
"""

import json
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 330, 50, 40, 14, 150
FEWEST, MOST = 250, 64_000
COLORS = ["#1a7f64", "#0b5cad", "#8a5a00", "#a3333d", "#6b4ba1", "#555555"]


def x(tokens):
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(tokens / FEWEST) / math.log(MOST / FEWEST)


def y(share):
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share


def main(names, files):
    read = defaultdict(list)
    for file in files:
        for line in Path(file).read_text().splitlines():
            question = json.loads(line)
            read[question["repository"]].append(question["tokens"])
    grid = [FEWEST * (MOST / FEWEST) ** (step / 120) for step in range(121)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        "<title>Share of questions answered within a number of tokens</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path d="M{LEFT} {y(share):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{share:g}</text>')
    for tokens in (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000):
        label = f"{tokens // 1000}k" if tokens >= 1000 else tokens
        parts.append(f'<text x="{x(tokens):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">tokens read</text>')
    drawn = []
    for position, name in enumerate(names.split(",")):
        if name.startswith("-"):
            continue
        shares = [
            statistics.fmean(
                statistics.fmean((row[position] or math.inf) <= tokens for row in rows) for rows in read.values()
            )
            for tokens in grid
        ]
        drawn.append((shares[-1], name, shares))
    last = HEIGHT
    for color, (end, name, shares) in zip(COLORS, sorted(drawn)):
        points = " ".join(f"{x(tokens):.1f},{y(share):.1f}" for tokens, share in zip(grid, shares))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        last = min(y(end) + 4, last - 14)
        parts.append(f'<text x="{WIDTH - RIGHT + 6}" y="{last:.1f}" fill="{color}">{name}</text>')
    print("\n".join([*parts, "</svg>"]))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
