#!/bin/sh
# Packs the files of a release, each with its checksum beside it:
#
#     pack.sh PROGRAM TARGET OUT    OUT/quarry-TARGET.tar.gz, or .zip for Windows: a built program with its models
#     pack.sh --models OUT          OUT/quarry-model-NAME.tar.gz: the models, as `quarry model pull` takes them
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
    for model in balanced best; do
        archive=quarry-model-$model.tar.gz
        cut -f1 "$models/files.tsv" | grep "^$model/" | tar --format ustar -czf "$archive" -C "$models" -T -
        write_checksum "$archive"
    done
    exit
fi

program=$1 target=$2 out=$3
name=quarry-$target
rm -rf "${out:?}/$name"
mkdir -p "$out/$name"
cp "$program" "$root/README.md" "$root/CHANGELOG.md" "$root/LICENSE-APACHE" "$root/LICENSE-MIT" "$out/$name/"
mkdir "$out/$name/models"
cp -R "$models/balanced" "$models/best" "$out/$name/models/"
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
