"""Measures whether training on a repository's own documentation, or on written queries, finds more there.

From the repositories of TABLE (`bench/function-queries.tsv`: questions that people wrote about functions; the built-in model
was trained on none of these repositories) it builds two data sets by `quarry data build`: queries from documentation, and
queries written by a model, judged and split by query. The models that write and judge are scripted, on loopback: a written
query is the words of a function's name, and the judge says no to every candidate but the paired one. On the training pairs
of each, `quarry train static` trains the built-in model further, with a rate that is chosen on the dev part; one model is
trained from nothing. Measured are MRR of the questions from documentation of the test part, over the whole pool, and NDCG@10
of the questions that people wrote, by the vectors alone and as `quarry search` ranks; p-values are of a paired randomization
test over queries against the built-in model, corrected by Holm within each column. What was built in OUT before is not built again.

    python close_loop.py QUARRY CHECKOUTS OUT [--table TSV] [--repos NAME,...] [--maximum 4000]
"""

import argparse
import csv
import json
import pathlib
import random
import re
import shutil
import subprocess

from scripted_model import serve_answers

RATES, EPOCHS = (3e-4, 1e-3, 3e-3), 3
SAMPLES = 10_000

PLAN = """title = "{title}"
[pool]
languages = []
filters = ["codesearchnet"]
near_duplicates = 0.9
{sources}
[author.model]
provider = "openai-compatible"
base_url = "{url}"
model = "scripted"
concurrency = 8
[annotation]
callees = false
[[queries]]
name = "asked"
{queries}
[candidates]
encoders = ["static"]
union = ["bm25"]
k = 3
[[labels]]
kind = "pairing"
[[labels]]
kind = "judge"
path = "judge.toml"
[splits.parts]
train = 6
dev = 2
test = 2
[[exports]]
format = "beir"
[[exports]]
format = "training-pairs"
"""

JUDGE = """judge = "cosqa-plus"
[model]
provider = "openai-compatible"
base_url = "{url}"
model = "scripted"
concurrency = 8
"""


def name_of(code):
    """The words of what seems to be the name of the function."""
    found = re.search(r"(?:def|func(?:tion)?|fn|fun|sub)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)|([A-Za-z_]\w*)\s*\(", code)
    name = (found and (found[1] or found[2])) or "it"
    return re.sub(r"_+|(?<=[a-z0-9])(?=[A-Z])", " ", name).strip().lower() or "it"


def answer(messages):
    system, text = messages[0]["content"], messages[-1]["content"]
    code = text.split("<code>")[-1]
    if system.startswith("You document"):
        return f"It does this: {name_of(code)}."
    if "search engine" in system:
        return json.dumps({"Query": name_of(code)})
    if system.startswith("Say how well"):
        return json.dumps({"explanation": "It does that.", "related_score": "3"})
    return json.dumps({"analysis": "Not looked at.", "judgement": "no"})


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def p_value(pairs):
    """Two-sided, by random signs of the differences."""
    differences = [b - a for a, b in pairs]
    observed, draw = abs(sum(differences)), random.Random(42)
    differences = [d for d in differences if d]
    extreme = sum(abs(sum(d if draw.random() < 0.5 else -d for d in differences)) >= observed - 1e-12 for _ in range(SAMPLES))
    return (extreme + 1) / (SAMPLES + 1)


def holm(values):
    corrected, largest = {}, 0.0
    for rank, (name, value) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, value * (len(values) - rank)))
        corrected[name] = largest
    return corrected


