#!/usr/bin/env python3
"""Uses `quarry serve`, `quarry judge serve` and reports in a browser, as people do.

    pip install playwright==1.65.2
    python3 bench/check_browser.py target/release/quarry

Needs chromium at /usr/bin/chromium (or --chromium FILE) and npm, which fetches axe-core; both are packages of Debian.

Search: typing, keys, history, facets, explanation, similar code, calls, files, related code, commits, the page while an index is built, a token,
and all of it without JavaScript. Labeling: links that work once, keys, undo, skip, several annotators, test programs,
adjudication, and a server that is killed meanwhile. Reports: tables, two methods query by query, a data card, and the state
of a plan that runs meanwhile. File names, code, queries, labels and names hold scripts, none of
which may run. axe-core must find no violation on any page, at four widths, in light and in dark colors; no page may be
wider than the window, and nothing may be reported to the browser's console that the script does not expect.

--screenshots DIR keeps a picture of each of them.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import expect, sync_playwright

from browser_labeling import check_labeling, check_test_programs
from browser_reports import check_reports
from browser_pages import IMAGE, PATIENCE, SCRIPT, Browser, axe_source, require, served

MAX_PAGE_BYTES = 100_000

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


def focused(page, selector):
    return page.evaluate("selector => document.activeElement.matches(selector)", selector)


def query_of(page):
    return parse_qs(urlsplit(page.url).query, keep_blank_values=True)


def names(page):
    """The names of the results."""
    return page.locator(".result a.open").all_inner_texts()


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
    expect(page.locator(".reasons").first).to_contain_text("the query is read as a question about behavior")
    expect(page.locator(".explanation").first).to_be_hidden()
    page.locator(".score summary").first.click()
    expect(page.locator(".explanation").first).to_be_visible()

    # Filters that are set stand above the results, each with what removes it, and the parts of a path set one.
    page.goto(base + "/?q=pause+connect+retry&lang=python&kind=function")
    chosen = page.get_by_role("list", name="Filters that are set")
    require(chosen.get_by_role("listitem").count() == 3, "filters that are set:", chosen.inner_text())
    chosen.get_by_role("link", name="Remove filter: kind function").click()
    page.wait_for_url(lambda url: "kind=" not in url and "lang=python" in url)
    page.locator(".result .path a", has_text="src").first.click()
    page.wait_for_url("**dir=src**")
    page.get_by_role("link", name="Remove all filters").click()
    page.wait_for_url(lambda url: "dir=" not in url and "lang=" not in url)
    require(len(names(page)) == before, "without filters:", names(page))

    # Examples are of this tree, and each finds something.
    page.goto(base + "/")
    examples = page.locator(".examples a")
    texts = examples.all_inner_texts()
    require("opens a connection to a host" in texts, "examples:", texts)
    page.get_by_role("link", name="opens a connection to a host").click()
    expect(page.locator(".result a.open").first).to_have_text("connect")
    # An empty field shows them again.
    page.locator("#q").fill("")
    expect(examples.first).to_be_visible()
    # The hints are buttons for the mouse, too.
    page.locator("#q").blur()
    page.get_by_role("button", name="all keys").click()
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")

    # Similar code and calls.
    page.goto(base + "/?q=pause+for+some+seconds")
    first = page.locator(".result").filter(has=page.get_by_role("link", name="pause", exact=True))
    first.get_by_role("link", name="Similar code").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Code like pause")
    require("rest" in names(page), "like pause:", names(page))
    page.go_back()
    first.get_by_role("link", name="Calls").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Calls of pause")
    places = page.locator("main .place").all()
    places = [place.get_attribute("aria-label") for place in places]
    require(sorted(places) == ["src/retry.py:7", "src/wait.py:8"], "calls of pause:", places)
    # Callers of callers, and back.
    page.get_by_role("link", name="retry_with_backoff").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Calls of retry_with_backoff")
    page.get_by_role("navigation", name="The way here").get_by_role("link", name="pause").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Calls of pause")

    # A file, at a line.
    page.goto(base + "/file/shop/src/wait.py?line=8#L8")
    expect(page.locator("#L8")).to_be_in_viewport()
    require(page.locator("#L8").evaluate("line => line.matches(':target')"), "the line is the target")
    require(page.locator(".line.current .number").count() == 3, "the lines of the function are marked")
    page.locator("#L1 a.number").click()
    require(page.url.endswith("#L1"), page.url)
    outline = page.get_by_role("navigation", name="Files and definitions")
    outline.get_by_role("link", name="rest").click()
    page.wait_for_url("**line=6#L6")
    check_file(page, base, outline)
    page.goto(base + "/file/shop/src/wait.py")
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


def check_file(page, base, outline):
    """Definitions, calls in place, directories, and what is copied."""
    page.goto(base + "/file/shop/src/wait.py?q=pause+waits&line=8#L8")
    require(page.locator("#q").input_value() == "pause waits", "the query stays in the form")
    link = page.locator("#L8 a.def")
    link.hover()
    card = page.locator("#card")
    expect(card).to_be_visible()
    expect(card).to_contain_text("Waits for some seconds.")
    expect(card).to_contain_text("called in 2 places")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    link.click()
    page.wait_for_url("**line=1#L1")
    page.locator("#L1 a.refs").click()
    inline = page.get_by_role("region", name="Calls of pause")
    expect(inline.locator(".place")).to_have_count(2)
    require("/file/" in page.url, "calls are shown in place", page.url)
    page.keyboard.press("Escape")
    expect(inline).to_have_count(0)
    page.get_by_role("button", name="Copy path").click()
    require(page.evaluate("navigator.clipboard.readText()") == "src/wait.py", "the path is copied")
    page.get_by_role("button", name="Copy link").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    require(copied == base + "/file/shop/src/wait.py?line=1#L1", "the link is copied:", copied)
    # What is folded stays folded.
    page.set_viewport_size({"width": 390, "height": 800})
    summary = outline.locator("summary", has_text="Files")
    summary.click()
    expect(outline.get_by_role("link", name="retry.py")).to_be_visible()
    page.reload()
    expect(outline.get_by_role("link", name="retry.py")).to_be_visible()
    summary.click()
    page.set_viewport_size({"width": 1280, "height": 800})
    # Directories lead down and up, and what is searched for there is searched for below them.
    page.locator("h1.path").get_by_role("link", name="src").click()
    page.wait_for_url("**/dir/shop/src?q=pause+waits")
    expect(page.locator(".entries a")).to_have_count(3)
    page.locator("#q").fill("connection to a host")
    page.wait_for_url("**dir=src**")
    require("connect" not in names(page), "below src:", names(page))


def check_syntax(browser, base):
    """The query syntax in the form, and queries that the browser keeps."""
    context = browser.context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(base + "/")
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#q").focus()
    page.locator("#q").press_sequentially("pause la", delay=30)
    options = page.get_by_role("option")
    expect(options).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    require(page.locator("#q").input_value() == "pause lang:", page.locator("#q").input_value())
    page.locator("#q").press_sequentially("p", delay=30)
    expect(options).to_have_text(["lang:python "])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    require(page.locator("#q").input_value() == "pause lang:python", page.locator("#q").input_value())
    page.wait_for_url("**q=pause+lang%3Apython**")
    require("connect" not in names(page) and "pause" in names(page), "of python:", names(page))
    page.get_by_role("button", name="Save query").click()
    expect(page.get_by_role("button", name="Forget query")).to_be_visible()
    page.locator("#q").fill('"SLEEP("')
    expect(page.locator(".result mark")).to_have_text(["sleep", "("])
    page.locator(".result a.open").first.click()
    page.wait_for_url("**/file/**")
    page.goto(base + "/")
    expect(page.locator("#kept a")).to_have_text(["pause lang:python", '"SLEEP("'])
    page.locator("#kept a").first.click()
    page.wait_for_url("**q=pause%20lang%3Apython")
    page.goto(base + "/")
    page.locator("#kept").get_by_role("button", name="Clear").first.click()
    expect(page.locator("#kept a")).to_have_text(['"SLEEP("'])
    with browser.expecting("status of 400"):
        page.goto(base + "/?q=" + quote("/a(/"))
        expect(page.locator(".problem")).to_contain_text("^")
    browser.check("syntax")
    context.close()


def check_sizes(browser, quarry, scratch):
    """A page of results or of a file is small, whatever the lines."""
    tree, index = scratch / "long", scratch / "long-index"
    line = "read_lines(" + "lines, " * 90 + "lines)"
    body = "".join(f"    {line}\n" for _ in range(30))
    # Each file is below the limit on sizes.
    functions = [f"def read_lines_{n}(lines):\n{body}\n\n" for n in range(200)]
    write_tree(tree, {f"src/lines_{n}.py": "".join(functions[40 * n : 40 * n + 40]) for n in range(5)})
    with served([quarry, "serve", "--listen", "127.0.0.1:0", "--index", index, tree]) as base:
        wait_until_ready(browser, base)
        page = browser.context().new_page()
        for path in ("/", "/?q=read+lines", "/?q=read+lines&k=200&lines=0&explain=1", "/file/long/src/lines_0.py", "/calls?name=read_lines"):
            n_bytes = len(page.goto(base + path).body())
            require(n_bytes < MAX_PAGE_BYTES, path, "has", n_bytes, "bytes")
        browser.check("sizes")
        page.context.close()


def check_without_script(browser, base):
    context = browser.context(java_script_enabled=False)
    page = context.new_page()
    page.goto(base + "/")
    page.locator("#q").fill("retry with backoff")
    page.keyboard.press("Enter")
    expect(page.locator(".result a.open").first).to_have_text("retry_with_backoff")
    page.get_by_role("link", name="explain").click()
    expect(page.locator(".reasons").first).to_be_visible()
    require(query_of(page)["q"] == ["retry with backoff"], page.url)
    page.locator(".result a.open").first.click()
    expect(page.locator("h1.path")).to_have_text("shop/src/retry.py")
    expect(page.locator("#L4")).to_contain_text("def retry_with_backoff")
    require(page.locator("#q").input_value() == "retry with backoff", "the query stays in the form")
    expect(page.get_by_role("button", name="Copy path")).to_be_hidden()
    page.locator("#L7 a.def, #L8 a.def").first.click()
    expect(page.locator("h1.path")).to_have_text("shop/src/wait.py")
    page.locator("#L1 a.refs").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Calls of pause")
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
            "/related?tree=shop&line=1&path=" + quote(HOSTILE_FILE),
            "/related?name=" + quote(IMAGE),
            "/history/shop/" + quote(HOSTILE_FILE),
            "/commits?q=" + quote(IMAGE),
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
            expect(page.get_by_role("alert")).to_contain_text("Wrong token")
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


def commit(tree, message):
    git = ["git", "-C", tree, "-c", "user.name=Jane", "-c", "user.email=jane@example.org"]
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", message], check=True)


def check_related(browser, base):
    """What is related to a function, its history, and commits by words."""
    context = browser.context()
    page = context.new_page()
    page.goto(base + "/file/shop/src/wait.py?line=6#L6")
    page.get_by_role("link", name="Related", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Related to rest")
    expect(page.locator("ol.related")).to_contain_text("called by it")
    expect(page.locator("ul.commits").last).to_contain_text(f"Wait longer {SCRIPT}{IMAGE}")
    require(page.locator("img, script:not([src])").count() == 0, "a commit has markup")
    page.goto(base + "/file/shop/src/wait.py")
    page.get_by_role("link", name="History", exact=True).click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="rest", exact=True))
    expect(row).to_contain_text("Wait longer")
    row.get_by_role("link", name="1 commit of rest").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("Commits that changed it")
    page.goto(base + "/?q=wait+longer")
    page.get_by_role("link", name="Commits", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 commit for")
    browser.check("related")
    context.close()


def check_serve(browser, quarry, scratch):
    tree = scratch / "shop"
    subprocess.run(["git", "init", "--quiet", tree], check=True)
    write_tree(tree, {**FILES, "src/wait.py": FILES["src/wait.py"].replace("60", "30")})
    commit(tree, "Start")
    write_tree(tree, FILES)
    commit(tree, f"Wait longer {SCRIPT}{IMAGE}")
    options = ["--index", scratch / "shop-index", tree]
    both = [quarry, "serve", "--listen", "127.0.0.1:0", "--link", "editor=vscode://file{root}/{path}:{line}"]
    with served([*both, *options]) as base:
        wait_until_ready(browser, base)
        check_search(browser, base)
        check_syntax(browser, base)
        check_without_script(browser, base)
        check_hostile_tree(browser, base)
        check_related(browser, base)
        for name, path in {
            "start": "/",
            "results": "/?q=pause+connect+retry&lang=python",
            "nothing": "/?q=" + quote("zyzzyva") + "&lang=rust&dir=src",
            "explanation": "/?q=retry+with+backoff&explain=1",
            "file": "/file/shop/src/wait.py?line=8#L8",
            "directory": "/dir/shop/src",
            "exact": "/?q=" + quote('pause "seconds" lang:python'),
            "similar": "/similar?tree=shop&path=src/wait.py&line=1",
            "calls": "/calls?tree=shop&path=src/wait.py&line=1",
            "related": "/related?tree=shop&path=src/wait.py&line=1",
            "history": "/history/shop/src/wait.py",
            "commits": "/commits?q=wait",
            "hostile": "/?q=evil+backoff",
        }.items():
            browser.look(name, base + path)
        browser.look("keys", base + "/?q=retry", prepare=lambda page: (page.locator("#q").blur(), page.keyboard.press("?")))
        with browser.expecting("status of 404"):
            browser.look("error", base + "/file/shop/none.py")
    check_sizes(browser, quarry, scratch)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", help="the built binary")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="keep a picture of each page here")
    parser.add_argument("--only", choices=["serve", "labeling", "reports"], help="check only this")
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
        if args.only in (None, "serve"):
            check_serve(browser, quarry, scratch)
        if args.only in (None, "reports"):
            check_reports(browser, quarry, scratch)
        if args.only in (None, "labeling"):
            check_labeling(browser, quarry, scratch)
            check_test_programs(browser, quarry, scratch)
        chromium.close()
        found = [f"{what}\n    in {', '.join(where)}" for what, where in browser.violations.items()]
        require(not found, "\n".join(found))
        print(f"{browser.n_looked_at} views of pages as expected, in Chromium {chromium.version}")


main()
