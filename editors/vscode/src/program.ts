// Finds the program `quarry`: in the extension, on PATH, or in a Python environment.

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, realpath, stat } from "node:fs/promises";
import { homedir } from "node:os";
import * as path from "node:path";

/** A program that can be used. */
export interface Program {
  file: string;
  version: string;
  /** Where it was found, for people. */
  origin: string;
}

/** The origin of the program that packages for one platform have. */
export const BUNDLED = "of this extension";

/** Where to look. */
export interface Places {
  /** The directory of the extension. */
  extension: string;
  env: NodeJS.ProcessEnv;
  /** Folders whose Python environments count: those of a workspace that the user trusts. */
  folders: string[];
  home: string;
  platform: NodeJS.Platform;
}

/** The longest that a program may take to print its version, in milliseconds. */
const PATIENCE = 10_000;

export function places(extension: string, folders: string[]): Places {
  return { extension, env: process.env, folders, home: homedir(), platform: process.platform };
}

/** Files that may be the program, the likeliest first. Relative parts of PATH do not count: they are in any folder. */
export function candidates({ extension, env, folders, home, platform }: Places): { file: string; origin: string }[] {
  const isWindows = platform === "win32";
  const name = isWindows ? "quarry.exe" : "quarry";
  const bin = isWindows ? "Scripts" : "bin";
  const join = isWindows ? path.win32 : path.posix;
  const variable = (wanted: string) => Object.entries(env).find(([known]) => known.toUpperCase() === wanted)?.[1];
  const onPath = (variable("PATH") ?? "").split(join.delimiter).filter((part) => join.isAbsolute(part));
  const environments = [variable("VIRTUAL_ENV"), variable("CONDA_PREFIX")].filter((part) => part !== undefined && join.isAbsolute(part));
  const ofFolders = folders.flatMap((folder) => [".venv", "venv"].map((part) => join.join(folder, part)));
  const found = [
    { file: join.join(extension, "bin", name), origin: BUNDLED },
    ...onPath.map((directory) => ({ file: join.join(directory, name), origin: "on PATH" })),
    ...[...(environments as string[]), ...ofFolders].map((directory) => ({ file: join.join(directory, bin, name), origin: "Python package" })),
    { file: join.join(home, ".local", "bin", name), origin: "Python package of this user" },
    { file: join.join(home, ".cargo", "bin", name), origin: "installed with cargo" },
  ];
  return found.filter(({ file }, at) => found.findIndex((other) => other.file === file) === at);
}

/** The version that a program prints, if it is Quarry. */
export async function versionOf(file: string): Promise<string | undefined> {
  try {
    if (!(await stat(file)).isFile()) return undefined;
    await access(file, constants.X_OK);
  } catch {
    return undefined;
  }
  return new Promise((resolve) => {
    execFile(file, ["--version"], { timeout: PATIENCE, windowsHide: true }, (error, output) => {
      resolve(error === null ? /^quarry (\S+)/.exec(output)?.[1] : undefined);
    });
  });
}

/** The programs that can be used, each once: links to the same file are one. */
export async function programs(where: Places): Promise<Program[]> {
  const checked = await Promise.all(
    candidates(where).map(async ({ file, origin }) => {
      const version = await versionOf(file);
      return version === undefined ? undefined : { file, version, origin, real: await realpath(file) };
    }),
  );
  const found = checked.filter((one) => one !== undefined);
  const isFirst = (real: string, at: number) => found.findIndex((other) => other.real === real) === at;
  return found.filter(({ real }, at) => isFirst(real, at)).map(({ file, version, origin }) => ({ file, version, origin }));
}
