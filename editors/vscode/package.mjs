// Packages the extension: npm run package [-- --target linux-x64] [-- --out DIR].
//
// QUARRY_PROGRAM: the program that becomes part of the extension, whose package is then for one platform.
// QUARRY_REPOSITORY: the address of the repository, for the pages of a marketplace; it has the pictures at the tag of the
// version. Without it, the pictures are part of the README, which Visual Studio Code shows too.
import { chmodSync, copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { extname, resolve } from "node:path";
import { parseArgs } from "node:util";
import { createVSIX } from "@vscode/vsce";

/** The files of the package, as vsce takes them. */
const STAGE = "dist/package";
/** The place of the extension in the repository. */
const DIRECTORY = "editors/vscode";

const { values: options } = parseArgs({ options: { target: { type: "string" }, out: { type: "string", default: "." } } });
const { QUARRY_PROGRAM: program, QUARRY_REPOSITORY: repository } = process.env;
const manifest = JSON.parse(readFileSync("package.json", "utf8"));
// JSON leaves these out, which are only for development.
Object.assign(manifest, { files: ["**"], private: undefined, scripts: undefined, dependencies: undefined, devDependencies: undefined });

rmSync(STAGE, { recursive: true, force: true });
for (const part of ["CHANGELOG.md", "media", "dist/extension.js", "dist/page.js"]) cpSync(part, `${STAGE}/${part}`, { recursive: true });

if (repository) {
  manifest.repository = { type: "git", url: `${repository}.git`, directory: DIRECTORY };
  manifest.homepage = `${repository}/tree/v${manifest.version}/${DIRECTORY}`;
  manifest.bugs = { url: `${repository}/issues` };
}
writeFileSync(`${STAGE}/package.json`, JSON.stringify(manifest, null, 2));

const addressOf = (picture) =>
  repository ? `${repository}/raw/v${manifest.version}/${DIRECTORY}/${picture}` : `data:image/png;base64,${readFileSync(picture, "base64")}`;
const readme = readFileSync("README.md", "utf8").replaceAll(/\]\((images\/[^)]+)\)/g, (_, picture) => `](${addressOf(picture)})`);
writeFileSync(`${STAGE}/README.md`, readme);

// Marketplaces show one file with the license.
const licenses = ["MIT", "APACHE"].map((name) => readFileSync(`../../LICENSE-${name}`, "utf8"));
writeFileSync(`${STAGE}/LICENSE.txt`, ["MIT OR Apache-2.0, at your option.\n", ...licenses].join("\n---\n\n"));

if (program) {
  const target = `${STAGE}/bin/quarry${extname(program)}`;
  mkdirSync(`${STAGE}/bin`);
  copyFileSync(program, target);
  chmodSync(target, 0o755);
}

mkdirSync(options.out, { recursive: true });
const platform = options.target === undefined ? "" : `-${options.target}`;
const packagePath = resolve(options.out, `${manifest.name}${platform}-${manifest.version}.vsix`);
// Relative links break in a marketplace; without a repository, pictures have no addresses of the web.
const published = { allowMissingRepository: !repository, rewriteRelativeLinks: Boolean(repository) };
await createVSIX({ cwd: STAGE, packagePath, target: options.target, dependencies: false, ...published });
