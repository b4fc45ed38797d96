"""What the package does, beside the program. Run by `pytest python/tests` where both are installed."""

import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import quarry

PROGRAM = os.environ.get("QUARRY") or shutil.which("quarry")
QUERY = "wait until a lock is free"


def program(*arguments):
    found = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(found.stdout)


@pytest.fixture
def tree(tmp_path):
    """A source tree of its own, which tests may change."""
    target = tmp_path / "tree"
    target.mkdir()
    (target / "locks.py").write_text(
        "def wait_for_lock(lock, seconds):\n    while not lock.try_acquire():\n        sleep(seconds)\n\n\n"
        "def total(prices):\n    return sum(prices)\n\n\ndef report(prices):\n    print(total(prices))\n"
    )
    return target


@pytest.fixture
def index(tree, tmp_path):
    return quarry.Index.open(tree, directory=tmp_path / "index")


def test_results_are_those_of_the_program(index, tree, tmp_path):
    answer = index.search(QUERY, k=2)
    printed = program("search", QUERY, tree, "--index", tmp_path / "index", "--json", "-k", 2)
    assert [result.name for result in answer] == [result["name"] for result in printed["results"]]
    for name in ["score", "path", "start_line", "end_line", "kind", "language", "signature", "root", "parts"]:
        assert [getattr(result, name) for result in answer] == [result[name] for result in printed["results"]]
    assert answer.confidence == printed["confidence"]
    assert answer.confident == printed["confident"]
    first = answer[0]
    assert (first.name, first.start_line, first.end_line) == ("wait_for_lock", 1, 3)
    assert first.code.startswith("def wait_for_lock") and "sleep(seconds)" in first.code
    assert first.file == tree.resolve() / "locks.py"
    assert first.rank == 1 and len(answer) == 2 and answer[:1] == (first,)


def test_program_is_in_the_package(tree, tmp_path):
    arguments = [PROGRAM, "search", QUERY, os.fsencode(tree), "--index", tmp_path / "index"]
    assert subprocess.run([*arguments, "--threshold", "0"], stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert subprocess.run([*arguments, "--threshold", "1"], stdout=subprocess.DEVNULL, check=False).returncode == 1
    unknown = subprocess.run([PROGRAM, "serach"], stderr=subprocess.PIPE, check=False)
    assert unknown.returncode == 2 and b"search" in unknown.stderr
    # The model of `best` comes with it.
    shipped = program("model", "list", "--json")
    assert any(model["name"] == "best" and model["place"] == "beside" for model in shipped["models"])
    # The reader of the output may leave.
    closed = subprocess.run(f"'{PROGRAM}' languages | head -1", shell=True, stderr=subprocess.PIPE, check=False)
    assert closed.stderr == b""


def test_program_starts_without_numpy():
    loaded = "import sys, quarry._program; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], stdout=subprocess.PIPE, text=True, check=True).stdout == "False\n"


def test_program_ends_at_an_interrupt_unless_it_is_ignored(tree, tmp_path):
    def interrupted(prepare):
        command = [PROGRAM, "mcp", tree, "--index", tmp_path / "index"]
        serving = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=prepare)
        serving.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        serving.stdin.flush()
        assert serving.stdout.readline()
        # No file takes the place of a stream that was closed.
        assert os.readlink(f"/proc/{serving.pid}/fd/2") == "/dev/null"
        serving.send_signal(signal.SIGINT)
        serving.stdin.close()
        serving.stdout.close()
        return serving.wait(timeout=10)

    assert interrupted(lambda: os.close(2)) == -signal.SIGINT
    assert interrupted(lambda: (os.close(2), signal.signal(signal.SIGINT, signal.SIG_IGN))) == 0


