#!/usr/bin/env python3
"""Trains the transformer of `--quality best` on functions, their documentation and the commits that changed them.

    pip install numpy==2.5.2 tokenizers==0.23.2 safetensors==0.8.0 torch==2.11.0 transformers==5.17.0
    quarry data pairs --manifest crates/embed/models/best/sources.tsv --sources CHECKOUTS \\
        --exclude-repositories EXCLUDED --out pairs.jsonl
    python3 bench/train_reranker.py commits crates/embed/models/best/sources.tsv CLONES commits.jsonl
    python3 bench/train_reranker.py prepare pairs.jsonl commits.jsonl data.npz
    python3 bench/train_reranker.py train START data.npz change.safetensors --seconds 170
    python3 bench/train_reranker.py mix ORIGINAL change.safetensors OUT --share 0.75
    quarry model convert OUT --bits 8 --texts TEXTS --out crates/embed/models/best

CLONES/owner+name/repo is a clone of each repository, which may be bare; START and ORIGINAL are directories of all-MiniLM-L6-v2.
A query is the first sentence of a function's documentation, or a commit's message; it is compared with passages of 400 bytes
below a line with the words of the path and the name, as search reads them, and the best passage counts. A batch has 16 runs of
64 functions of one repository each, so that most of what a query must be told from is close to it. Training ends after
--seconds; the speed of the machine decides how much is seen, so that a run cannot be repeated bit for bit.
"""

import argparse
import hashlib
import json
import math
import random
import re
import shutil
import subprocess
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

# Commits -------------------------------------------------------------------------------------------------------------------

DRIVERS = {
    "python": "py", "rust": "rs", "golang": "go", "java": "java", "kotlin": "kt", "csharp": "cs", "cpp": "c h cc cpp hpp",
    "php": "php", "ruby": "rb", "js": "js mjs ts tsx jsx scala swift",
}  # fmt: skip
JS = (
    r"^[ \t]*((export[ \t]+)?(default[ \t]+)?(async[ \t]+)?(function|class|def|func)[ \t*]+[A-Za-z_$].*"
    r"|(public|private|protected|static|async|get|set|override|open|internal|final)?[ \t]*[A-Za-z_$][A-Za-z0-9_$]*[ \t]*\(.*\{"
    r"|(export[ \t]+)?(const|let|var)[ \t]+[A-Za-z_$][A-Za-z0-9_$]*[ \t]*=[ \t]*(async[ \t]*)?(\(|function).*)$"
)
DEFINED = re.compile(
    r"\b(?:def|fn|func|function|sub|fun)\s+(?:\([^)]*\)\s*)?([A-Za-z_$][\w$]*[?!]?)"
    r"|\b(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=\s*(?:async\s*)?(?:\(|function)|([A-Za-z_$~][\w$]*)\s*\("
)
ADDED = re.compile(r"\+\s*(?:[a-z]+(?:\([^)]*\))?\s+)*?(?:def|fn|func|function|fun|sub)\s")
KEYWORDS = set(
    "if for while switch catch return def function fn func sizeof elif super match with in and or not assert print "
    "synchronized using lock foreach unless".split()
)
UNUSABLE = re.compile(
    r"^(merge|revert|bump|release|version|typo|update (dep|change|read|doc|copy|version|lock)|format|lint|style|docs?\b|doc:"
    r"|readme|changelog|test(s|ing)?\b|ci\b|chore|build\b|add(ed)? (test|doc|type)|wip\b|refactor|rename|cleanup|clean up|black"
    r"|isort|ruff|pre-commit|prepare|back ?port|cherry|rustfmt|clippy|gofmt|prettier|pyupgrade|mypy|typing|annotat|apply|review"
    r"|address|minor|misc|fix(ed)? (typo|lint|test|doc|style|ci|build|warning|format|comment|spelling))",
    re.IGNORECASE,
)
TRAILER = re.compile(
    r"^\s*(signed-off-by|co-authored-by|reviewed-by|acked-by|cc|fixes|closes|refs?|change-id|tested-by|reported-by"
    r"|pull request|pr-url|bug|issue|link|see)\b[ :#].*",
    re.IGNORECASE,
)
MAXIMUM_COMMITS = 6000


