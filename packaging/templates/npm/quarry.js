#!/usr/bin/env node
// Starts the program of this platform's package with the arguments, streams and signals of this process, and ends as it
// does.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const path = require("node:path");
const { isatty } = require("node:tty");
const { name, optionalDependencies } = require("../package.json");

const { platform, arch } = process;

function fail(message) {
  console.error(`${name}: ${message}`);
  process.exit(2);
}

function findProgram() {
  const wanted = `${name}-${platform}-${arch}`;
  if (!Object.hasOwn(optionalDependencies, wanted)) {
    const known = Object.keys(optionalDependencies).map((dependency) => dependency.slice(name.length + 1));
    fail(`no package has the program for ${platform}-${arch}, only for ${known.join(", ")}; build it from source`);
  }
  let manifest;
  try {
    manifest = require.resolve(`${wanted}/package.json`);
  } catch {
    const libc = platform === "linux" ? "; it needs glibc" : "";
    fail(`the optional dependency ${wanted}, which has the program, is missing; reinstall ${name} without --omit=optional${libc}`);
  }
  return path.join(path.dirname(manifest), platform === "win32" ? "quarry.exe" : "quarry");
}

const program = findProgram();
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => fail(`${program}: ${error.message}`));

// A terminal, and the console of Windows, send these to both processes: this one only has to outlive them.
const sentToBoth = platform === "win32" || [0, 1, 2].some((stream) => isatty(stream)) ? ["SIGINT", "SIGQUIT"] : [];
const passedOn = platform === "win32" ? ["SIGINT"] : ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"];
for (const signal of passedOn) {
  process.on(signal, () => sentToBoth.includes(signal) || child.kill(signal));
}

child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  // For signals that this process cannot end by.
  process.exitCode = 128 + constants.signals[signal];
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
