// Uses the extension in a real Visual Studio Code (code-server) in Chromium, as people do.
//
//   npm ci && npm run package
//   sh e2e/code-server.sh DIR
//   npm run e2e -- --code-server DIR --program ../../target/release/quarry [--screenshots DIR]
//
// Needs Chromium at /usr/bin/chromium or --chromium FILE.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { parseArgs } from "node:util";

import { command, frameOf, launch, open, start, text, write } from "./code.mjs";

const FILES = {
  "src/retry.py": `from wait import pause


def retry_with_backoff(call, times):
    """Calls again, after longer and longer pauses."""
    for n in range(times):
        pause(2 ** n)
        call()
`,
  "src/wait.py": `def pause(seconds):
    """Waits for some seconds."""
    clock.sleep(seconds)


def rest():
    """Waits for a minute."""
    pause(60)
`,
  "tests/test_retry.py": `from retry import retry_with_backoff


def test_retry():
    retry_with_backoff(print, 2)
`,
  "lib/http.rs": "/// Opens a connection to a host.\npub fn connect(host: &str) -> Stream {\n    dial(host)\n}\n",
  "src/<img src=x onerror=alert(2)>.py": `def evil_backoff():\n    """<script>alert(1)</script> retries \u202e"""\n    return 1\n`,
};

