#!/bin/sh
# Packs a built program for a release: pack.sh PROGRAM TARGET OUT writes OUT/quarry-TARGET.tar.gz, or .zip for Windows, and
# its checksum beside it.
set -eu
program=$1 target=$2 out=$3
root=$(cd "$(dirname "$0")/.." && pwd)
name=quarry-$target
rm -rf "${out:?}/$name"
mkdir -p "$out/$name"
cp "$program" "$root/README.md" "$root/CHANGELOG.md" "$root/LICENSE-APACHE" "$root/LICENSE-MIT" "$out/$name/"
mkdir "$out/$name/models"
cp -R "$root/crates/embed/models/balanced" "$root/crates/embed/models/best" "$out/$name/models/"
cd "$out"
case $target in
*windows*)
    archive=$name.zip
    7z a -bd "$archive" "$name" >/dev/null
    ;;
*)
    archive=$name.tar.gz
    tar -czf "$archive" "$name"
    ;;
esac
rm -rf "$name"
if command -v sha256sum >/dev/null; then
    sha256sum "$archive" >"$archive.sha256"
else
    shasum -a 256 "$archive" >"$archive.sha256"
fi
echo "$out/$archive"
