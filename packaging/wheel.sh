#!/bin/sh
# Builds the Python package, no larger than PyPI takes, with a built program in it:
#
#     wheel.sh PROGRAM OUT [OPTION of `maturin build`…]
set -eu
# Of a program that is not optimized, QUARRY_MAX_WHEEL_BYTES may be more.
max_bytes=${QUARRY_MAX_WHEEL_BYTES:-100000000}
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
too_large=$(find "$out" -name '*.whl' -size "+${max_bytes}c")
if [ -n "$too_large" ]; then
    echo "wheel.sh: $too_large: larger than $max_bytes bytes" >&2
    exit 1
fi
