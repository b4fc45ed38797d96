"""Makes pairs.json and recording.jsonl of this example from cases.toml.

It serves the answers that are written there as a model would, on loopback, and lets quarry judge the pairs with it and
record them. Needed after a change of a prompt or of a case. Tokens are counted as four bytes each. Needs Python 3.11.

    python3 examples/judging/record.py target/release/quarry
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "bench"))

from scripted_model import serve_answers  # noqa: E402

PORT = 8765


def read_cases():
    cases = tomllib.loads((HERE / "cases.toml").read_text())["case"]
    for case in cases:
        case["code"] = case["code"].strip("\n") + "\n"
        if "program" in case:
            case["program"] = case["program"].strip("\n") + "\n"
    return cases


def write_pairs(cases):
    queries, codes, pairs = {}, {}, []
    for number, case in enumerate(cases):
        pair = {
            "pair-idx": number,
            "query-idx": queries.setdefault(case["query"], len(queries)),
            "query": case["query"],
            "code-idx": codes.setdefault(case["code"], len(codes)),
            "code": case["code"],
            "label": case["label"],
        }
        if "language" in case:
            pair["language"] = case["language"]
        pairs.append(pair)
    lines = ",\n".join(json.dumps(pair) for pair in pairs)
    (HERE / "pairs.json").write_text(f"[\n{lines}\n]\n")


def answer(cases, messages):
    """What the model says, by the prompt that asks and the pair that it asks about."""
    task, texts = messages[0]["content"], messages[1]["content"]
    if "a package is missing" in task:
        return next(case["packages"] for case in cases if case.get("program", "\0") in texts)
    case = next(case for case in cases if case["query"] in texts and case["code"] in texts)
    if "preliminary_screening" in task:
        return f"preliminary_screening: {case['screen']}, explanation: {case['why']}"
    if "You write tests" in task:
        fence = case.get("language", "python")
        return f"```{fence}\n{case['program']}```"
    return f"final_verdict: {case['verdict']}, final_explanation: {case['verdict_why']}"


def main():
    quarry = pathlib.Path(sys.argv[1]).resolve()
    cases = read_cases()
    write_pairs(cases)
    server = serve_answers(lambda messages: answer(cases, messages), PORT)
    with tempfile.TemporaryDirectory() as directory:
        recording = pathlib.Path(directory, "recording.jsonl")
        plan = (HERE / "plan.toml").read_text()
        plan = plan.replace('replay = "recording.jsonl"', f"record = {json.dumps(str(recording))}")
        plan = plan.replace('"pairs.json"', json.dumps(str(HERE / "pairs.json")))
        pathlib.Path(directory, "plan.toml").write_text(plan)
        subprocess.run([quarry, "judge", "run", pathlib.Path(directory, "plan.toml")], check=True)
        lines = sorted(recording.read_text().splitlines())
        (HERE / "recording.jsonl").write_text("\n".join(lines) + "\n")
    server.shutdown()


if __name__ == "__main__":
    main()
