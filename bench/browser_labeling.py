"""Uses the pages of `quarry judge serve`; see check_browser.py."""

import contextlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import expect

from browser_pages import IMAGE, PATIENCE, SCRIPT, Server, require

GUIDELINE = f'''asks = "pair"
about = "does it answer? {IMAGE}"
text = """
A rule with markup: {SCRIPT}

- a list
- of two
"""
values = [
  {{ says = ["yes", "y"], means = "it does {IMAGE}", label = 1 }},
  {{ says = ["no", "n"], means = "it does not", label = 0 }},
  {{ says = ["<b>cannot</b> tell"], means = "nobody could say", label = "none" }},
]
'''
N_PAIRS = 12
PEOPLE = ["Ann", IMAGE]


def label_plan(scratch):
    """A plan of pairs with scripts in them, and the guideline above."""
    directory = scratch / "plan"
    directory.mkdir()
    with open(directory / "pairs.jsonl", "w", encoding="utf-8") as pairs:
        for number in range(N_PAIRS):
            code = f"def add_{number}(value):\n    # {SCRIPT} {IMAGE}\n    return value + {number}\n"
            query = f"add {number} to a number {IMAGE}"
            pairs.write(json.dumps({"query": query, "code": code, "language": "python", "label": number % 2}) + "\n")
    plan = directory / "plan.toml"
    plan.write_text(
        'pairs = ["pairs.jsonl"]\njudge = "agents"\n[model]\nprovider = "openai-compatible"\n'
        'base_url = "http://localhost:9/v1"\nmodel = "none"\n[packages]\ninstall = false\n'
    )
    (directory / "hostile.toml").write_text(GUIDELINE)
    return plan


class Labeling:
    """A form that is served to people, whose server can be killed."""

    def __init__(self, quarry, plan, overlap, people):
        self.quarry, self.plan, self.overlap, self.people = quarry, plan, overlap, people
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self):
        arguments = [self.quarry, "judge", "serve", self.plan, "--listen", self.listen, "--overlap", str(self.overlap)]
        for person in self.people:
            arguments += ["--annotator", person]
        self.server = Server(arguments, len(self.people) + 1)
        self.links = dict(line.split("\t") for line in self.server.lines)
        self.base = "http://" + urlsplit(self.links["Ann"]).netloc
        self.listen = urlsplit(self.base).netloc

    def kill_and_start(self):
        self.server.kill()
        self.start()

    def join(self, browser, name):
        page = browser.context().new_page()
        page.goto(self.links[name])
        page.get_by_role("button", name="Begin").click()
        return page

    def replies(self):
        """What the ledger has, oldest first."""
        with contextlib.closing(sqlite3.connect(f"file:{self.plan.with_suffix('.ledger')}?mode=ro", uri=True)) as ledger:
            select = "SELECT item, name, label, minutes FROM replies JOIN people USING (person) ORDER BY reply"
            return ledger.execute(select).fetchall()


def item_of(page):
    return int(page.locator("input[name=item]").input_value())


def wait_for_other(page, item):
    page.wait_for_function("item => ![undefined, item].includes(document.querySelector('input[name=item]')?.value)", arg=str(item))