def cleaned(subject: str, body: str) -> tuple[str, str]:
    """A message without its type, numbers of issues, addresses and trailers."""
    subject = re.sub(r"^\[[^\]]{1,30}\]\s*|^(feat|fix|perf|feature|bugfix)(\([^)]*\))?!?:\s*", "", subject.strip(), flags=re.I)
    subject = re.sub(r"\s*\(?(GH-|PR ?)?#\d+\)?\.?", "", subject).strip()
    lines = [re.sub(r"https?://\S+|\(?#\d+\)?", "", line).rstrip() for line in body.split("\n") if not TRAILER.match(line)]
    return subject, "\n".join(lines).strip()[:1200]


def defined(text: str) -> list[str]:
    names = (next(group for group in found.groups() if group) for found in DEFINED.finditer(text))
    return [name for name in names if name not in KEYWORDS]


def messages(repository: str, clones: Path, attributes: Path) -> list[dict]:
    """Messages of commits that changed up to six functions, which git names in the headers of hunks."""
    command = ["git", "-C", str(clones / repository.replace("/", "+") / "repo"), "-c", f"core.attributesFile={attributes}"]
    command += ["-c", f"diff.js.xfuncname={JS}", "log", "-n", str(MAXIMUM_COMMITS), "--no-merges", "--no-renames", "-p", "-U0"]
    command += ["--no-color", "--format=%x01%an%x02%s%x02%b%x03", "--"]
    command += [f"*.{ending}" for endings in DRIVERS.values() for ending in endings.split()]
    git = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    timer = threading.Timer(60, git.kill)
    timer.start()
    found, seen, current, path = [], set(), None, None

    def finish() -> None:
        if current is None:
            return
        author, subject, body, functions, files, n_added = current
        if "[bot]" in author or not 1 <= len(functions) <= 6 or len(files) > 12 or n_added > 400 or UNUSABLE.match(subject):
            return
        subject, body = cleaned(subject, body)
        if len(subject.split()) >= 4 and len(subject) >= 18 and subject.lower() not in seen:
            seen.add(subject.lower())
            found.append({"subject": subject, "body": body, "functions": sorted(functions), "repository": repository})

    for raw in git.stdout:
        line = raw.decode("utf8", "replace")
        if line.startswith("\x01"):
            finish()
            while "\x03" not in line and (more := git.stdout.readline()):
                line += more.decode("utf8", "replace")
            author, subject, body = (line.strip("\x01\n").split("\x03")[0].split("\x02") + ["", ""])[:3]
            current = [author, subject, body, set(), set(), 0]
        elif current is None:
            continue
        elif line.startswith("+++ "):
            path = line[6:].rstrip("\n") if line.startswith("+++ b/") else None
            current[4].add(path)
        elif path and line.startswith("@@ "):
            current[3].update((path, name) for name in defined(line.split("@@", 2)[2])[:1])
        elif path and line.startswith("+"):
            current[5] += 1
            if current[5] < 400 and ADDED.match(line):
                current[3].update((path, name) for name in defined(line)[:1])
    timer.cancel()
    finish()
    git.wait()
    return found


def commits(args: argparse.Namespace) -> None:
    attributes = Path(args.out).with_suffix(".attributes").resolve()
    attributes.write_text("".join(f"*.{end} diff={name}\n" for name, ends in DRIVERS.items() for end in ends.split()))
    repositories = [line.split("\t")[0] for line in Path(args.manifest).read_text().splitlines()[1:]]
    with open(args.out, "w") as out, ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda name: messages(name, Path(args.clones), attributes), repositories):
            out.writelines(json.dumps(message) + "\n" for message in found)
    attributes.unlink()


# Token ids -----------------------------------------------------------------------------------------------------------------

MAXIMUM_DOCUMENTED, MAXIMUM_OTHER = 4000, 3000


def words(text: str) -> str:
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text))
    return " ".join(re.findall(r"[A-Za-z]+|\d+", text)).lower()


def passages(source: str) -> list[str]:
    """The first three passages, as `crates/index/src/vectors/passages.rs` cuts them."""
    rest, found = source.encode()[:1600].decode("utf8", "ignore"), []
    while rest.strip() and len(found) < 3:
        passage = rest.encode()[:400].decode("utf8", "ignore")
        if len(passage) < len(rest):
            passage = passage[: passage.rfind("\n") + 1] or passage
        found.append(passage)
        rest = rest[len(passage) :]
    return found


