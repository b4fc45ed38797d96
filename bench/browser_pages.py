"""Pages in Chromium, and the servers that they come from: what the checks in a browser share."""

import base64
import contextlib
import hashlib
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Error

# The package of npm with its hash, as a lock file has it.
AXE = "axe-core@4.14.1"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
WIDTHS = {"narrow": 360, "phone": 390, "medium": 768, "wide": 1280, "widest": 1920}
PATIENCE = 20
ATTEMPTS = 5

# What would open a dialog wherever it is taken for more than text.
SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"


def require(condition, *found):
    if not condition:
        raise SystemExit("unexpected: " + " ".join(str(part) for part in found))


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

    def audit(self, page):
        """What axe-core finds on a page."""
        return self.again(page, self.violations_of)

    def again(self, page, ask):
        """What is asked of a page, which may load itself anew meanwhile, as one does that waits for an index."""
        for _ in range(ATTEMPTS - 1):
            try:
                return ask(page)
            except Error:
                page.wait_for_load_state()
        return ask(page)

    def violations_of(self, page):
        if not page.evaluate("'axe' in window"):
            page.evaluate(self.axe)
        return page.evaluate("async () => (await axe.run({resultTypes: ['violations']})).violations")

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
                for size, width in WIDTHS.items():
                    page.set_viewport_size({"width": width, "height": 800})
                    for rule in self.audit(page):
                        places = [node["html"][:200] for node in rule["nodes"]]
                        self.violations.setdefault(f"{rule['id']}: {rule['help']} {places}", []).append(f"{name} {scheme} {size}")
                    wide = self.again(page, lambda page: page.evaluate("document.documentElement.scrollWidth"))
                    if wide > width:
                        self.violations.setdefault("wider than its window", []).append(f"{name} {scheme} {size}: {wide}")
                    self.n_looked_at += 1
                    if self.screenshots:
                        page.screenshot(path=self.screenshots / f"{name}-{size}-{scheme}.png")
                self.check(name)
