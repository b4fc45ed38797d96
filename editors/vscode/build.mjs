// Bundles the extension and the page of its view; with --tests, the tests too.
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const shared = { bundle: true, sourcemap: false, logLevel: "warning", target: "es2022", outdir: "dist" };
const node = { ...shared, platform: "node", format: "cjs" };

await build({ ...node, entryPoints: ["src/extension.ts"], external: ["vscode"], minify: true });
await build({ ...shared, entryPoints: { page: "src/page/page.ts" }, platform: "browser", format: "iife", minify: true });
if (process.argv.includes("--tests")) {
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".ts")).map((name) => `test/${name}`);
  await build({ ...node, entryPoints, outdir: "dist/test", external: ["vscode"] });
}