def test_filters_and_neighbors(index, tree):
    assert not index.search(QUERY, language="rust")
    assert not index.search(QUERY, glob="!*.py")
    assert all(result.kind == "function" for result in index.search(QUERY, kind=["function"]))
    assert [result.name for result in index.search('"SUM(" kind:function')] == ["total"]
    assert index.search("sum file:locks.py").notes[0].startswith("`file:` is not a key")
    with pytest.raises(ValueError, match="regular expression"):
        index.search("/sum(/")
    with pytest.raises(ValueError, match='the kind "verb"'):
        index.search(QUERY, kind="verb")
    with pytest.raises(ValueError, match="klingon"):
        index.search(QUERY, language="klingon")
    with pytest.raises(ValueError, match="glob"):
        index.search(QUERY, glob="{a")
    assert "total" in [result.name for result in index.similar(tree / "locks.py", 10)]
    names = [result.name for result in index.similar("locks.py", 10)]
    assert names == [result.name for result in index.similar(tree / "locks.py", 10)]
    with pytest.raises(quarry.QuarryError, match="no indexed code"):
        index.similar(tree / "locks.py", 1000)
    assert [site["caller"]["name"] for site in index.callers("total")["callers"]] == ["report"]
    assert index.callees("report")["definitions"][0]["callees"][0]["name"] == "total"


def test_what_else_must_change(index, tree):
    found = index.related("total", kind="caller")
    assert [place["name"] for place in found["results"]] == ["report"]
    assert found["results"][0]["reasons"][0]["evidence"] == "calls it"
    assert found["history"][0]["problem"] == "no git repository"
    with pytest.raises(ValueError, match="expected one of test, caller"):
        index.related("total", kind="verb")
    with pytest.raises(ValueError, match="either a name or a path"):
        index.related()


def test_an_index_sees_changes_when_it_is_refreshed(index, tree):
    (tree / "new.py").write_text("def parse_http_header(line):\n    return line.split(':')\n")
    assert "parse_http_header" not in [result.name for result in index.search("parse http header")]
    assert index.refresh()
    assert index.search("parse http header")[0].name == "parse_http_header"
    assert not index.refresh()
    assert index.status[0]["fresh"]


def test_code_is_that_of_the_index_or_an_error(index, tree):
    answer = index.search(QUERY, k=1)
    (tree / "locks.py").write_text("import os\n\n\n" + (tree / "locks.py").read_text())
    assert answer[0].code.startswith("def wait_for_lock"), "read with the answer"
    changed = index.search(QUERY, k=1)[0]
    with pytest.raises(quarry.QuarryError, match=r"locks.py: changed since it was indexed"):
        changed.code
    assert repr(changed) == "<Result 1: locks.py:1-3 function wait_for_lock>"
    index.refresh()
    assert (index.search(QUERY, k=1)[0].start_line, index.search(QUERY, k=1)[0].code[:3]) == (4, "def")
    (tree / "locks.py").unlink()
    with pytest.raises(quarry.QuarryError, match="changed"):
        index.search(QUERY, k=1)[0].code


def test_an_index_can_keep_itself_fresh(tree, tmp_path):
    index = quarry.Index.open(tree, directory=tmp_path / "index", refresh=0)
    later = pickle.loads(pickle.dumps(quarry.Index.open(tree, directory=tmp_path / "index", refresh=3600)))
    (tree / "new.py").write_text("def parse_http_header(line):\n    return line.split(':')\n")
    assert index.search("parse http header")[0].code.startswith("def parse_http_header")
    assert "parse_http_header" not in [result.name for result in later.search("parse http header")]


def test_answers_are_shown_in_short_and_as_tables(index, tree):
    answer = index.search(QUERY, k=2)
    assert repr(answer).startswith("<Answer: 2 results, confident=") and len(repr(answer)) < 100
    (tree / "evil.py").write_text('def evil(text="<script>"):\n    return wait_for_lock(text)\n')
    index.refresh()
    shown = index.search("evil", k=1)._repr_html_()
    assert "evil.py:1" in shown and "<script>" not in shown and "&lt;script&gt;" in shown
    pandas = pytest.importorskip("pandas")
    frame = answer.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and list(frame["name"]) == [result.name for result in answer]
    assert frame["code"][0].startswith("def wait_for_lock")
    evaluation = quarry.evaluate(QRELS, RUN, ["mrr"])
    assert evaluation.to_dataframe()["mrr"].to_dict() == {query: of["mrr"] for query, of in evaluation.per_query.items()}