const { values: options } = parseArgs({
  options: {
    "code-server": { type: "string" },
    program: { type: "string" },
    screenshots: { type: "string" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
if (options["code-server"] === undefined || options.program === undefined) {
  console.error("expected --code-server DIR and --program FILE");
  process.exit(2);
}

const scratch = mkdtempSync(path.join(tmpdir(), "quarry-e2e-"));
if (options.screenshots !== undefined) mkdirSync(options.screenshots, { recursive: true });

/** Starts Visual Studio Code on the tree, with settings of its own. */
function started(name, settings, onPath) {
  return start({ installation: options["code-server"], own: path.join(scratch, name), folder: path.join(scratch, "shop"), settings, onPath });
}

let browser;

async function picture(page, name) {
  if (options.screenshots === undefined) return;
  await page.waitForTimeout(500);
  await page.screenshot({ path: path.join(options.screenshots, `${name}.png`) });
}

/** Runs a check on a page, with a picture of it if that fails. */
async function checked(address, scheme, check) {
  const { page, view } = await open(browser, address, { colorScheme: scheme });
  try {
    await check(page, view);
  } catch (error) {
    await picture(page, `failure-${scheme}`);
    throw error;
  }
  await page.context().close();
}

/** The processes of `quarry lsp` on this tree. */
function servers() {
  const isServer = (id) => {
    try {
      const parts = readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0");
      return parts.includes(path.join(scratch, "bin/quarry")) && parts.includes("lsp");
    } catch {
      return false;
    }
  };
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name) && isServer(name)).map(Number);
}

/** Waits until the view has an answer, and the focus, which it takes a moment later. */
async function answered(view, title) {
  await text(view, "#title", title);
  const page = await view.locator(":root").elementHandle();
  await (await page.ownerFrame()).waitForFunction(() => document.hasFocus());
}

async function checkSearch(page, view, scheme) {
  await view.locator("#q").fill("retry with backoff");
  await text(view, ".item .name", "retry_with_backoff");
  await text(view, "#summary", /results? in \d+ files?/);
  await view.locator("mark", { hasText: "retry" }).first().waitFor();
  await picture(page, `search-${scheme}`);

  // Arrows show results beside the search, which keeps the focus; Enter opens one.
  await view.locator("#q").press("ArrowDown");
  await page.getByRole("tab", { name: "retry.py" }).first().waitFor();
  assert.equal(await view.locator(".open:focus").count(), 1, "the result has the focus");
  await picture(page, `preview-${scheme}`);
  await view.locator(".open:focus").press("Enter");
  await page.locator(".monaco-editor.focused").first().waitFor();

  // Filters.
  await view.locator("#toggle").click();
  await view.locator("[name=language]").selectOption("rust");
  await view.locator("#q").fill("connect to a host");
  await text(view, ".item .name", "connect");
  await view.locator("#toggle", { hasText: "Filters (1)" }).waitFor();
  await picture(page, `filters-${scheme}`);
  await view.locator("[name=language]").selectOption("");
  await view.locator("#toggle").click();

  // Names and code of the tree are text.
  await view.locator("#q").fill("evil backoff retries");
  await text(view, ".item .name", "evil_backoff");
  await text(view, ".file .name", "onerror=alert(2)");
  assert.equal(await view.locator("#results img, #results script").count(), 0);
  assert.ok(!(await view.locator("#results").innerText()).includes("\u202e"));

  // From a result, and from the cursor.
  await view.locator("#q").fill("pause for some seconds");
  const pause = view.locator(".item").filter({ has: page.locator(".name", { hasText: /^pause$/ }) }).first();
  await pause.hover();
  await pause.getByRole("button", { name: "Similar" }).click();
  await text(view, "#title", "Similar to pause");
  await text(view, ".item .name", "rest");
  await picture(page, `similar-${scheme}`);
  await view.getByRole("button", { name: "Back to search" }).click();
  await pause.hover();
  await pause.getByRole("button", { name: "Callers" }).click();
  await text(view, "#title", "Callers of pause");
  await text(view, ".item .name", "retry_with_backoff");
  await picture(page, `callers-${scheme}`);
  await view.getByRole("button", { name: "Back to search" }).click();
  await pause.waitFor();
  // A click right after a letter is not replaced by the search for that letter.
  await view.locator("#q").fill("pause for a few seconds");
  await pause.hover();
  await pause.getByRole("button", { name: "Callees" }).click();
  await text(view, "#title", "Called by pause");
  await page.waitForTimeout(500);
  await text(view, "#title", "Called by pause");
  await view.getByRole("button", { name: "Back to search" }).click();
  await pause.hover();
  await pause.getByRole("button", { name: "Callers" }).click();
  await text(view, "#title", "Callers of pause");
  await view.locator(".open").first().press("Enter");
  await page.locator(".monaco-editor.focused").first().waitFor();
  await page.keyboard.press("Control+Home");
  for (let n = 0; n < 4; n += 1) await page.keyboard.press("ArrowDown");
  await command(page, "Find Similar Code Here");
  await answered(view, "Similar to ");

  // A line above a definition counts its tests, which is asked for only while the editor has the focus; a click lists them.
  await page.locator(".view-line", { hasText: "def retry_with_backoff" }).click();
  await page.locator(".codelens-decoration a", { hasText: "1 test" }).click();
  await answered(view, "Related to retry_with_backoff");
  await text(view, ".item .name", "test_retry");
  assert.equal(await view.locator(".item .name", { hasText: "pause" }).count(), 0);
  await picture(page, `related-${scheme}`);
  await command(page, "Find What Else May Have to Change");
  await text(view, ".item .name", "pause");

  // The state of the index.
  await page.locator(".statusbar-item", { hasText: "Quarry" }).click();
  await page.getByText(/units? in \d+ files?/).first().waitFor();
  await picture(page, `status-${scheme}`);
  await page.keyboard.press("Escape");

  // A server that ends, however, is started anew by the next search.
  await command(page, "Restart the Server");
  await view.locator("#q").fill("wait for a minute");
  await view.locator("#head").waitFor({ state: "hidden" });
  await text(view, ".item .name", "rest");
  const before = servers();
  assert.equal(before.length, 1, "one server runs");
  process.kill(before[0], "SIGKILL");
  // The number of problems has that icon too.
  const item = page.locator(".statusbar-item", { hasText: "Quarry" });
  await item.locator(".codicon-warning").waitFor();
  await view.locator("#q").fill("waits for some seconds");
  await item.locator(".codicon-search").waitFor();
  await text(view, ".item .name", "pause");
  assert.ok(servers().length === 1 && servers()[0] !== before[0], "another server runs");
}

async function checkChoice(page, view, scheme) {
  await text(view, "#summary", "which was not found");
  // Nothing has changed meanwhile.
  await view.getByRole("button", { name: "Look again" }).click();
  await page.waitForTimeout(500);
  await text(view, "#summary", "which was not found");
  await view.getByRole("button", { name: "How to install it" }).click();
  await frameOf(page, "vscode.markdown").getByText("cargo install").first().waitFor();
  await picture(page, `install-${scheme}`);
  await view.getByRole("button", { name: "Choose the program" }).click();
  await page.getByText("Another file").first().waitFor();
  await picture(page, `choose-${scheme}`);
  await page.keyboard.press("Escape");
  await page.waitForTimeout(500);
  await text(view, "#summary", "which was not found");
}

try {
  for (const [name, content] of Object.entries(FILES)) write(path.join(scratch, "shop", name), content);
  mkdirSync(path.join(scratch, "bin"));
  symlinkSync(path.resolve(options.program), path.join(scratch, "bin/quarry"));
  browser = await launch(options.chromium);
  for (const [scheme, theme] of [["light", "Default Light Modern"], ["dark", "Default Dark Modern"]]) {
    const found = await started(scheme, { "workbench.colorTheme": theme }, [path.join(scratch, "bin")]);
    await checked(found.address, scheme, (page, view) => checkSearch(page, view, scheme)).finally(found.stop);
    console.log(`search, preview, filters, similar code, callers, related code and state: as expected in ${theme}`);
  }
  const missing = await started("missing", {}, []);
  await checked(missing.address, "light", (page, view) => checkChoice(page, view, "light")).finally(missing.stop);
  console.log("without a program: the choice is offered");
} finally {
  await browser?.close();
  rmSync(scratch, { recursive: true, force: true });
}
