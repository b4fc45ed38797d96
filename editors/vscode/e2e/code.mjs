// Visual Studio Code (code-server) in Chromium, as the programs of this directory use it.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import * as path from "node:path";

import { chromium } from "playwright-core";

const PATIENCE = 30_000;

/** Settings against distractions: welcome pages, recommendations, tips, updates. */
const QUIET = {
  "workbench.startupEditor": "none", "git.enabled": false, "extensions.autoUpdate": false, "workbench.tips.enabled": false,
  "security.workspace.trust.enabled": false, "extensions.ignoreRecommendations": true, "chat.commandCenter.enabled": false,
};

export function write(file, text) {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/**
 * Starts Visual Studio Code on the folder, with the packaged extension.
 *
 * `installation` is what code-server.sh made; `own` becomes the directory of this one's home, settings and extensions.
 */
export async function start({ installation, own, folder, settings, onPath }) {
  const entry = path.join(installation, "node_modules/code-server/out/node/entry.js");
  const [vsix] = readdirSync(".").filter((name) => name.endsWith(".vsix"));
  assert.ok(vsix, "npm run package makes the extension's package");
  write(path.join(own, "data/User/settings.json"), JSON.stringify({ ...QUIET, ...settings }));
  write(path.join(own, "config.yaml"), "auth: none\n");
  // Extensions have the environment of a login shell.
  const shellPath = [...onPath, path.dirname(process.execPath), "/usr/bin", "/bin"].join(":");
  write(path.join(own, ".profile"), `PATH='${shellPath}'\n`);
  const env = {
    ...process.env, PATH: shellPath, HOME: own, SHELL: "/bin/sh", VIRTUAL_ENV: "", CONDA_PREFIX: "",
    XDG_CACHE_HOME: path.join(own, "cache"), XDG_STATE_HOME: path.join(own, "state"), XDG_DATA_HOME: path.join(own, "share"), XDG_CONFIG_HOME: path.join(own, "config"),
  };
  const shared = [entry, "--config", path.join(own, "config.yaml"), "--user-data-dir", path.join(own, "data"), "--extensions-dir", path.join(own, "extensions")];
  execFileSync(process.execPath, [...shared, "--install-extension", vsix], { env, stdio: "pipe" });
  const port = await freePort();
  const server = spawn(process.execPath, [...shared, "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check"], { env, stdio: "pipe" });
  let log = "";
  await new Promise((resolve, reject) => {
    server.stdout.on("data", (data) => {
      log += data;
      if (log.includes("HTTP server listening")) resolve();
    });
    server.stderr.on("data", (data) => (log += data));
    server.on("exit", () => reject(new Error(log)));
  });
  const stop = () => new Promise((resolve) => {
    server.on("exit", resolve);
    server.kill();
  });
  return { address: `http://127.0.0.1:${port}/?folder=${encodeURIComponent(folder)}`, stop };
}

export function launch(executablePath) {
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

/** The page that an extension shows inside of Visual Studio Code. */
export function frameOf(page, extension) {
  return page.frameLocator(`iframe.webview.ready[src*="extensionId=${extension}"]`).frameLocator("#active-frame");
}

/** A page with Visual Studio Code, and the view of the extension. */
export async function open(browser, address, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on("dialog", (dialog) => assert.fail(`a dialog opened: ${dialog.message()}`));
  await page.goto(address);
  await page.getByRole("tab", { name: "Quarry" }).first().click();
  await page.mouse.move(640, 400);
  const view = frameOf(page, "quarry.");
  await view.locator("#q").waitFor();
  return { page, view };
}

export async function command(page, name) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input[type=text]").fill(`>${name}`);
  await page.getByRole("option", { name: `Quarry: ${name}` }).first().waitFor();
  await page.keyboard.press("Enter");
}

/** Waits until the view shows a text somewhere. */
export const text = (view, selector, wanted) => view.locator(selector, { hasText: wanted }).first().waitFor();