def test_context_and_outline_are_those_of_the_program(index, tree, tmp_path):
    at = [tree, "--index", tmp_path / "index", "--json"]
    assert index.context(QUERY, 500) == program("context", QUERY, *at, "--tokens", 500)["text"]
    assert index.outline(500) == program("outline", *at, "--tokens", 500)["text"]
    assert "total" not in index.outline(500, glob="!locks.py")


def test_the_settings_of_a_tree_hold_as_in_the_program(tree, tmp_path):
    (tree / ".quarry.toml").write_text('limit = 1\nthreshold = 0.99999\nmax_bytes = 1000\nvendored = false\nglobs = ["!old/**"]\n')
    for directory in ["old", "vendor"]:
        (tree / directory).mkdir()
        shutil.copy(tree / "locks.py", tree / directory / "locks.py")
    (tree / "large.py").write_text("def wait_for_large_lock(lock):\n    return lock\n" + "# padding\n" * 200)
    at = [tree, "--index", tmp_path / "index", "--json"]
    printed = program("search", QUERY, *at)
    index = quarry.Index.open(tree, directory=tmp_path / "index")
    assert index.status[0]["fresh"] and index.status[0]["holds"]["files"] == 3
    answer = index.search(QUERY)
    assert [result.path for result in answer] == [result["path"] for result in printed["results"]] == ["locks.py"]
    assert answer.confident is printed["confident"] is False
    assert len(index.search(QUERY, k=2)) == 2
    similar = program("similar", f"{tree}/locks.py:1", *at)
    assert [result.path for result in index.similar("locks.py", 1)] == [result["path"] for result in similar["results"]]
    callers = program("callers", "total", *at)
    assert [call["path"] for call in index.callers("total")["callers"]] == [call["path"] for call in callers["callers"]] == ["locks.py"]
    assert index.context(QUERY) == program("context", QUERY, *at)["text"]
    assert index.outline() == program("outline", *at)["text"]


def test_a_missing_path_is_an_error_with_its_name(tmp_path):
    with pytest.raises(quarry.QuarryError, match="missing"):
        quarry.Index.open(tmp_path / "missing")
    with pytest.raises(ValueError, match="expected auto, fast or best"):
        quarry.Index.open(tmp_path, quality="slow")


def test_a_quality_that_is_not_installed_names_the_command_that_installs_it(tree, tmp_path, monkeypatch):
    monkeypatch.setattr("quarry._index.directories", lambda: [])
    for name in ["HOME", "LOCALAPPDATA", "XDG_CACHE_HOME"]:
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(quarry.QuarryError, match="`quarry model pull best`"):
        quarry.Index.open(tree, directory=tmp_path / "index", quality="best")


