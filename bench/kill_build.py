"""Kills `quarry data build` at random moments and checks that nothing is lost.

The example in `examples/build` is built once without a kill, and once in another directory with KILLS kills (SIGKILL),
each after a random part of the time that the first build took. In between, a second process that builds in the same
directory must be refused or find nothing to wait for. Then the build is completed, and its exports and its card must be
those of the first one, byte for byte; no incomplete file may be left. Exits with 1 at the first violation.

    python kill_build.py QUARRY [KILLS] [SEED]
"""

import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

EXAMPLE = pathlib.Path(__file__).parent.parent / "examples" / "build"


def files(directory):
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def result(out):
    return {**files(out / "exports"), "card.md": (out / "card.md").read_bytes()}


def main():
    quarry = pathlib.Path(sys.argv[1]).resolve()
    n_kills = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        shutil.copytree(EXAMPLE, directory / "example", ignore=shutil.ignore_patterns("*.build"))
        command = [quarry, "data", "build", directory / "example" / "plan.toml", "--out"]
        start = time.monotonic()
        subprocess.run([*command, directory / "whole"], check=True, capture_output=True)
        taken = time.monotonic() - start
        out, ended, longest = directory / "killed", 0, taken
        for number in range(n_kills):
            # Finished work is kept, so later runs are shorter: from time to time the build starts from scratch.
            if number % 2 == 0:
                shutil.rmtree(out, ignore_errors=True)
            process = subprocess.Popen([*command, out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0, longest))
            if process.poll() is None:
                other = subprocess.run([*command, out], capture_output=True, text=True)
                if other.returncode not in (0, 2) or other.returncode == 2 and "is running here" not in other.stderr:
                    sys.exit(f"a second process: {other.stderr}")
            ended += process.poll() is not None
            process.kill()
            process.wait()
        subprocess.run([*command, out], check=True, capture_output=True)
        if result(out) != result(directory / "whole"):
            sys.exit("the build that was killed differs from the other one")
        half = [path for path in out.rglob(".partial-*")]
        if half:
            sys.exit(f"left half-written: {half}")
        print(f"{n_kills} kills, of which {ended} came too late; {len(result(out))} files are the same, byte for byte")


if __name__ == "__main__":
    main()