def check_labeling(browser, quarry, scratch):
    plan = label_plan(scratch)
    export = [quarry, "judge", "people", "export", plan, scratch / "form.csv", "--guideline", plan.parent / "hostile.toml"]
    subprocess.run(export, check=True, capture_output=True)
    labeling = Labeling(quarry, plan, 2, PEOPLE)
    with browser.expecting("status of 401"):
        browser.look("label-stranger", labeling.base + "/")
    browser.look("label-join", labeling.links["Ann"])
    ann = labeling.join(browser, "Ann")
    with browser.expecting("status of 410"):
        browser.look("label-used-link", labeling.links["Ann"])
    cookies = ann.context.cookies()
    browser.look("label", labeling.base + "/", cookies=cookies)
    require(ann.locator("img, script:not([src])").count() == 0, "the form has markup of the pair or the guideline")

    # A digit answers, and what comes next is another item. The answer is in the ledger.
    first = item_of(ann)
    ann.keyboard.press("1")
    wait_for_other(ann, first)
    require([reply[:3] for reply in labeling.replies()] == [(first, "Ann", "yes")], labeling.replies())
    # Digits in the comment are text.
    second = item_of(ann)
    ann.get_by_label("Comment").fill("")
    ann.get_by_label("Comment").press_sequentially("12 s u ?")
    require(item_of(ann) == second and len(labeling.replies()) == 1, "keys in the comment answered")
    ann.keyboard.press("Enter")
    ann.keyboard.press("Escape")
    ann.wait_for_timeout(200)
    require(item_of(ann) == second and len(labeling.replies()) == 1, "Enter in the comment answered")
    ann.keyboard.press("?")
    expect(ann.locator("dialog#keys")).to_contain_text("skip")
    ann.keyboard.press("Escape")
    ann.keyboard.press("3")
    wait_for_other(ann, second)
    require([reply[:3] for reply in labeling.replies()][1:] == [(second, "Ann", "<b>cannot</b> tell")], labeling.replies())

    # Undo: the last answer is shown, and another one replaces it.
    ann.keyboard.press("u")
    ann.wait_for_url("**/last")
    require(item_of(ann) == second, "undo shows", item_of(ann), "expected", second)
    browser.look("label-last", labeling.base + "/last", cookies=cookies)
    ann.keyboard.press("2")
    ann.wait_for_url(labeling.base + "/")
    require([reply[:3] for reply in labeling.replies()][2:] == [(second, "Ann", "no")], labeling.replies())

    # What is skipped comes back at the end, and nothing is kept of it.
    skipped = item_of(ann)
    ann.keyboard.press("s")
    wait_for_other(ann, skipped)
    require(len(labeling.replies()) == 3, labeling.replies())

    # The server is killed while items are shown: who joined goes on, in the same page.
    other = labeling.join(browser, IMAGE)
    require(other.locator("img").count() == 0 and IMAGE in other.locator("header").inner_text(), "the name is text")
    labeling.kill_and_start()
    done = {first, second}
    while len(done) < N_PAIRS - 1:
        # That it was skipped is forgotten with the server; that it was not answered is not.
        item = item_of(ann)
        ann.keyboard.press("s" if item == skipped else "1")
        if item != skipped:
            done.add(item)
        wait_for_other(ann, item)
    require(item_of(ann) == skipped, "the last item is", item_of(ann), "expected what was skipped:", skipped)

    # Two tabs: what is answered in one is kept once, and not changed by the other.
    tab = ann.context.new_page()
    tab.goto(labeling.base + "/")
    require(item_of(tab) == skipped, "another tab shows", item_of(tab))
    tab.keyboard.press("1")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Nothing left to do")
    with browser.expecting("status of 409"):
        ann.keyboard.press("2")
        expect(ann.get_by_role("heading", level=1)).to_have_text("Conflict")
        browser.check("two tabs")
    browser.look("label-done", labeling.base + "/", cookies=cookies)

    # Without JavaScript, the other annotator answers every item, with a server that is killed between two.
    state = other.context.storage_state()
    context = browser.context(java_script_enabled=False, storage_state=state)
    other = context.new_page()
    for number in range(N_PAIRS):
        other.goto(labeling.base + "/")
        if number == N_PAIRS // 2:
            labeling.kill_and_start()
        other.locator("button[name=label]").nth(number % 2).click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Nothing left to do")
    last = {(item, name): label for item, name, label, _ in labeling.replies()}
    require(len(last) == 2 * N_PAIRS == len(labeling.replies()) - 1, labeling.replies())
    require(all(minutes is None or 0 <= minutes < 5 for *_, minutes in labeling.replies()), labeling.replies())

    organizer = labeling.join(browser, "(organizer)")
    organizer.wait_for_url("**/progress")
    expect(organizer.get_by_role("heading", level=2).first).to_have_text(f"{N_PAIRS} of {N_PAIRS} items are finished")
    expect(organizer.get_by_role("row", name=f"Ann {N_PAIRS}")).to_be_visible()
    require(organizer.locator("img").count() == 0, "names are text")
    browser.look("label-progress", labeling.base + "/progress", cookies=organizer.context.cookies())
    with browser.expecting("status of 403"):
        require(ann.goto(labeling.base + "/progress").status == 403, "an annotator sees the progress")
    check_adjudication(browser, labeling, organizer)
    # Its page follows the server, and would ask for it when it is gone.
    organizer.context.close()
    browser.check("labeling")
    labeling.server.end()


