#!/usr/bin/env python3
"""Uses `quarry serve` and `quarry judge serve` in a browser, as people do.

    pip install playwright==1.65.2
    python3 bench/check_browser.py target/release/quarry

Needs chromium at /usr/bin/chromium (or --chromium FILE) and npm, which fetches axe-core; both are packages of Debian.

Search: typing, keys, history, facets, explanation, similar code, calls, files, the page while an index is built, a token,
and all of it without JavaScript. Labeling: links that work once, keys, undo, skip, several annotators, test programs,
adjudication, and a server that is killed meanwhile. File names, code, queries, labels and names hold scripts, none of
which may run. axe-core must find no violation on any page, at three widths, in light and in dark colors; no page may be
wider than the window, and nothing may be reported to the browser's console that the script does not expect.

--screenshots DIR keeps a picture of each of them.
"""

import argparse
import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Error, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
# The package of npm with its hash, as a lock file has it.
AXE = "axe-core@4.14.1"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
WIDTHS = {"narrow": 360, "medium": 768, "wide": 1280}
PATIENCE = 20

# What would open a dialog wherever it is taken for more than text.
SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
HOSTILE_FILE = f"src/{IMAGE}\"'&.py"

FILES = {
    "src/retry.py": '''from wait import pause


def retry_with_backoff(call, times):
    """Calls again, after longer and longer pauses."""
    for n in range(times):
        pause(2 ** n)
        call()
''',
    "src/wait.py": '''def pause(seconds):
    """Waits for some seconds."""
    clock.sleep(seconds)


def rest():
    """Waits for a minute."""
    pause(60)
''',
    "lib/http.rs": "/// Opens a connection to a host.\npub fn connect(host: &str) -> Stream {\n    dial(host)\n}\n",
    HOSTILE_FILE: f'''def evil_backoff():
    """{SCRIPT} waits {IMAGE}"""
    return "</pre></div>{SCRIPT}\u202e"
''',
}


def require(condition, *found):
    if not condition:
        raise SystemExit("unexpected: " + " ".join(str(part) for part in found))


# --- Processes ---


class Server:
    """A running `quarry`, with the lines that it printed first."""

    def __init__(self, arguments, n_lines=1):
        self.arguments = arguments
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = [self.process.stdout.readline().rstrip("\n") for _ in range(n_lines)]
        require(all(self.lines), arguments, "ended:", self.lines, "" if all(self.lines) else self.process.stderr.read())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        _, log = self.process.communicate(timeout=PATIENCE)
        require(self.process.returncode == 0 and "panicked" not in log, self.arguments, self.process.returncode, log)


@contextlib.contextmanager
def served(arguments):
    server = Server(arguments)
    try:
        yield server.lines[0].rstrip("/")
    except BaseException:
        server.kill()
        raise
    server.end()


