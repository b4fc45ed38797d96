#!/usr/bin/env python3
"""Puts the pictures of each page at three widths side by side, as docs/reference/pages.md shows them.

    pip install pillow==13.0.0
    python3 bench/check_browser.py target/release/quarry --screenshots SHOTS
    python3 bench/page_sheets.py SHOTS docs/images/pages
"""

import argparse
from pathlib import Path

from PIL import Image

# The pages, and those that are shown in dark colors.
PAGES = {
    "start": "light",
    "building": "light",
    "results": "light",
    "explanation": "dark",
    "file": "light",
    "similar": "light",
    "calls": "light",
    "related": "light",
    "history": "light",
    "label": "light",
    "test-result": "light",
    "label-progress": "light",
    "label-disagreements": "light",
    "judge-status": "light",
    "report": "light",
    "report-queries": "dark",
    "report-card": "light",
}
SCALE = 0.6
GAP = 12
COLORS = 64


def sheet(images: list[Image.Image]) -> Image.Image:
    scaled = [image.resize((int(image.width * SCALE), int(image.height * SCALE)), Image.LANCZOS) for image in images]
    width = sum(image.width for image in scaled) + GAP * (len(scaled) - 1)
    whole = Image.new("RGB", (width, max(image.height for image in scaled)), "gray")
    left = 0
    for image in scaled:
        whole.paste(image, (left, 0))
        left += image.width + GAP
    return whole.quantize(COLORS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sizes = ["wide", "medium", "narrow"]
    for page, scheme in PAGES.items():
        images = [Image.open(args.shots / f"{page}-{size}-{scheme}.png").convert("RGB") for size in sizes]
        sheet(images).save(args.out / f"{page}.png", optimize=True)


if __name__ == "__main__":
    main()
