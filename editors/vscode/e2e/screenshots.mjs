// Takes the pictures of the README: the extension in a real Visual Studio Code (code-server), with this repository open.
//
//   npm ci && npm run package
//   sh e2e/code-server.sh DIR
//   node e2e/screenshots.mjs --code-server DIR --program ../../target/release/quarry [--out DIR]
//
// Needs git, pngquant and Chromium, at /usr/bin/chromium or --chromium FILE. Look at each picture before you commit it.

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { parseArgs } from "node:util";

import { command, launch, open, start, text } from "./code.mjs";

const SIDE_BAR = 470;
/** Time until Visual Studio Code has colored the source and asked for the numbers, in milliseconds. */
const SETTLED = 2500;

const { values: options } = parseArgs({
  options: {
    "code-server": { type: "string" },
    program: { type: "string" },
    out: { type: "string", default: "images" },
    chromium: { type: "string", default: "/usr/bin/chromium" },
  },
});
if (options["code-server"] === undefined || options.program === undefined) {
  console.error("expected --code-server DIR and --program FILE");
  process.exit(2);
}

/** The pictures, each with its theme, its query, and how to get there. */
const PICTURES = {
  search: { scheme: "dark", query: "stop a child process after a timeout", show: search },
  filters: { scheme: "light", query: "parse a duration such as 5m", show: filters },
  similar: { scheme: "light", query: "try to lock a file", show: similar },
  callers: { scheme: "dark", query: "try to lock a file", show: callers },
  related: { scheme: "light", query: "try to lock a file", show: related },
};
const THEMES = { light: "Default Light Modern", dark: "Default Dark Modern" };

/** Searches, and previews the first result. */
async function search(page, view, query) {
  await view.locator("#q").fill(query);
  await text(view, "#summary", /results? in/);
  await view.locator("#q").press("ArrowDown");
  await page.locator(".codelens-decoration").first().waitFor();
}

async function filters(page, view, query) {
  await view.locator("#toggle").click();
  await view.locator("[name=language]").selectOption("rust");
  await view.locator("[name=kind]").selectOption("function");
  await view.locator("[name=glob]").fill("crates/**");
  await search(page, view, query);
}

async function similar(page, view, query) {
  await search(page, view, query);
  await view.getByRole("button", { name: "Similar" }).first().click();
  await text(view, "#title", "Similar to");
  await view.locator(".open").nth(1).click();
}

async function callers(page, view, query) {
  await search(page, view, query);
  await view.getByRole("button", { name: "Callers" }).first().click();
  await text(view, "#title", "Callers of");
  await view.locator(".open").first().click();
}

async function related(page, view, query) {
  await search(page, view, query);
  await counted(page);
  await command(page, "Find What Else May Have to Change");
  await text(view, "#title", "Related to");
}

/** Waits until each visible definition has the number of its tests. */
async function counted(page) {
  await page.waitForTimeout(SETTLED);
  const isCounted = () => {
    const isVisible = (element) => element.style.display !== "none";
    const gaps = [...document.querySelectorAll(".editor-instance .view-zones > div")].filter(isVisible);
    const counts = [...document.querySelectorAll(".codelens-decoration:has(a)")].filter(isVisible);
    return gaps.length > 0 && counts.length >= gaps.length;
  };
  await page.waitForFunction(isCounted);
}

/** Makes the side bar as wide as the results need. */
async function widen(page) {
  const bar = await page.locator(".part.sidebar").boundingBox();
  const edge = bar.x + bar.width;
  await page.mouse.move(edge, 300);
  await page.mouse.down();
  await page.mouse.move(bar.x + SIDE_BAR, 300, { steps: 5 });
  await page.mouse.up();
}

// No name of this machine or its user is in the picture.
const scratch = path.join(tmpdir(), "quarry-demo");
mkdirSync(scratch);
const folder = path.join(scratch, "quarry");
let browser;
try {
  execFileSync("git", ["clone", "--quiet", "../..", folder]);
  // This file has the queries, and would be found.
  rmSync(path.join(folder, "editors/vscode/e2e/screenshots.mjs"));
  mkdirSync(path.join(scratch, "bin"));
  symlinkSync(path.resolve(options.program), path.join(scratch, "bin/quarry"));
  // Reads the history too.
  execFileSync(path.join(scratch, "bin/quarry"), ["related", "try_lock"], { cwd: folder, env: { ...process.env, XDG_CACHE_HOME: path.join(scratch, "own/cache") }, stdio: "ignore" });
  mkdirSync(options.out, { recursive: true });
  browser = await launch(options.chromium);
  for (const [scheme, theme] of Object.entries(THEMES)) {
    const settings = { "workbench.colorTheme": theme, "window.title": "${rootName}", "editor.minimap.enabled": false, "breadcrumbs.enabled": false };
    const code = await start({ installation: options["code-server"], own: path.join(scratch, "own"), folder, settings, onPath: [path.join(scratch, "bin")] });
    try {
      for (const [name, picture] of Object.entries(PICTURES)) {
        if (picture.scheme !== scheme) continue;
        const { page, view } = await open(browser, code.address, { viewport: { width: 1200, height: 720 }, deviceScaleFactor: 2, colorScheme: scheme });
        await widen(page);
        await picture.show(page, view, picture.query);
        await page.mouse.move(1000, 15);
        await counted(page);
        const file = path.join(options.out, `${name}.png`);
        await page.screenshot({ path: file });
        // Without dots between the colors, which compress badly.
        execFileSync("pngquant", ["--force", "--speed", "1", "--strip", "--nofs", "--output", file, "32", file]);
        await page.context().close();
      }
    } finally {
      await code.stop();
    }
  }
} finally {
  await browser?.close();
  rmSync(scratch, { recursive: true, force: true });
}
