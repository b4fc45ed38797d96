#!/bin/sh
# Installs the program of a release of Quarry for this machine, into QUARRY_INSTALL_DIR or ~/.local/bin. Needs curl or wget,
# tar, and sha256sum or shasum. A release has this file with its own address below; QUARRY_DOWNLOAD_URL names another.
set -eu
release_url=''

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

main() {
    url=${QUARRY_DOWNLOAD_URL:-$release_url}
    [ -n "$url" ] || fail 'no release is named here; take install.sh from a release, or set QUARRY_DOWNLOAD_URL'
    directory=${QUARRY_INSTALL_DIR:-$HOME/.local/bin}
    archive=quarry-$(target).tar.gz
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    download "$url/$archive" "$scratch/$archive"
    download "$url/$archive.sha256" "$scratch/$archive.sha256"
    (cd "$scratch" && check "$archive.sha256") || fail "$url/$archive: its checksum is another; download it again"
    tar -xzf "$scratch/$archive" -C "$scratch"
    mkdir -p "$directory"
    # A new file, so that a quarry that runs keeps its own.
    cp "$scratch/${archive%.tar.gz}/quarry" "$directory/.quarry.new"
    mv "$directory/.quarry.new" "$directory/quarry"
    models=$directory/../share/quarry/models
    mkdir -p "$models"
    cp -R "$scratch/${archive%.tar.gz}/models/." "$models"
    echo "installed $directory/quarry"
    case :$PATH: in
    *":$directory:"*) ;;
    *) echo "add $directory to PATH to call it as quarry" ;;
    esac
}

# The name of this machine's target among those of a release.
target() {
    case $(uname -s)-$(uname -m) in
    Linux-x86_64)
        if ldd --version 2>&1 | grep -qi musl; then
            fail 'releases are for glibc; build it: cargo install --locked --path crates/cli'
        fi
        echo x86_64-unknown-linux-gnu
        ;;
    Linux-aarch64 | Linux-arm64) echo aarch64-unknown-linux-gnu ;;
    Darwin-x86_64) echo x86_64-apple-darwin ;;
    Darwin-arm64) echo aarch64-apple-darwin ;;
    *) fail "no release is for $(uname -s) on $(uname -m); build it: cargo install --locked --path crates/cli" ;;
    esac
}

download() {
    if command -v curl >/dev/null; then
        curl -fsSL -o "$2" "$1" || fail "$1: cannot be downloaded"
    elif command -v wget >/dev/null; then
        wget -qO "$2" "$1" || fail "$1: cannot be downloaded"
    else
        fail 'neither curl nor wget is here'
    fi
}

check() {
    if command -v sha256sum >/dev/null; then
        sha256sum -c "$1" >/dev/null 2>&1
    elif command -v shasum >/dev/null; then
        shasum -a 256 -c "$1" >/dev/null 2>&1
    else
        fail 'neither sha256sum nor shasum is here to check the download with'
    fi
}

# All of it is read before any of it runs, also from a pipe that breaks.
main
