#!/bin/sh
# Builds the Python package with a built program in it: wheel.sh PROGRAM OUT [OPTION of `maturin build`…].
set -eu
program=$1 out=$2
shift 2
cd "$(dirname "$0")/.."
scripts=packaging/wheel/scripts
trap 'rm -rf "$scripts"' EXIT
mkdir -p "$scripts"
case $program in
*.exe) cp "$program" "$scripts/quarry.exe" ;;
*) install -m 755 "$program" "$scripts/quarry" ;;
esac
maturin build --out "$out" "$@"
