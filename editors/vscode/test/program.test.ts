import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";

import { type Places, candidates, programs, versionOf } from "../src/program";

const NONE: Places = { extension: "/extension", env: {}, folders: [], home: "/nobody", platform: "linux" };

/** Runs a test with a directory of its own. */
async function within(run: (directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), "quarry-"));
  try {
    await run(directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function script(file: string, body: string): string {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
  return file;
}

test("the program of the extension comes first, then PATH, then environments, each file once", () => {
  const found = candidates({ ...NONE, env: { PATH: "/usr/bin:relative:/usr/bin:/opt/bin", VIRTUAL_ENV: "/venv" }, folders: ["/shop"] });
  assert.deepEqual(found.map(({ file }) => file), [
    "/extension/bin/quarry", "/usr/bin/quarry", "/opt/bin/quarry", "/venv/bin/quarry", "/shop/.venv/bin/quarry", "/shop/venv/bin/quarry",
    "/nobody/.local/bin/quarry", "/nobody/.cargo/bin/quarry",
  ]);
});

test("Windows has other names", () => {
  const found = candidates({ ...NONE, platform: "win32", home: "C:\\Users\\me", env: { Path: "C:\\bin;D:\\tools" }, folders: ["C:\\shop"] });
  assert.ok(found.some(({ file }) => file === "D:\\tools\\quarry.exe"));
  assert.ok(found.some(({ file }) => file === "C:\\shop\\.venv\\Scripts\\quarry.exe"));
});

test("a program is what prints its version", { skip: process.platform === "win32" }, () =>
  within(async (directory) => {
    const file = (name: string) => path.join(directory, name);
    assert.equal(await versionOf(script(file("good"), "echo quarry 1.2.3 abc")), "1.2.3");
    assert.equal(await versionOf(script(file("other"), "echo ripgrep 14")), undefined);
    assert.equal(await versionOf(script(file("failing"), "echo quarry 1.2.3; exit 1")), undefined);
    assert.equal(await versionOf(file("missing")), undefined);
    assert.equal(await versionOf(directory), undefined);
    writeFileSync(file("plain"), "#!/bin/sh\necho quarry 1\n", { mode: 0o644 });
    assert.equal(await versionOf(file("plain")), undefined);
  }));

test("links to the same program are one", { skip: process.platform === "win32" }, () =>
  within(async (directory) => {
    const first = script(path.join(directory, "a", "quarry"), "echo quarry 1.0.0");
    mkdirSync(path.join(directory, "b"));
    symlinkSync(first, path.join(directory, "b", "quarry"));
    const second = script(path.join(directory, "shop", ".venv", "bin", "quarry"), "echo quarry 2.0.0");
    const where = { ...NONE, env: { PATH: ["a", "b"].map((part) => path.join(directory, part)).join(":") }, folders: [path.join(directory, "shop")] };
    assert.deepEqual(await programs(where), [
      { file: first, version: "1.0.0", origin: "on PATH" },
      { file: second, version: "2.0.0", origin: "Python package" },
    ]);
    assert.deepEqual(await programs(NONE), []);
  }));