class Loop:
    def __init__(self, quarry, out):
        self.quarry, self.out = quarry, out

    def per_query(self, *command):
        """The values of each query, by what tells it from others."""
        path = self.out / "per-query.jsonl"
        path.unlink(missing_ok=True)
        run(self.quarry, "eval", *command, "--per-query", path, "--json")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        values = {}
        for row in rows:
            metrics = row.get("metrics", row)
            value = next(metrics[name] for name in ("mrr", "ndcg") if name in metrics)
            values[(row.get("repository"), row["query"])] = value
        return values

    def documentation(self, benchmark, split, model):
        method = ["--method", model or "static"]
        return self.per_query(benchmark, "--split", split, "--metrics", "mrr", *method)

    def people(self, table, repositories, method, model):
        more = ["--model", model] if model else []
        return self.per_query("repo-search", table, "--repos", repositories, "--method", method, *more)

    def trained(self, name, pairs, begin, rates, dev):
        """The best of several models by the MRR of the dev part, with its rate."""
        best = None
        size = sum(1 for _ in pairs.open())
        for rate in rates:
            directory = self.out / f"model-{name}-{rate:g}"
            shutil.rmtree(directory, ignore_errors=True)
            settings = {"batch": min(256, size // 2), "batches_of": '"repository"', "epochs": EPOCHS, "rate": rate, "warm_up": 5,
                        "validation": 0.0, "ask_name": 0.0, "temperature": 0.1}
            if not begin:
                settings |= {"epochs": 20, "rate": 7e-3}
            sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
            run(self.quarry, "train", "static", "--pairs", pairs, "--out", directory, *begin, *sets)
            model = directory / "model.bin"
            mrr = mean(self.documentation(*dev, model))
            print(f"  {name} at {settings['rate']:g}: dev MRR {mrr:.4f}", flush=True)
            if best is None or mrr > best[0]:
                best = (mrr, model, settings["rate"])
        return best[1]


def mean(values):
    return sum(values.values()) / len(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry", type=pathlib.Path)
    parser.add_argument("checkouts", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path, default=pathlib.Path(__file__).with_name("function-queries.tsv"))
    parser.add_argument("--repos")
    parser.add_argument("--maximum", type=int, default=4000)
    arguments = parser.parse_args()
    quarry, out, checkouts = arguments.quarry.resolve(), arguments.out.resolve(), arguments.checkouts.resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = arguments.repos and set(arguments.repos.split(","))
    rows = list(csv.DictReader(arguments.table.open(), delimiter="\t"))
    rows = [row for row in rows if not wanted or row["repo"] in wanted]
    table = out / "questions.tsv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter="\t")
        writer.writeheader()
        writer.writerows(row for row in rows if row["relevant"])
    roots = {row["repo"]: row["root"] for row in rows}
    sources = []
    for name, root in roots.items():
        if not (out / "checkouts" / name).exists():
            (out / "checkouts").mkdir(exist_ok=True)
            subprocess.run(["cp", "-rl", checkouts / name, out / "checkouts" / name], check=True)
        path = f"checkouts/{name}/{root}".rstrip("/.")
        sources.append(f'[[sources]]\nname = "{name}"\nkind = "directory"\npath = {json.dumps(path)}\n')
    server = serve_answers(answer)
    url = f"http://127.0.0.1:{server.server_port}/v1"
    (out / "judge.toml").write_text(JUDGE.format(url=url))
    loop = Loop(quarry, out)
    built = {}
    for name, queries in [
        ("mined", f'kind = "docstrings"\nfilters = ["english"]\nmaximum = {arguments.maximum}\n'),
        ("written", f'kind = "written"\nstyles = ["keyword"]\nmaximum = {arguments.maximum}\n'),
    ]:
        plan = out / f"{name}.toml"
        plan.write_text(PLAN.format(title=name, sources="".join(sources), url=url, queries=queries))
        built[name] = out / f"{name}.build"
        # The address of the models is another one each time.
        if not (built[name] / "build.json").exists():
            run(quarry, "data", "build", plan)
        steps = json.loads((built[name] / "build.json").read_text())
        counts = {step["name"].split(" ")[0]: step["counts"] for step in steps}
        print(f"{name}: {counts['pool']['kept']} codes, {counts['merge']['queries']} queries, {counts['splits']}", flush=True)
    pairs = {name: at / "exports" / "training-pairs" / "train.jsonl" for name, at in built.items()}
    benchmark = built["mined"] / "exports" / "beir"
    # A query of the test part must not be in what is trained on: written queries of its functions would be.
    asked = {json.loads(line)["code"] for part in ("dev", "test")
             for line in (built["mined"] / "exports" / "training-pairs" / f"{part}.jsonl").open()}
    lines = [line for line in pairs["written"].open() if json.loads(line)["code"] not in asked]
    pairs["written"] = out / "written.jsonl"
    pairs["written"].write_text("".join(lines))
    pairs["both"] = out / "both.jsonl"
    pairs["both"].write_text(pairs["mined"].read_text() + pairs["written"].read_text())
    dev = (benchmark, "dev")
    models = {"built-in": None}
    for name in ("mined", "written", "both"):
        models[name] = loop.trained(name, pairs[name], ["--begin", "builtin"], RATES, dev)
    models["mined, from nothing"] = loop.trained("nothing", pairs["mined"], [], RATES[:1], dev)
    columns = {
        "documentation, MRR": lambda model: loop.documentation(benchmark, "test", model),
        "people, vectors": lambda model: loop.people(table, checkouts, "static", model),
        "people, search": lambda model: loop.people(table, checkouts, "hybrid", model),
    }
    found = {column: {name: measure(model) for name, model in models.items()} for column, measure in columns.items()}
    sizes = {name: sum(1 for _ in path.open()) for name, path in pairs.items()}
    print("\n| trained on | pairs |", " | ".join(f"{column} ({len(values['built-in'])})" for column, values in found.items()), "|")
    print("|---|---|" + "---|" * len(columns))
    corrected = {}
    for column, values in found.items():
        base = values["built-in"]
        raw = {name: p_value([(base[key], other[key]) for key in base]) for name, other in values.items() if name != "built-in"}
        corrected[column] = holm(raw)
    for name in models:
        cells = []
        for column, values in found.items():
            text = f"{mean(values[name]):.4f}"
            if name != "built-in":
                text += f" (p = {corrected[column][name]:.4f})"
            cells.append(text)
        print(f"| {name} | {sizes.get(name, sizes['mined'] if 'nothing' in name else '')} |", " | ".join(cells), "|", flush=True)
    server.shutdown()


if __name__ == "__main__":
    main()