def check_adjudication(browser, labeling, organizer):
    """The organizer decides what people disagree on, and gets all labels."""
    last = {}
    for item, name, label, _ in labeling.replies():
        last.setdefault(item, {})[name] = label
    differing = {item for item, said in last.items() if len(set(said.values())) > 1}
    require(differing, "nobody disagrees:", last)
    organizer.get_by_role("link", name="Disagreements").click()
    browser.look("label-disagreements", organizer.url, cookies=organizer.context.cookies())
    # Another page of the organizer follows what is decided, without being loaded anew.
    live = organizer.context.new_page()
    live.goto(labeling.base + "/progress")
    expect(live.locator("main")).to_contain_text(f"{len(differing)} item")
    live.evaluate("window.isTheSame = true")
    decided = {}
    while len(decided) < len(differing):
        item = item_of(organizer)
        require(item in differing and item not in decided, "to adjudicate:", item, "of", differing, "without", set(decided))
        require(organizer.locator("img").count() == 0, "what is shown is text")
        organizer.get_by_label("Why").fill(f"because {IMAGE}")
        organizer.keyboard.press("Escape")
        organizer.keyboard.press("2")
        decided[item] = "no"
        expect(organizer.get_by_role("status").first).to_contain_text(
            f"{len(differing) - len(decided)} item" + ("" if len(differing) - len(decided) == 1 else "s")
        )
    expect(live.locator("main")).to_contain_text("Nothing to adjudicate")
    require(live.evaluate("window.isTheSame"), "the page was loaded anew")
    live.get_by_role("link", name="Judge").click()
    expect(live.get_by_role("row", name="pairs 12")).to_contain_text("12 without a verdict")
    live.close()
    labeling.kill_and_start()
    with organizer.expect_download() as download:
        organizer.get_by_role("link", name="All labels").click()
    lines = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    require(len(lines) == N_PAIRS, len(lines), "lines")
    for line in lines:
        said = {one["person"]: one["label"] for one in line["annotations"]}
        require(said == last[line["item"]], line)
        expected = decided.get(line["item"]) or next(iter(set(said.values())))
        require(line["value"] == expected and line["label"] == (expected == "yes"), line, "expected", expected)
        require(("adjudicated" in line) == (line["item"] in decided), line)
    organizer.goto(labeling.base + "/progress")
    expect(organizer.locator("main")).to_contain_text("Nothing to adjudicate")
    require(re.fullmatch(r"-?[01]\.\d{3}", organizer.get_by_role("row", name="label").locator("td").last.inner_text()), "α")


