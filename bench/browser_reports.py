"""Uses the pages of `quarry serve --report` and of the progress of `quarry judge serve`; see check_browser.py."""

import json
import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import expect

from browser_pages import IMAGE, PATIENCE, SCRIPT, require, served

N_QUERIES = 50
WORDS = "read write parse open close send merge split load store find count check build draw sort copy move lock wait".split()
PLAN = f"""
title = "Two methods {IMAGE}"
introduction = "Some *markdown* {SCRIPT}"
bootstrap = {{ resamples = 200 }}
[[datasets]]
name = "Made up {IMAGE}"
measures = ["mrr", "ndcg@10"]
methods = ["bow", "bm25", "hybrid"]
baseline = "bow"
files = {{ benchmark = "benchmark" }}
"""
ROOT = Path(__file__).resolve().parent.parent


def made_up_benchmark(directory):
    """Queries and functions with scripts in them."""
    (directory / "qrels").mkdir(parents=True)
    lines = {"queries": [], "corpus": []}
    qrels = ["query-id\tcorpus-id\tscore"]
    for number in range(N_QUERIES):
        verb, noun = WORDS[number % len(WORDS)], WORDS[(number * 7 + 3) % len(WORDS)]
        lines["queries"].append({"_id": f"q{number:02}", "text": f"{verb} the {noun} number {number} {IMAGE}"})
        code = f'def {verb}_{noun}_{number}(value):\n    """{verb.title()}s {SCRIPT}"""\n    return value\n'
        lines["corpus"].append({"_id": f"d{number:02}", "title": "", "text": code})
        qrels.append(f"q{number:02}\td{number:02}\t1")
    for name, rows in lines.items():
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (directory / "qrels" / "test.tsv").write_text("\n".join(qrels) + "\n")


def check_reports(browser, quarry, scratch):
    """Results of a plan, two methods query by query, and a data card."""
    directory = scratch / "results"
    made_up_benchmark(directory / "benchmark")
    (directory / "plan.toml").write_text(PLAN, encoding="utf-8")
    run = [quarry, "eval", "run", directory / "plan.toml", "--data", directory]
    subprocess.run(run, check=True, capture_output=True)
    shutil.copytree(ROOT / "examples" / "build", directory / "build")
    build = [quarry, "data", "build", directory / "build" / "plan.toml"]
    subprocess.run(build, check=True, capture_output=True)
    card = directory / "build" / "plan.build" / "card.html"
    shown = [directory / "plan.results", card]
    with served([quarry, "serve", "--listen", "127.0.0.1:0", *(word for path in shown for word in ("--report", path))]) as base:
        page = browser.context().new_page()
        page.goto(base + "/")
        page.get_by_role("link", name="Two methods").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Two methods {IMAGE}")
        require(page.locator("img").count() == 0 and page.locator("svg").count() > 0, "what plans say is text")
        # A click on a heading sorts: the script of the page may run, and no other.
        page.get_by_role("button", name="mrr").first.click()
        expect(page.locator("th[aria-sort=descending]").first).to_be_visible()
        page.get_by_role("link", name="Compare query by query").click()
        expect(page.locator("article")).to_have_count(20)
        expect(page.get_by_role("status")).to_contain_text(f"{N_QUERIES} queries shown, page 1 of 3")
        expect(page.locator("article").first.locator("pre")).to_have_count(2)
        require(page.locator("img").count() == 0, "queries and code are text")
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("status")).to_contain_text("page 2 of 3")
        page.get_by_label("Order").select_option("gains")
        page.get_by_label("Compared with it").select_option("hybrid")
        page.get_by_label("Queries with").fill(f"number 7 {IMAGE}")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("article")).to_have_count(1)
        require("order=gains" in page.url and "b=2" in page.url, page.url)
        page.go_back()
        expect(page.locator("article")).to_have_count(20)
        with browser.expecting("status of 4[02][024]"):
            for path, status in (("/0/compare?order=best", 422), ("/0/compare?dataset=9", 404), ("/9", 404)):
                require(page.goto(base + path).status == status, path)
                expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.context.close()
        for name, path in {
            "report-list": "/",
            "report": "/0",
            "report-queries": "/0/compare?dataset=0&part=0",
            "report-card": "/1",
        }.items():
            browser.look(name, base + path)
    check_status(browser, quarry, scratch)


def check_status(browser, quarry, scratch):
    """The state of a plan, which the page follows while the plan runs, and which is there without JavaScript."""
    plan = scratch / "judging" / "plan.toml"
    shutil.copytree(ROOT / "examples" / "judging", plan.parent)
    with served([quarry, "judge", "serve", plan, "--listen", "127.0.0.1:0"]) as base:
        page = browser.context().new_page()
        page.goto(base + "/")
        expect(page.get_by_role("status")).to_contain_text("quarry judge run")
        page.evaluate("window.isTheSame = true")
        run = subprocess.Popen([quarry, "judge", "run", plan], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        expect(page.get_by_role("row", name="pairs 40")).to_contain_text("without a verdict", timeout=PATIENCE * 1000)
        require(run.wait(timeout=120) in (0, 1), "judge run ended with", run.returncode)
        expect(page.get_by_role("row", name="pairs 40")).to_contain_text("40, 0 without a verdict")
        require(page.evaluate("window.isTheSame"), "the page was loaded anew")
        plain = browser.context(java_script_enabled=False).new_page()
        plain.goto(base + "/")
        expect(plain.get_by_role("row", name="pairs 40")).to_contain_text("0 without a verdict")
        require(plain.locator("noscript").count() > 0 or plain.get_by_text("reloads every").count() > 0, "reloading")
        for one in (page, plain):
            one.context.close()
        browser.look("judge-status", base + "/")
        browser.check("judge status")
