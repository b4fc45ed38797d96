"""Creates a large tree of real code: files drawn at random from source trees, with their directories.

Draws N files (seed 42; all of them if there are fewer) with an extension of programs, from checkouts whose
directories become the directories of TARGET. The files are links to the originals where the file system allows that, so that
a tree of a million functions takes little space; do not write to them. A smaller N gives a subset of a larger one.

    python sample_tree.py TARGET N SOURCES...
"""

import os
import random
import shutil
import sys
from pathlib import Path

ENDINGS = set(
    "bash c cc cpp cs cxx go h hpp hxx java js jsx kt kts lua mjs php py pyi r rb rs sc scala sh swift ts tsx".split()
)


def sources(roots):
    for root in map(Path, roots):
        for directory, names, files in os.walk(root):
            names[:] = sorted(name for name in names if not name.startswith("."))
            for name in sorted(files):
                path = Path(directory, name)
                if name.rpartition(".")[2].lower() in ENDINGS and not name.startswith(".") and not path.is_symlink():
                    yield path, path.relative_to(root)


def link(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def main(target, n_files, *roots):
    found = list(sources(roots))
    random.Random(42).shuffle(found)
    chosen = found[: int(n_files)]
    for source, relative in chosen:
        link(source, Path(target) / relative)
    print(f"{len(chosen)} of {len(found)} files, {sum(s.stat().st_size for s, _ in chosen) / 1e6:.1f} MB: {target}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