def check_test_programs(browser, quarry, scratch):
    """People write test programs: their verdicts before and after are both kept, with what the program did."""
    if not shutil.which("bwrap"):
        print("TEST PROGRAMS OF PEOPLE ARE NOT CHECKED: they need bubblewrap", file=sys.stderr)
        return
    plan = scratch / "plan" / "plan.toml"
    export = [quarry, "judge", "people", "export", plan, scratch / "tests.csv", "--tests", "--sample", "2"]
    subprocess.run(export, check=True, capture_output=True)
    labeling = Labeling(quarry, plan, 1, ["Ann"])
    before = len(labeling.replies())
    ann = labeling.join(browser, "Ann")
    cookies = ann.context.cookies()
    browser.look("test-before", labeling.base + "/", cookies=cookies)
    first = item_of(ann)
    ann.keyboard.press("1")
    program = ann.get_by_label("Test program")
    expect(program).to_be_visible()
    require(item_of(ann) == first and len(labeling.replies()) == before + 1, "the verdict before testing is kept")

    # Neither a program nor a reason: nothing is kept.
    with browser.expecting("status of 400"):
        ann.keyboard.press("2")
        expect(ann.get_by_role("heading", level=1)).to_have_text("Bad Request")
    ann.goto(labeling.base + "/")

    # A program that fails, with its output; markup in it is text.
    code = program.input_value()
    program.fill(code + f"\nprint({IMAGE!r})\nassert add_{re.search(r'add_([0-9]+)', code)[1]}(1) == -1\n")
    program.press("Control+Enter")
    result = ann.get_by_role("region", name="Result of the program")
    expect(result).to_contain_text("An assertion did not hold", timeout=PATIENCE * 1000)
    expect(result).to_contain_text(IMAGE)
    require(ann.locator("img").count() == 0, "what a program prints is text")
    require(re.search(r"after \d+\.\d\d s", result.inner_text()), result.inner_text())
    browser.look("test-result", labeling.base + "/", cookies=cookies)
    # What was said before testing cannot be changed any longer.
    require(ann.get_by_role("link", name="undo").count() == 0, "the verdict before testing can be changed after it")

    # A changed program runs before the verdict counts; then both are kept.
    program.fill(code + f"\nassert add_{re.search(r'add_([0-9]+)', code)[1]}(1) >= 1\n")
    ann.get_by_label("Comment").fill("it holds")
    ann.keyboard.press("Escape")
    ann.keyboard.press("2")
    expect(result).to_contain_text("Every assertion held", timeout=PATIENCE * 1000)
    require(len(labeling.replies()) == before + 1, "a verdict was kept whose program had not run")
    expect(ann.get_by_label("Comment")).to_have_value("it holds")
    ann.keyboard.press("2")
    wait_for_other(ann, first)

    # The other without a program, for a reason; the server is killed between the two verdicts.
    ann.keyboard.press("2")
    expect(program).to_be_visible()
    labeling.kill_and_start()
    ann.reload()
    expect(program).to_be_visible()
    ann.get_by_label("Comment").fill("cannot be tested")
    ann.keyboard.press("Escape")
    ann.keyboard.press("2")
    expect(ann.get_by_role("heading", level=1)).to_have_text("Nothing left to do")

    with contextlib.closing(sqlite3.connect(f"file:{plan.with_suffix('.ledger')}?mode=ro", uri=True)) as ledger:
        select = (
            "SELECT forms.tests, item = ?, label, result FROM replies JOIN forms USING (form) LEFT JOIN runs USING (run) "
            "ORDER BY reply DESC LIMIT 4"
        )
        found = ledger.execute(select, [first]).fetchall()
    expected = [(1, 0, "no", None), (0, 0, "no", None), (1, 1, "no", "passed"), (0, 1, "yes", None)]
    require(found == expected, "in the ledger:", found, "expected", expected)
    study = subprocess.run([quarry, "judge", "study", plan, "--json"], check=True, capture_output=True, text=True)
    rows = {row["people"]: row["labels"] for row in json.loads(study.stdout)["programs"]}
    require(rows.get("Ann, with tests") == 2, "the study has", rows)
    organizer = labeling.join(browser, "(organizer)")
    browser.look("test-progress", labeling.base + "/progress", cookies=organizer.context.cookies())
    organizer.context.close()
    browser.check("test programs")
    labeling.server.end()
