#!/bin/sh
# Packs the files of a release, each with its checksum beside it:
#
#     pack.sh PROGRAM TARGET OUT    OUT/quarry-TARGET.tar.gz, or .zip for Windows: a built program with its model
#     pack.sh --models OUT          OUT/quarry-model-best.tar.gz: the model, as `quarry model pull` takes it
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
models=$root/crates/embed/models

write_checksum() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1" >"$1.sha256"
    else
        shasum -a 256 "$1" >"$1.sha256"
    fi
    echo "$out/$1"
}

if [ "$1" = --models ]; then
    out=$2
    mkdir -p "$out"
    cd "$out"
    archive=quarry-model-best.tar.gz
    cut -f1 "$models/files.tsv" | tar --format ustar -czf "$archive" -C "$models" -T -
    write_checksum "$archive"
    exit
fi

program=$1 target=$2 out=$3
# The installers and packages look for this name in the archive.
case ${program##*/} in
quarry | quarry.exe) ;;
*)
    echo "pack.sh: $program: expected a program named quarry or quarry.exe" >&2
    exit 1
    ;;
esac
name=quarry-$target
rm -rf "${out:?}/$name"
mkdir -p "$out/$name"
cp "$program" "$root/README.md" "$root/CHANGELOG.md" "$root/LICENSE-APACHE" "$root/LICENSE-MIT" "$out/$name/"
mkdir "$out/$name/models"
cp -R "$models/best" "$out/$name/models/"
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
write_checksum "$archive"
