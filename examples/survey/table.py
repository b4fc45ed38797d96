#!/usr/bin/env python3
"""Writes the results of the survey as a table, beside those that were published.

    python3 table.py labels.jsonl          # "All labels" of the organizer

A share is of the people who answered the question. Questions with several answers add up to more than 100."""

import csv
import json
import sys
from pathlib import Path


def shares(lines):
    """By question and option: the percentage of people who chose it."""
    found = {}
    for line in lines:
        answers = [annotation["label"] for annotation in line["annotations"]]
        for option in "ABCD":
            chosen = sum(option in answer for answer in answers)
            found[line["id"], option] = (100 * chosen / len(answers), len(answers)) if answers else None
    return found


def main():
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    found = shares(lines)
    with open(Path(__file__).with_name("published.csv"), newline="", encoding="utf-8") as published:
        print("| question | option | people | here, % | published, % |\n|---|---|---:|---:|---:|")
        for row in csv.DictReader(published):
            here = found.get((row["question"], row["option"]))
            share, people = (f"{here[0]:.2f}", here[1]) if here else ("-", 0)
            print(f"| {row['question']} | {row['option']}: {row['meaning']} | {people} | {share} | {row['percent']} |")


if __name__ == "__main__":
    main()