def axe_source(scratch):
    """The text of axe-core, of the hash above."""
    subprocess.run(["npm", "pack", "--silent", AXE], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    (archive,) = Path(scratch).glob("axe-core-*.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    require(digest == AXE_SHA512, AXE, "has the hash", digest)
    with tarfile.open(archive) as package:
        return package.extractfile("package/axe.min.js").read().decode()


# --- Pages ---


class Browser:
    """Contexts whose pages are watched: what they report is wrong unless it is expected."""

    def __init__(self, browser, axe, screenshots):
        self.browser, self.axe, self.screenshots = browser, axe, screenshots
        self.expected = []
        self.n_looked_at = 0
        self.violations = {}

    def context(self, **options):
        context = self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE * 1000)
        context.set_default_navigation_timeout(PATIENCE * 1000)
        context.on("page", self.watch)
        return context

    def watch(self, page):
        page.on("dialog", lambda dialog: self.report(f"a dialog opened: {dialog.message}"))
        page.on("pageerror", lambda error: self.report(f"a script failed: {error}"))
        page.on("console", lambda message: message.type in ("error", "warning") and self.report(f"{message.text} {page.url}"))
        page.on("requestfailed", self.check_failure)
        page.on("request", lambda request: self.check_request(page, request))

    def check_request(self, page, request):
        host = urlsplit(request.url).hostname
        if host not in ("127.0.0.1", None):
            self.report(f"{page.url} loads {request.url}")

    def check_failure(self, request):
        # Pages are left before all is loaded, and results that words typed since replace are not waited for.
        if request.failure != "net::ERR_ABORTED":
            self.report(f"not loaded: {request.url} {request.failure}")

    def report(self, text):
        if not any(re.search(pattern, text) for pattern in self.expected):
            # Raised by the next `check`: an exception here would be lost.
            print(f"reported: {text}", file=sys.stderr)
            self.wrong = True

    wrong = False

    def check(self, *where):
        require(not self.wrong, "the browser reported what is above:", *where)

    @contextlib.contextmanager
    def expecting(self, *patterns):
        """What a page reports that is meant to fail, such as a status of 404."""
        self.expected = list(patterns)
        yield
        self.expected = []

    def look(self, name, address, prepare=None, cookies=()):
        """Checks a page at all widths, in light and dark colors."""
        for scheme in ("light", "dark"):
            with contextlib.closing(self.context(color_scheme=scheme, viewport={"width": 1280, "height": 800})) as context:
                context.add_cookies(list(cookies))
                page = context.new_page()
                page.goto(address)
                if prepare:
                    prepare(page)
                background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
                is_dark = sum(map(int, re.findall(r"\d+", background)[:3])) < 384
                require(is_dark == (scheme == "dark"), name, "has the background", background, "in", scheme, "colors")
                page.evaluate(self.axe)
                for size, width in WIDTHS.items():
                    page.set_viewport_size({"width": width, "height": 800})
                    found = page.evaluate("async () => (await axe.run({resultTypes: ['violations']})).violations")
                    for rule in found:
                        places = [node["html"][:200] for node in rule["nodes"]]
                        self.violations.setdefault(f"{rule['id']}: {rule['help']} {places}", []).append(f"{name} {scheme} {size}")
                    wide = page.evaluate("document.documentElement.scrollWidth")
                    if wide > width:
                        self.violations.setdefault("wider than its window", []).append(f"{name} {scheme} {size}: {wide}")
                    self.n_looked_at += 1
                    if self.screenshots:
                        page.screenshot(path=self.screenshots / f"{name}-{size}-{scheme}.png")
                self.check(name)


def focused(page, selector):
    return page.evaluate("selector => document.activeElement.matches(selector)", selector)


def query_of(page):
    return parse_qs(urlsplit(page.url).query, keep_blank_values=True)


def names(page):
    """The names of the results."""
    return page.locator(".result a.open").all_inner_texts()


# --- Search ---


def check_search(browser, base):
    context = browser.context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(base + "/")
    expect(page.locator("#q")).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_contain_text("units in")

    # Results while typing; the address is that of what is shown, and history has one entry for the words typed.
    page.keyboard.type("retry with backoff", delay=30)
    expect(page.locator(".result a.open").first).to_have_text("retry_with_backoff")
    page.wait_for_url("**/?q=retry+with+backoff")
    page.keyboard.press("Escape")
    require(not focused(page, "#q"), "Escape leaves the form")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text("units in")
    require(urlsplit(page.url).query == "" and page.locator(".result").count() == 0, "back:", page.url)
    page.go_forward()
    expect(page.locator(".result a.open").first).to_have_text("retry_with_backoff")
    expect(page.locator("#q")).to_have_value("retry with backoff")

    # Keys.
    page.goto(base + "/?q=pause+waits+retry")
    n = len(names(page))
    require(n >= 3, "results:", names(page))
    for key, selected in (("j", 0), ("j", 1), ("k", 0), ("k", 0)):
        page.keyboard.press(key)
        at = page.locator(".result").evaluate_all("all => all.findIndex(one => one.classList.contains('selected'))")
        require(at == selected, key, "selects", at, "expected", selected)
    require(focused(page, "#r1 a.open"), "the selected result has the focus")
    page.keyboard.press("y")
    copied = page.evaluate("navigator.clipboard.readText()")
    require(copied == page.locator("#r1 a.open").evaluate("link => link.href"), "copied:", copied)
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("/")
    require(focused(page, "#q"), "/ goes to the form")
    require(page.locator("#q").input_value() == "pause waits retry", "/ is not typed")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/file/**")
    expect(page.locator("h1.path")).to_contain_text("shop/")

    # What was typed and opened is there again when one goes back to it.
    page.goto(base + "/")
    page.locator("#q").press_sequentially("connection to a host", delay=30)
    expect(page.locator(".result a.open").first).to_have_text("connect")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=connection+to+a+host")
    page.locator(".result a.open").first.click()
    page.wait_for_url("**/file/**")
    page.go_back()
    expect(page.locator(".result a.open").first).to_have_text("connect")

    # Facets narrow, and are taken back.
    page.goto(base + "/?q=pause+connect+retry")
    before = len(names(page))
    facets = page.get_by_role("navigation", name="Narrow the results")
    facets.get_by_role("link", name="rust").click()
    page.wait_for_url("**lang=rust**")
    require(names(page) == ["connect"] and before > 1, "of rust:", names(page))
    facets.get_by_role("link", name="rust").click()
    page.wait_for_url(lambda url: "lang=" not in url)
    require(len(names(page)) == before, "without the facet:", names(page))
    facets.get_by_role("link", name="src").click()
    page.wait_for_url("**dir=src**")
    require("connect" not in names(page) and names(page), "below src:", names(page))
    # Words that are typed now are searched for below src as well.
    page.locator("#q").fill("connection to a host")
    page.wait_for_url("**q=connection+to+a+host**")
    require(query_of(page)["dir"] == ["src"] and "connect" not in names(page), page.url, names(page))

    facets.get_by_role("link", name="explain").click()
    page.wait_for_url("**explain=1**")
    expect(page.locator(".explanation").first).to_be_visible()

    # Similar code and calls.
    page.goto(base + "/?q=pause+for+some+seconds")
    first = page.locator(".result").filter(has=page.get_by_role("link", name="pause", exact=True))
    first.get_by_role("link", name="Similar code").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Code like pause")
    require("rest" in names(page), "like pause:", names(page))
    page.go_back()
    first.get_by_role("link", name="Calls").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Calls of pause")
    places = page.locator("main ul.sites").first.locator("li > a").all_inner_texts()
    require(sorted(places) == ["src/retry.py:7", "src/wait.py:8"], "calls of pause:", places)

    # A file, at a line.
    page.goto(base + "/file/shop/src/wait.py?line=8#L8")
    expect(page.locator("#L8")).to_be_in_viewport()
    require(page.locator("#L8").evaluate("line => line.matches(':target')"), "the line is the target")
    require(page.locator(".line.current .number").count() == 3, "the lines of the function are marked")
    page.locator("#L1 a.number").click()
    require(page.url.endswith("#L1"), page.url)
    page.get_by_role("link", name="rest").click()
    page.wait_for_url("**line=6#L6")
    with page.expect_navigation() as raw:
        page.get_by_role("link", name="Raw").click()
    require(raw.value.headers["content-type"] == "text/plain; charset=utf-8", raw.value.headers)
    require(page.locator("body").inner_text().startswith("def pause"), page.url)

    with browser.expecting("status of 40[04]"):
        for path, status in (("/file/shop/none.py", 404), ("/?q=x&limit=0", 400), ("/none", 404)):
            require(page.goto(base + path).status == status, path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
    browser.check("search")
    context.close()


def check_without_script(browser, base):
    context = browser.context(java_script_enabled=False)
    page = context.new_page()
    page.goto(base + "/")
    page.locator("#q").fill("retry with backoff")
    page.keyboard.press("Enter")
    expect(page.locator(".result a.open").first).to_have_text("retry_with_backoff")
    page.get_by_role("link", name="explain").click()
    expect(page.locator(".explanation").first).to_be_visible()
    require(query_of(page)["q"] == ["retry with backoff"], page.url)
    page.locator(".result a.open").first.click()
    expect(page.locator("h1.path")).to_have_text("shop/src/retry.py")
    expect(page.locator("#L4")).to_contain_text("def retry_with_backoff")
    browser.check("without JavaScript")
    context.close()


def check_hostile_tree(browser, base):
    """Scripts in file names, code, queries and parameters are text."""
    context = browser.context()
    page = context.new_page()
    address = f"/file/shop/{quote(HOSTILE_FILE)}"
    with browser.expecting("status of 40[04]"):
        for path in (
            "/?q=evil+backoff",
            "/?q=" + quote(f"evil {SCRIPT}{IMAGE}"),
            "/?q=evil&dir=" + quote(IMAGE),
            "/?q=evil&glob=" + quote(f'">{IMAGE}'),
            "/?q=evil&tree=" + quote(IMAGE),
            "/?" + quote(IMAGE) + "=1",
            address + "?line=2",
            "/similar?tree=shop&line=1&path=" + quote(HOSTILE_FILE),
            "/calls?tree=shop&line=1&path=" + quote(HOSTILE_FILE),
            "/calls?name=" + quote(IMAGE),
            "/file/shop/" + quote(IMAGE),
            "/" + quote(IMAGE),
        ):
            page.goto(base + path)
            require(page.locator("img, script:not([src])").count() == 0, path, "has markup of the tree")
    page.goto(base + "/?q=evil+backoff")
    expect(page.locator(".result").first).to_contain_text("onerror=alert(2)")
    # What is inserted while typing too.
    page.locator("#q").fill(f"{SCRIPT} waits {IMAGE}")
    expect(page.locator(".result", has_text="evil_backoff")).to_be_visible()
    require(page.locator("img").count() == 0, "what is typed is text")
    page.goto(base + address + "?line=2")
    expect(page.locator("#L2")).to_contain_text(SCRIPT)
    # The policy is what would stop a script if escaping failed.
    page.goto(base + "/")
    with browser.expecting("Content Security Policy", "status of 404"):
        page.evaluate("markup => document.body.insertAdjacentHTML('beforeend', markup)", IMAGE)
        page.evaluate("() => { const s = document.createElement('script'); s.text = 'alert(3)'; document.body.append(s); }")
        page.wait_for_timeout(300)
    browser.check("hostile tree")
    context.close()


def check_building(browser, quarry, scratch):
    """While another process has the lock of the index, the page says so, and shows results by itself afterwards."""
    tree, index = scratch / "building", scratch / "building-index"
    write_tree(tree, FILES)
    subprocess.run([quarry, "index", tree, "--index", index], check=True, capture_output=True)
    (tree / "new.py").write_text("def just_written():\n    return 1\n")
    manifest = index / "manifest.json"
    for path in index.iterdir():
        if path.name not in ("lock", ".gitignore", "CACHEDIR.TAG"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    require(not manifest.exists(), "the index is gone")
    with open(index / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with served([quarry, "serve", "--listen", "127.0.0.1:0", "--index", index, tree]) as base:
            browser.look("building", base + "/?q=just+written")
            page = browser.context().new_page()
            page.goto(base + "/?q=just+written")
            expect(page.get_by_role("heading", level=1)).to_have_text("The index is being built")
            fcntl.flock(lock, fcntl.LOCK_UN)
            expect(page.locator(".result a.open").first).to_have_text("just_written")
            browser.check("building")
            page.context.close()


def check_login(browser, quarry, scratch, options):
    token = scratch / "token"
    token.write_text("correct horse battery staple\n")
    with served([quarry, "serve", "--listen", "127.0.0.1:0", "--token-file", token, *options]) as base:
        context = browser.context()
        page = context.new_page()
        with browser.expecting("status of 401"):
            browser.look("login", base + "/?q=retry")
            page.goto(base + "/?q=retry")
            page.get_by_label("Token").fill("wrong")
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_contain_text("not the token")
            page.get_by_label("Token").fill("correct horse battery staple")
            page.keyboard.press("Enter")
            expect(page.locator(".result a.open").first).to_have_text("retry_with_backoff")
        require(query_of(page)["q"] == ["retry"] and "horse" not in page.url, page.url)
        page.reload()
        expect(page.locator(".result").first).to_be_visible()
        require(page.evaluate("document.cookie") == "", "scripts cannot read the cookie")
        browser.check("login")
        context.close()


def write_tree(directory, files):
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def check_serve(browser, quarry, scratch):
    tree = scratch / "shop"
    write_tree(tree, FILES)
    options = ["--index", scratch / "shop-index", tree]
    both = [quarry, "serve", "--listen", "127.0.0.1:0", "--link", "editor=vscode://file{root}/{path}:{line}"]
    with served([*both, *options]) as base:
        wait_until_ready(browser, base)
        check_search(browser, base)
        check_without_script(browser, base)
        check_hostile_tree(browser, base)
        for name, path in {
            "start": "/",
            "results": "/?q=pause+connect+retry&lang=python",
            "nothing": "/?q=" + quote("zyzzyva") + "&lang=rust&dir=src",
            "explanation": "/?q=retry+with+backoff&explain=1",
            "file": "/file/shop/src/wait.py?line=8#L8",
            "similar": "/similar?tree=shop&path=src/wait.py&line=1",
            "calls": "/calls?tree=shop&path=src/wait.py&line=1",
            "hostile": "/?q=evil+backoff",
        }.items():
            browser.look(name, base + path)
        browser.look("keys", base + "/?q=retry", prepare=lambda page: (page.locator("#q").blur(), page.keyboard.press("?")))
        with browser.expecting("status of 404"):
            browser.look("error", base + "/file/shop/none.py")
    check_building(browser, quarry, scratch)
    check_login(browser, quarry, scratch, options)


def wait_until_ready(browser, base):
    page = browser.context().new_page()
    with browser.expecting("status of 503"):
        for _ in range(PATIENCE * 10):
            if page.goto(base + "/readyz").ok:
                break
            page.wait_for_timeout(100)
        else:
            require(False, "there is no index after", PATIENCE, "seconds")
    page.context.close()


# --- Labeling ---

GUIDELINE = f'''asks = "pair"
about = "does it answer? {IMAGE}"
text = """
A rule with markup: {SCRIPT}

- a list
- of two
"""
values = [
  {{ says = ["yes", "y"], means = "it does {IMAGE}", exact = true }},
  {{ says = ["no", "n"], means = "it does not", exact = false }},
  {{ says = ["<b>cannot</b> tell"], means = "nobody could say" }},
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
    expect(tab.get_by_role("heading", level=1)).to_have_text("Nothing is left for you")
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
    expect(other.get_by_role("heading", level=1)).to_have_text("Nothing is left for you")
    last = {(item, name): label for item, name, label, _ in labeling.replies()}
    require(len(last) == 2 * N_PAIRS == len(labeling.replies()) - 1, labeling.replies())
    require(all(minutes is None or 0 <= minutes < 5 for *_, minutes in labeling.replies()), labeling.replies())

    organizer = labeling.join(browser, "(organizer)")
    organizer.wait_for_url("**/progress")
    expect(organizer.get_by_role("heading", level=1)).to_have_text(f"{N_PAIRS} of {N_PAIRS} items are finished")
    expect(organizer.get_by_role("row", name="Ann")).to_contain_text(str(N_PAIRS))
    require(organizer.locator("img").count() == 0, "names are text")
    browser.look("label-progress", labeling.base + "/progress", cookies=organizer.context.cookies())
    with browser.expecting("status of 403"):
        require(ann.goto(labeling.base + "/progress").status == 403, "an annotator sees the progress")
    check_adjudication(browser, labeling, organizer)
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
    expect(organizer.locator("main")).to_contain_text("Nobody disagrees on anything that is not adjudicated")
    require(re.fullmatch(r"-?[01]\.\d{3}", organizer.get_by_role("row", name="exact").locator("td").last.inner_text()), "α")


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
    result = ann.get_by_role("region", name="What the program did")
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
    expect(ann.get_by_role("heading", level=1)).to_have_text("Nothing is left for you")

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
    browser.check("test programs")
    labeling.server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", help="the built binary")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="keep a picture of each page here")
    parser.add_argument("--only", choices=["serve", "labeling"], help="check only this")
    args = parser.parse_args()
    quarry = str(Path(args.quarry).resolve())
    if args.screenshots:
        args.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        scratch = Path(directory)
        os.environ.update(XDG_CACHE_HOME=str(scratch / "cache"), XDG_STATE_HOME=str(scratch / "state"))
        # Chromium has no sandbox for root, and containers often have nobody else.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=args.chromium, args=options)
        browser = Browser(chromium, axe_source(scratch), args.screenshots)
        if args.only != "labeling":
            check_serve(browser, quarry, scratch)
        if args.only != "serve":
            check_labeling(browser, quarry, scratch)
            check_test_programs(browser, quarry, scratch)
        chromium.close()
        found = [f"{what}\n    in {', '.join(where)}" for what, where in browser.violations.items()]
        require(not found, "\n".join(found))
        print(f"{browser.n_looked_at} views of pages as expected, in Chromium {chromium.version}")


main()