def prepare(args: argparse.Namespace) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(args.tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rng = random.Random(1)
    rows = [json.loads(line) for line in open(args.pairs)]
    last_name = [re.split(r"[.:#]", row["name"])[-1] for row in rows]
    index: dict[tuple, int] = {}
    for at, row in enumerate(rows):
        index.setdefault((row["repository"], row["path"], last_name[at]), at)
    changes = []
    for message in map(json.loads, open(args.commits)):
        keys = ((message["repository"], path, name) for path, name in message["functions"])
        functions = [index[key] for key in keys if key in index]
        if 1 <= len(functions) <= 4:
            changes.append((message, functions))
    wanted = Counter(at for _, functions in changes for at in functions)
    by_repository = defaultdict(lambda: ([], []))
    for at, row in enumerate(rows):
        is_documented = len(row["query"].split()) >= 3 and len(row["code"]) >= 60
        if is_documented or wanted[at]:
            by_repository[row["repository"]][not is_documented].append(at)
    kept = []
    for documented, other in by_repository.values():
        sampled = rng.sample(documented, min(len(documented), MAXIMUM_DOCUMENTED))
        kept += sorted(sampled + rng.sample(other, min(len(other), MAXIMUM_OTHER)))
    number = {at: n for n, at in enumerate(kept)}
    repositories = {name: n for n, name in enumerate(sorted({rows[at]["repository"] for at in kept}))}
    changes = [(message, [number[at] for at in functions if at in number]) for message, functions in changes]
    changes = [(message, functions) for message, functions in changes if functions]
    cut = [passages(rows[at]["code"]) for at in kept]
    queries = [rows[at]["query"].strip() for at in kept]
    texts = {
        "path": ([words(rows[at]["path"].rsplit(".", 1)[0]) for at in kept], 24),
        "name": ([words(rows[at]["name"]) for at in kept], 16),
        "piece": ([passage for of_function in cut for passage in of_function], 118),
        "query": ([query if len(query.split()) >= 3 else "" for query in queries], 48),
        "rest": ([rows[at]["doc"].strip()[:300] for at in kept], 48),
        "subject": ([message["subject"] for message, _ in changes], 40),
        "body": ([message["body"] for message, _ in changes], 100),
        "phrase": (PHRASES, 10),
    }
    arrays = {
        "piece_owner": np.array([n for n, of_function in enumerate(cut) for _ in of_function], np.uint32),
        "repo": np.array([repositories[rows[at]["repository"]] for at in kept], np.uint16),
        "commit_functions": np.array([at for _, functions in changes for at in functions], np.uint32),
        "commit_functions_end": np.cumsum([len(functions) for _, functions in changes]).astype(np.uint32),
    }
    for name, (of_name, maximum) in texts.items():
        ids = []
        for at in range(0, len(of_name), 4096):
            encoded = tokenizer.encode_batch(of_name[at : at + 4096], add_special_tokens=False)
            ids += [text.ids[:maximum] for text in encoded]
        arrays[f"{name}_end"] = np.cumsum([len(text) for text in ids]).astype(np.uint32)
        arrays[name] = np.array([token for text in ids for token in text], np.uint16)
    np.savez(args.out, **arrays)
    print(f"{len(kept)} functions, {len(changes)} commits, {len(arrays['piece_owner'])} passages")


# Training ------------------------------------------------------------------------------------------------------------------

PHRASES = [
    "how to", "how does it", "where does the code", "function that", "how do we", "code to", "what", "which function",
    "where is it that we", "how is it done:", "find",
]  # fmt: skip
CLS, SEP = 101, 102


class Data:
    """Draws queries and the passages of functions."""

    def __init__(self, path: str):
        with np.load(path) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.repo = self.arrays["repo"]
        n = len(self.repo)
        owner = self.arrays["piece_owner"]
        self.first, self.last = np.searchsorted(owner, np.arange(n)), np.searchsorted(owner, np.arange(n), side="right")
        self.documented = np.diff(np.concatenate([[0], self.arrays["query_end"]])) >= 4
        self.commits: list[list[int]] = [[] for _ in range(n)]
        ends = self.arrays["commit_functions_end"]
        for commit, end in enumerate(ends):
            for function in self.arrays["commit_functions"][ends[commit - 1] if commit else 0 : end]:
                self.commits[function].append(commit)
        changed = np.array([bool(commits) for commits in self.commits])
        usable = np.flatnonzero((self.documented | changed) & (self.last > self.first))
        n_repositories = int(self.repo.max()) + 1
        held_out = set(np.random.default_rng(1).permutation(n_repositories)[: max(1, n_repositories // 25)].tolist())
        of_repository = [usable[self.repo[usable] == number] for number in range(n_repositories)]
        self.held_out = [functions for number, functions in enumerate(of_repository) if number in held_out]
        self.train = [fs for number, fs in enumerate(of_repository) if number not in held_out and len(fs) >= 64]
        weight = np.array([len(functions) for functions in self.train]) ** 0.8
        self.weight = weight / weight.sum()

    def ids(self, name: str, at: int) -> np.ndarray:
        ends = self.arrays[f"{name}_end"]
        return self.arrays[name][ends[at - 1] if at else 0 : ends[at]].astype(np.int64)

    def query(self, at: int, rng, plain: bool = False) -> tuple[np.ndarray, bool]:
        """Token ids, and whether they are documentation; `plain` ones are not varied."""
        by_documentation = self.documented[at] and (plain or not self.commits[at] or rng.random() >= 0.4)
        if not by_documentation:
            commit = self.commits[at][rng.integers(len(self.commits[at]))]
            body = self.ids("body", commit) if rng.random() < 0.5 else []
            return np.concatenate([self.ids("subject", commit), body]).astype(np.int64), False
        query = self.ids("query", at)
        if not plain:
            if rng.random() < 0.15:
                query = np.concatenate([self.ids("phrase", rng.integers(len(PHRASES))), query])
            if rng.random() < 0.15:
                name = set(self.ids("name", at).tolist())
                without_name = np.array([token for token in query if token not in name])
                query = without_name if len(without_name) >= 4 else query
            if rng.random() < 0.1:
                query = np.concatenate([query, self.ids("rest", at)])
        return query, True

    def passages(self, at: int, rng, by_documentation: bool, plain: bool = False) -> list[np.ndarray]:
        """The passages of a function; its documentation is among them unless that is the query."""
        none = np.zeros(0, np.int64)
        path = self.ids("path", at)[-14:] if plain or rng.random() < 0.85 else none
        name = self.ids("name", at) if plain or rng.random() < 0.7 else none
        found = []
        for piece in range(self.first[at], self.last[at]):
            body, added = self.ids("piece", piece), none
            if piece == self.first[at]:
                if not by_documentation and self.documented[at] and rng.random() < 0.8:
                    added = np.concatenate([self.ids("query", at), self.ids("rest", at)[:24]])
                elif by_documentation and rng.random() < 0.4:
                    added = self.ids("rest", at)
            found.append(wrapped(np.concatenate([path, name, body[:12], added, body[12:]]), 128))
        return found

    def batch(self, seed: int, size: int, group: int):
        import torch

        rng = np.random.default_rng(seed)
        functions = []
        for number in rng.choice(len(self.train), max(1, size // group), p=self.weight):
            of_repository = self.train[number]
            for start in rng.integers(0, max(1, len(of_repository) - 4), group // 4):
                functions += of_repository[start : start + 4].tolist()
        queries, documents, owner, keys = [], [], [], []
        for n, at in enumerate(functions):
            ids, by_documentation = self.query(at, rng)
            queries.append(wrapped(ids, 96))
            keys.append(int(hashlib.md5(ids.tobytes()).hexdigest()[:15], 16))
            for passage in self.passages(at, rng, by_documentation):
                documents.append(passage)
                owner.append(n)
        functions, keys = torch.tensor(functions), torch.tensor(keys)
        same = (functions[:, None] == functions[None]) | (keys[:, None] == keys[None])
        same.fill_diagonal_(False)
        return padded(queries), padded(documents), torch.tensor(owner), same


def wrapped(ids: np.ndarray, maximum: int) -> np.ndarray:
    return np.concatenate([[CLS], ids[: maximum - 2], [SEP]])


def padded(texts: list[np.ndarray]):
    import torch

    width = -(-max(map(len, texts)) // 8) * 8
    ids, mask = np.zeros((len(texts), width), np.int64), np.zeros((len(texts), width), np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def train(args: argparse.Namespace) -> None:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save_file
    from transformers import BertModel

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    torch.multiprocessing.set_sharing_strategy("file_system")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Data(args.data)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertModel.from_pretrained(args.start, add_pooling_layer=False, dtype=torch.float32, **no_dropout).to(device).train()
    start = {name: value.clone() for name, value in model.state_dict().items() if value.dtype.is_floating_point}

    def encode(ids, mask):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            hidden = model(input_ids=ids.to(device), attention_mask=mask.to(device)).last_hidden_state.float()
        mask = mask.to(device)[..., None].float()
        return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

    def scores(queries, documents, owner, n):
        cells = queries @ documents.T
        best = torch.full((len(queries), n), -1e4, device=device)
        return best.scatter_reduce(1, owner.to(device)[None].expand(len(queries), -1), cells, "amax")

    @torch.no_grad()
    def validate() -> str:
        model.eval()
        rng, found = np.random.default_rng(7), []
        for functions in data.held_out:
            queries, documents, owner, kinds = [], [], [], []
            for n, at in enumerate(functions[:500]):
                ids, by_documentation = data.query(at, rng)
                queries.append(wrapped(ids, 96))
                kinds.append(by_documentation)
                for passage in data.passages(at, rng, by_documentation, plain=True):
                    documents.append(passage)
                    owner.append(n)
            embed = lambda texts: torch.cat([encode(*padded(texts[at : at + 512])) for at in range(0, len(texts), 512)])  # noqa: E731
            cells = scores(embed(queries), embed(documents), torch.tensor(owner), len(queries))
            rank = (cells > cells.diagonal()[:, None]).sum(1) + 1
            reciprocal, kinds = (1 / rank.float()).cpu().numpy(), np.array(kinds)
            found.append([reciprocal[chosen].mean() if chosen.any() else np.nan for chosen in (kinds, ~kinds)])
        model.train()
        means = np.nanmean(np.array(found), axis=0)
        return f"held-out MRR: documentation {means[0]:.4f}, commits {means[1]:.4f} ({len(found)} repositories)"

    print("before:", validate(), flush=True)
    context = torch.multiprocessing.get_context("fork")
    queues = [context.Queue(3) for _ in range(args.workers)]

    def work(worker: int) -> None:
        torch.set_num_threads(1)
        step = worker
        while True:
            queues[worker].put(data.batch(1000 + step, args.batch, args.group))
            step += args.workers

    workers = [context.Process(target=work, args=(number,), daemon=True) for number in range(args.workers)]
    for worker in workers:
        worker.start()
    matrices, others = ([p for p in model.parameters() if (p.dim() > 1) == wanted] for wanted in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.98))
    began, step = time.monotonic(), 0
    while (share := (time.monotonic() - began) / args.seconds) < 1:
        (query_ids, query_mask), (ids, mask), owner, same = queues[step % args.workers].get()
        rate = args.rate * min(1.0, (step + 1) / 60) * 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = max(rate, args.rate * 0.01)
        cells = scores(encode(query_ids, query_mask), encode(ids, mask), owner, len(query_ids)) / args.temperature
        cells = cells.masked_fill(same.to(device), -1e4)
        own = torch.arange(len(cells), device=device)
        loss = 0.75 * F.cross_entropy(cells, own) + 0.25 * F.cross_entropy(cells.T, own)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step}, {share:.0%}, loss {loss.item():.3f}", flush=True)
    for worker in workers:
        worker.terminate()
    print("after:", validate(), f"{step} steps", flush=True)
    change = {name: (value - start[name]).half().cpu() for name, value in model.state_dict().items() if name in start}
    save_file({name: value.contiguous() for name, value in change.items()}, args.out)


def mix(args: argparse.Namespace) -> None:
    """Adds a share of the change: between the two models lies one that is better than both (Wortsman et al., 2022)."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(args.original, args.out)
    weights = load_file(f"{args.original}/model.safetensors")
    for name, change in load_file(args.change).items():
        weights[name] = weights[name].float() + args.share * change.float()
    save_file(weights, f"{args.out}/model.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(run, *positional: str) -> argparse.ArgumentParser:
        added = commands.add_parser(run.__name__)
        added.set_defaults(run=run)
        for name in positional:
            added.add_argument(name)
        return added

    command(commits, "manifest", "clones", "out")
    tokenizer = Path(__file__).resolve().parent.parent / "crates/embed/models/best/tokenizer.json"
    command(prepare, "pairs", "commits", "out").add_argument("--tokenizer", default=str(tokenizer))
    trainer = command(train, "start", "data", "out")
    trainer.add_argument("--seconds", type=float, default=170)
    trainer.add_argument("--batch", type=int, default=1024)
    trainer.add_argument("--group", type=int, default=64)
    trainer.add_argument("--rate", type=float, default=1e-4)
    trainer.add_argument("--temperature", type=float, default=0.05)
    trainer.add_argument("--workers", type=int, default=14)
    command(mix, "original", "change", "out").add_argument("--share", type=float, default=0.75)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
