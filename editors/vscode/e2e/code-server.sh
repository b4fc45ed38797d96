#!/bin/sh
# Installs Visual Studio Code for browsers (code-server) from npm into a directory, for e2e.mjs: code-server.sh DIR.
# Needs Node.js 20 with its headers (/usr/include/node, or NODE_DIR), a C++ compiler, python3 and ripgrep.
set -eu
directory=$1
export npm_config_nodedir="${NODE_DIR:-/usr}"
mkdir -p "$directory"
cd "$directory"
[ -e package.json ] || npm init --yes >/dev/null
# Scripts of packages would download from hosts other than the registry: what is compiled is named below.
quiet='--no-audit --no-fund --ignore-scripts'
npm install $quiet code-server@4.100.3
npm rebuild --build-from-source argon2
code=$PWD/node_modules/code-server/lib/vscode
cd "$code"
npm install $quiet --omit=dev
npm rebuild @vscode/spdlog native-watchdog @vscode/deviceid
# Its own script compiles it, and then looks for programs that are only needed on Windows.
npm rebuild node-pty || test -e node_modules/node-pty/build/Release/pty.node
mkdir -p node_modules/@vscode/ripgrep/bin
ln -sf "$(command -v rg)" node_modules/@vscode/ripgrep/bin/rg
ln -sfn node_modules node_modules.asar
cd extensions
npm install $quiet --omit=dev
ln -sfn node_modules node_modules.asar