WRONG_ARGUMENTS = [
    (lambda index: index.search("lock", threshold=float("nan")), ValueError, "threshold: expected a number from 0 to 1, found nan"),
    (lambda index: index.search("lock", threshold=7), ValueError, "threshold: expected a number from 0 to 1"),
    (lambda index: index.search("lock", threshold="high"), TypeError, "threshold: expected a number from 0 to 1, found 'high'"),
    (lambda index: index.search("lock", k=-1), ValueError, "k: expected 1 or more, found -1"),
    (lambda index: index.search("lock", k=0), ValueError, "k: expected 1 or more, found 0"),
    (lambda index: index.callers("total", k=0), ValueError, "k: expected 1 or more, found 0"),
    (lambda index: index.context("lock", tokens=0), ValueError, "tokens: expected 1 or more, found 0"),
    (lambda index: quarry.Index.open("tree", refresh=-1), ValueError, "refresh: expected 0 seconds or more, found -1"),
    (lambda index: quarry.Retriever("bm25").index(["text"]).search(["lock"], k=0), ValueError, "k: expected 1 or more, found 0"),
    (lambda index: quarry.Retriever("bm26"), quarry.QuarryError, "bm26: expected a method, such as bm25 or hybrid, or the path of a model"),
    (lambda index: index.search("lock", k=2.5), TypeError, "k: expected a whole number, found 2.5"),
    (lambda index: index.search("lock", glob=["*.py", ""]), TypeError, "glob: expected a text or several, none empty"),
    (lambda index: index.similar("", 1), ValueError, "path: expected a path, found an empty string"),
    (lambda index: index.similar("locks.py", 0), ValueError, "line: expected 1 or more, found 0"),
    (lambda index: quarry.Index.open(""), ValueError, 'paths: expected a path, found an empty string; the current directory is "."'),
    (lambda index: quarry.Index.open(b"tree"), TypeError, "paths: expected a path, found b'tree'"),
    (lambda index: quarry.Index.open("tree", directory=""), ValueError, "directory: expected a path"),
    (lambda index: quarry.Index.open("tree", max_bytes=-1), ValueError, "max_bytes: expected 0 or more"),
    (lambda index: quarry.Encoder(""), ValueError, "model: expected a path"),
    (lambda index: quarry.Encoder().encode_queries("lock"), TypeError, "texts: expected several texts, found one; put it in a list"),
    (lambda index: quarry.Encoder().encode_queries(["lock"], batch_size=0), ValueError, "batch_size: expected 1 or more"),
    (lambda index: quarry.Retriever("bm25").index("text"), TypeError, "corpus: expected several texts"),
    (lambda index: quarry.Retriever("bm25").index([{"title": "a"}]), TypeError, "document '0': expected a text, or a mapping with `text`"),
    (lambda index: quarry.Retriever("bm25").index(["text"]).search("lock"), TypeError, "queries: expected several texts"),
    (lambda index: quarry.evaluate(QRELS, RUN, resamples=0), ValueError, "resamples: expected 1 or more, found 0"),
    (lambda index: quarry.evaluate(QRELS, RUN, confidence=float("nan")), ValueError, "confidence: expected a number from 0 to 1"),
    (lambda index: quarry.evaluate("", RUN), ValueError, "qrels: expected a path, found an empty string"),
    (lambda index: quarry.evaluate(QRELS, 3), TypeError, "run: expected a dictionary, a DataFrame or a path, found int"),
    (lambda index: quarry.evaluate({1: {"a": 1}}, RUN), quarry.QuarryError, "the judgments: expected the id of a query, a str, found 1"),
    (
        lambda index: quarry.evaluate({"1": {"a": 0.5}}, RUN),
        quarry.QuarryError,
        'the judgments, query "1", document "a": expected a grade, a whole number of 32 bits, found 0.5',
    ),
    (lambda index: quarry.evaluate(QRELS, {"1": ["a"]}), quarry.QuarryError, 'the run, query "1": expected a dictionary by document'),
    (lambda index: quarry.evaluate(QRELS, {"1": {2: 1.0}}), quarry.QuarryError, 'query "1": expected the id of a document, a str, found 2'),
    (lambda index: quarry.evaluate(QRELS, {"1": {"a": "x"}}), quarry.QuarryError, "expected a score, a number other than NaN, found 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG_ARGUMENTS, ids=[text for _, _, text in WRONG_ARGUMENTS])
def test_errors_name_what_was_expected(index, call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call(index)


def test_embeddings(tmp_path):
    encoder = quarry.Encoder()
    done = []
    vectors = encoder.encode_documents(["def a(): pass", "wait for a lock", ""], batch_size=2, progress=done.append)
    assert vectors.dtype == np.float32 and vectors.shape == (3, encoder.dimension) and done == [2, 3]
    assert np.allclose(np.linalg.norm(vectors[:2], axis=1), 1, atol=1e-6) and not vectors[2].any()
    assert encoder.encode_queries([]).shape == (0, encoder.dimension)
    copy = pickle.loads(pickle.dumps(encoder))
    assert copy.id == encoder.id and (copy.encode_queries(["lock"]) == encoder.encode_queries(["lock"])).all()
    with pytest.raises(quarry.QuarryError, match="missing"):
        quarry.Encoder(tmp_path / "missing")


CORPUS = {
    "sum": "def total(prices): return sum(prices)",
    "lock": {"title": "locks.py", "text": "def wait(lock): lock.acquire()"},
    "http": "def header(line): return line.split(':')",
}


@pytest.mark.parametrize("method", ["bm25", "static", "hybrid", "rrf(bm25, static)"])
def test_retrievers_rank_a_corpus(method, tmp_path):
    retriever = quarry.Retriever(method).index(CORPUS)
    found = retriever.search({"q": "acquire a lock"}, k=2)
    assert list(found["q"])[0] == "lock" and len(found["q"]) <= 2
    retriever.save(tmp_path / "kept")
    assert quarry.Retriever.load(tmp_path / "kept").search({"q": "acquire a lock"}, k=2) == found
    assert pickle.loads(pickle.dumps(retriever)).search(["acquire a lock"], k=2)["0"] == found["q"]


def test_retrievers_agree_with_the_program(tmp_path):
    (tmp_path / "qrels").mkdir()
    documents = {id: text if isinstance(text, str) else text["text"] for id, text in CORPUS.items()}
    rows = ({"_id": id, "title": "", "text": text} for id, text in documents.items())
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "acquire a lock"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tlock\t1\n")
    written = tmp_path / "run.txt"
    program("eval", tmp_path, "--method", "hybrid", "--json", "--run", written)
    run = quarry.Retriever("hybrid").index(documents).search({"q": "acquire a lock"})
    lines = (line.split() for line in written.read_text().splitlines())
    assert run["q"] == pytest.approx({document: float(score) for _, _, document, _, score, _ in lines}, rel=1e-6)


def test_a_path_is_that_of_a_model(tmp_path):
    directory = tmp_path / "a (b), c"
    directory.mkdir()
    with pytest.raises(quarry.QuarryError, match=re.escape("a (b), c/config.json: is missing")):
        quarry.Retriever(directory).index(CORPUS)


def test_errors_of_retrievers():
    with pytest.raises(quarry.QuarryError, match="index"):
        quarry.Retriever("bm25").search(["a"])
    with pytest.raises(quarry.QuarryError, match="nosuch"):
        quarry.Retriever("nosuch").index(CORPUS)


QRELS = {"1": {"a": 1, "b": 0}, "2": {"c": 2, "d": 1}, "3": {"x": 1}}
RUN = {"1": {"a": 0.5, "b": 0.9}, "2": {"c": 0.9, "d": 0.8, "e": 0.7}}


def test_measures_by_hand():
    evaluation = quarry.evaluate(QRELS, RUN, ["mrr", "nDCG@10", "P@1", "R@1"])
    assert evaluation.measures == ("mrr", "ndcg@10", "precision@1", "recall@1")
    assert evaluation.queries == ("1", "2")
    assert evaluation.per_query["1"]["mrr"] == 0.5 and evaluation.per_query["2"]["ndcg@10"] == 1
    assert evaluation.means["mrr"] == 0.75 and evaluation.means["recall@1"] == 0.25
    low, high = evaluation.intervals["mrr"]
    assert low == 0.5 and high == 1.0
    over_all = quarry.evaluate(QRELS, RUN, ["mrr"], queries="all")
    assert over_all.means["mrr"] == 0.5
    with pytest.raises(quarry.QuarryError, match="nosuch"):
        quarry.evaluate(QRELS, RUN, ["nosuch@3"])
    assert quarry.evaluate(QRELS, RUN, "RR").means == {"mrr": 0.75}
    with pytest.raises(quarry.QuarryError, match="NaN"):
        quarry.evaluate(QRELS, {"1": {"a": float("nan")}})
    assert pickle.loads(pickle.dumps(evaluation)).means == evaluation.means


def test_measures_are_those_of_the_program(tmp_path):
    qrels, run = tmp_path / "qrels.txt", tmp_path / "run.txt"
    qrels.write_text("".join(f"{q} 0 {d} {g}\n" for q, of in QRELS.items() for d, g in of.items()))
    run.write_text("".join(f"{q} Q0 {d} 0 {s} t\n" for q, of in RUN.items() for d, s in of.items()))
    measures = ["mrr", "map", "ndcg@10", "bpref"]
    printed = program("eval", "score", "--qrels", qrels, "--run", run, "--metrics", ",".join(measures), "--json")
    for found in (quarry.evaluate(QRELS, RUN, measures), quarry.evaluate(qrels, run, measures)):
        assert found.means == {name: printed["metrics"][name] for name in measures}


def test_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = [(q, d, g) for q, of in QRELS.items() for d, g in of.items()]
    qrels = pandas.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
    rows = [(q, d, s) for q, of in RUN.items() for d, s in of.items()]
    run = pandas.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    assert quarry.evaluate(qrels, run).means == quarry.evaluate(QRELS, RUN).means
    with pytest.raises(ValueError, match="run: expected the column score, found query_id, doc_id"):
        quarry.evaluate(qrels, run.drop(columns="score"))


def test_comparisons():
    worse = {"1": {"b": 0.9}, "2": {"e": 0.9, "c": 0.8}}
    [found] = quarry.compare(quarry.evaluate(QRELS, RUN, ["mrr"]), quarry.evaluate(QRELS, worse, ["mrr"]))
    assert found.n_queries == 2
    difference = found.measures["mrr"]
    assert (difference.baseline, difference.other, difference.difference) == (0.75, 0.25, -0.5)
    assert set(difference.p) >= {"bootstrap", "randomisation", "wilcoxon"} and 0 < difference.p["wilcoxon"] <= 1


def test_tests_that_do_not_apply_have_no_p_value():
    def evaluated(*ranks):
        qrels = {str(query): {"a": 1} for query in range(len(ranks))}
        run = {str(query): {"a": 1.0, **{f"b{n}": 2.0 for n in range(1, rank)}} for query, rank in enumerate(ranks)}
        return quarry.evaluate(qrels, run, ["mrr"])

    def p(before, after):
        [found] = quarry.compare(before, after)
        return found.measures["mrr"].p

    with pytest.warns(RuntimeWarning, match="a single query"):
        assert set(p(evaluated(1), evaluated(2)).values()) == {None}
    with pytest.warns(RuntimeWarning, match="mrr: all queries differ by the same amount"):
        of_equal = p(evaluated(*[1] * 12), evaluated(*[2] * 12))
    assert of_equal["bootstrap"] is None and of_equal["t"] is None and of_equal["wilcoxon"] < 0.001
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert None not in p(evaluated(1, 2, 1), evaluated(2, 2, 4)).values()
        assert p(evaluated(1, 2), evaluated(1, 2))["bootstrap"] == 1


def in_child(index, encoder, queue):
    queue.put((index.search(QUERY)[0].name, encoder.encode_queries(["lock"]).shape))


def test_objects_survive_a_fork(index):
    encoder = quarry.Encoder()
    index.search(QUERY)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(index, encoder, queue))
    child.start()
    assert queue.get(timeout=20) == ("wait_for_lock", (1, encoder.dimension))
    child.join(20)
    assert child.exitcode == 0


def test_threads_and_pickles(index):
    copy = pickle.loads(pickle.dumps(index))
    found = []
    threads = [threading.Thread(target=lambda: found.append(copy.search(QUERY)[0].name)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["wait_for_lock"] * 8


INTERRUPTED = """
import os, signal, threading, time, quarry
# A job in the background of a shell starts with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
texts = ["def f(a, b): return a + b  # " + str(n) * 40 for n in range(400_000)]
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    while True:
        quarry.Retriever("bm25").index(texts)
except KeyboardInterrupt:
    print(time.monotonic() - start, flush=True)
os._exit(0)
"""


def test_ctrl_c_ends_a_long_call():
    found = subprocess.run([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    # The lists are converted before the work begins, which no signal ends.
    assert float(found.stdout) < 10
