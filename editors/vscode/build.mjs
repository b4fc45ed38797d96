// Bundles the extension and the page of its view; with --tests, the tests too. With QUARRY_PROGRAM, the program of that path
// becomes part of the extension, whose package is then for one platform: npm run package -- --target linux-x64
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { extname } from "node:path";
import { build } from "esbuild";

const shared = { bundle: true, sourcemap: false, logLevel: "warning", target: "es2022", outdir: "dist" };
const node = { ...shared, platform: "node", format: "cjs" };

await build({ ...node, entryPoints: ["src/extension.ts"], external: ["vscode"], minify: true });
await build({ ...shared, entryPoints: { page: "src/page/page.ts" }, platform: "browser", format: "iife", minify: true });
if (process.argv.includes("--tests")) {
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".ts")).map((name) => `test/${name}`);
  await build({ ...node, entryPoints, outdir: "dist/test", external: ["vscode"] });
}
rmSync("bin", { recursive: true, force: true });
const program = process.env.QUARRY_PROGRAM;
if (program) {
  const target = `bin/quarry${extname(program)}`;
  mkdirSync("bin");
  copyFileSync(program, target);
  chmodSync(target, 0o755);
}
// The package holds the licenses of the project.
for (const license of ["LICENSE-APACHE", "LICENSE-MIT"]) copyFileSync(`../../${license}`, license);
