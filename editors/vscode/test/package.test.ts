import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";

interface Manifest {
  version: string;
  icon: string;
  repository?: { url: string; directory: string };
  scripts?: object;
  contributes: { commands: { command: string; title: string }[]; configuration: { properties: Record<string, unknown> } };
}

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const readme = readFileSync("README.md", "utf8");

/** Width and height of a PNG. */
function sizeOf(file: string): [number, number] {
  const head = readFileSync(file).subarray(0, 24);
  assert.equal(head.toString("latin1", 1, 4), "PNG", file);
  return [head.readUInt32BE(16), head.readUInt32BE(20)];
}

/** Packages the extension; returns what its package was made of. */
function staged(environment: NodeJS.ProcessEnv): { manifest: Manifest; readme: string } {
  const out = mkdtempSync(path.join(tmpdir(), "quarry-"));
  try {
    const env = { ...process.env, QUARRY_PROGRAM: "", QUARRY_REPOSITORY: "", ...environment };
    const { status, stdout, stderr } = spawnSync(process.execPath, ["package.mjs", "--out", out], { env, encoding: "utf8" });
    assert.equal(status, 0, stderr);
    assert.ok(!/warning/i.test(stdout + stderr), stdout + stderr);
    assert.deepEqual(readdirSync(out), [`quarry-code-search-${manifest.version}.vsix`]);
  } finally {
    rmSync(out, { recursive: true });
  }
  return { manifest: JSON.parse(readFileSync("dist/package/package.json", "utf8")) as Manifest, readme: readFileSync("dist/package/README.md", "utf8") };
}

test("the README names every command and every setting", () => {
  const rows = [...readme.matchAll(/^\| (.+?) \|/gm)].map(([, name]) => name);
  for (const { title } of manifest.contributes.commands) assert.ok(rows.includes(`Quarry: ${title}`), title);
  for (const name of Object.keys(manifest.contributes.configuration.properties)) assert.ok(rows.includes(`\`${name}\``), name);
});

test("the version is that of the program", () => {
  assert.equal(/^version = "(.+)"$/m.exec(readFileSync("../../Cargo.toml", "utf8"))?.[1], manifest.version);
});

test("the icon and the pictures are as marketplaces want them", () => {
  assert.ok(sizeOf(manifest.icon).every((side) => side >= 128));
  const pictures = [...readme.matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g)];
  assert.deepEqual(pictures.map(([, , file]) => file).sort(), readdirSync("images").map((name) => `images/${name}`).sort());
  for (const [, description, file = ""] of pictures) {
    assert.ok(description !== "" && existsSync(file), file);
    assert.ok(sizeOf(file)[0] >= 1000, `${file} is crisp`);
  }
});

test("a package for a marketplace has the address of the repository, and pictures there", () => {
  const published = staged({ QUARRY_REPOSITORY: "https://github.com/owner/name" });
  assert.deepEqual(published.manifest.repository, { type: "git", url: "https://github.com/owner/name.git", directory: "editors/vscode" });
  assert.equal(published.manifest.scripts, undefined);
  assert.ok(published.readme.includes(`](https://github.com/owner/name/raw/v${manifest.version}/editors/vscode/images/search.png)`));
  assert.ok(!published.readme.includes("](images/"));
});

test("a package without an address holds the pictures", () => {
  const local = staged({});
  assert.equal(local.manifest.repository, undefined);
  assert.ok(local.readme.includes("](data:image/png;base64,"));
  assert.ok(!local.readme.includes("](images/"));
});
