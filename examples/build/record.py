"""Makes the recordings of this example: serves what models would say, on loopback, and lets quarry build the plan with it.

Which functions answer a query is written in ANSWERS; those of other queries are the ones that they were made of. Summaries
and written queries are made of the words in a function's name. Needed after a change of a prompt, of a source or of a
query. Needs Python 3.11.

    python3 examples/build/record.py target/release/quarry
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "bench"))

from scripted_model import serve_answers  # noqa: E402

PORT = 8766

# Queries, and the names of the functions that answer them.
ANSWERS = {
    "python reverse a sentence word by word": ["reverse_words"],
    "python check if number is prime": ["is_prime"],
    "python flatten nested list": ["flatten"],
    "python count word frequency in text": ["count_words"],
    "python remove duplicate items keep order": ["unique"],
    "golang read file into lines": ["ReadLines"],
    "typescript wait some milliseconds": ["sleep"],
    "python get the average of numbers": ["mean", "average"],
    "python split list into parts": ["chunks"],
    "python swap dictionary keys and values": ["invert_dict"],
    "python string without vowels": ["remove_vowels"],
    "sha256 of a file in go": ["Checksum"],
}


# Of these functions little is said in the query that is written for them, so that it is removed.
VAGUE = ["chunks", "Exists"]

# A query must not be the name of its function: what is asked instead for names of one word.
ASKED = {"fibonacci": "fibonacci numbers", "mean": "mean of numbers", "median": "median of numbers", "unique": "unique items"}

# Plans, the files that name their recordings, and these.
BUILDS = [("plan.toml", "judge.toml", "recording.jsonl"), ("written.toml", "written.toml", "written.jsonl")]


def words(code):
    """The words in the name of the first function of a code."""
    name = re.search(r"(?:def|func(?: \([^)]*\))?) (\w+)", code)[1]
    return name, re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", name).lower()


def written(system, text):
    """What is written for a function, or None if the question is another one."""
    if system.startswith("You document"):
        return f"Does this with what it is given: {words(text)[1]}."
    if "documentation says" in system:
        return "Opens a file for reading; its name must be given."
    if "search engine" in system:
        name, query = words(text)
        if name in VAGUE:
            query = "helper"
        query = ASKED.get(name, query)
        return json.dumps({"Query": query if "keywords" in system else f"how to {query}"})
    if system.startswith("Say how well"):
        is_vague = words(text)[0] in VAGUE
        why = "It does less than half." if is_vague else "It does that."
        return json.dumps({"explanation": why, "related_score": "1" if is_vague else "3"})
    return None


def answer(messages):
    text = written(messages[0]["content"], messages[-1]["content"])
    if text is not None:
        return text
    texts = messages[-1]["content"]
    names = [name for query, names in ANSWERS.items() if query in texts for name in names]
    is_answer = any(f" {name}(" in texts or f" {name}<" in texts for name in names)
    why = "It does what is asked for." if is_answer else "It does something else."
    return json.dumps({"analysis": why, "judgement": "yes" if is_answer else "no"})


def main():
    quarry = pathlib.Path(sys.argv[1]).resolve()
    server = serve_answers(answer, PORT)
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory, "build")
        shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("*.build"))
        for plan, names_recording, recording in BUILDS:
            text = (copy / names_recording).read_text()
            (copy / names_recording).write_text(text.replace("replay =", "record ="))
            (copy / recording).unlink(missing_ok=True)
            subprocess.run([quarry, "data", "build", copy / plan], check=True)
            lines = sorted((copy / recording).read_text().splitlines())
            (HERE / recording).write_text("\n".join(lines) + "\n")
    server.shutdown()


if __name__ == "__main__":
    main()
