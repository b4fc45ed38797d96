#!/usr/bin/env python3
"""Writes the results of the survey as a table, beside those that were published.

    python3 table.py labels.jsonl          # "All labels" of the organizer

A share is of the people who answered the question. Questions with several answers add up to more than 100. An average
takes the middle of each range, and the smallest number of an open one (11 searches, 6 examples). By that rule the
published shares give 2.64 examples, as published, and 7.89 searches, where the paper has 8.31 without saying how."""

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


def mean(rows, shares):
    """The mean of a question's values, weighted by shares; None without any."""
    weights = [(float(row["value"]), share) for row, share in zip(rows, shares) if row["value"]]
    total = sum(share for _, share in weights)
    return sum(value * share for value, share in weights) / total if total else None


def main():
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    found = shares(lines)
    with open(Path(__file__).with_name("published.csv"), newline="", encoding="utf-8") as published:
        print("| question | option | people | here, % | published, % |\n|---|---|---:|---:|---:|")
        rows = list(csv.DictReader(published))
        for row in rows:
            here = found.get((row["question"], row["option"]))
            share, people = (f"{here[0]:.2f}", here[1]) if here else ("-", 0)
            print(f"| {row['question']} | {row['option']}: {row['meaning']} | {people} | {share} | {row['percent']} |")
    print("\n| average | here | by the published shares | published |\n|---|---:|---:|---:|")
    for question, published in [("searches", "8.31"), ("examples", "2.64")]:
        own = [row for row in rows if row["question"] == question]
        here = mean(own, [(found.get((question, row["option"])) or (0, 0))[0] for row in own])
        theirs = mean(own, [float(row["percent"]) for row in own])
        print(f"| {question} | {'-' if here is None else f'{here:.2f}'} | {theirs:.2f} | {published} |")


if __name__ == "__main__":
    main()
