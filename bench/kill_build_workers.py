"""Kills workers of `quarry data build --nats` at random moments, and checks that what is built stays the same.

A plan whose queries a model writes and whose pairs it judges (the sources of `examples/build`) is built once without
workers, once by one worker and once by two over a NATS server, all on this machine, with a model server on loopback that
says the same to the same question. The build with two workers is disturbed: KILLS times a worker is killed (SIGKILL) and
started again, and every fifth time the build itself instead, which is then begun anew. Whenever it is done before
that, it begins once more in another directory. Exits with 1 at the first departure:

- exports, cards and metadata are the same in all, byte for byte, and nothing is left half-written;
- a question is asked again only if a worker was killed while it was under way.

    python kill_build_workers.py QUARRY [KILLS] [SEED]
"""

import asyncio
import importlib.util
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

from kill_build import EXAMPLE, files
from scripted_model import ModelServer, completion, response
from workers import Nats, Process, nats_server, repetitions, worker

QUESTIONS = 2
ANSWER_SECONDS = 0.05


def recorded_model():
    """`answer` of the example, which knows what to say to all that a build asks."""
    spec = importlib.util.spec_from_file_location("record", EXAMPLE / "record.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.answer


def write_plan(directory, url):
    """The written queries of the example, judged, with models at `url`."""
    shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns("*.build"))
    for name in ("judge.toml", "written.toml"):
        path = directory / name
        lines = [line for line in path.read_text().splitlines() if not line.startswith("replay =")]
        path.write_text("\n".join(lines).replace("http://localhost:8766/v1", url) + "\n")
    path = directory / "written.toml"
    labels = '[[labels]]\nkind = "judge"\npath = "judge.toml"\n'
    text = path.read_text().replace('[[labels]]\nkind = "negative"\n', labels)
    path.write_text(text.replace("[author.model]\n", "[author.model]\nconcurrency = 8\n"))
    return path


def result(out):
    return {**files(out / "exports"), **{name: (out / name).read_bytes() for name in ("card.md", "card.html", "croissant.json")}}


def main(quarry, kills=20, seed=1):
    kills, draw = int(kills), random.Random(int(seed))
    quarry = pathlib.Path(quarry).resolve()
    if nats_server() is None:
        print("SKIPPED: nats-server is not installed")
        return
    answer, asked, deaths = recorded_model(), defaultdict(list), []

    def script(request):
        said, begin = answer(json.loads(request.body)["messages"]), time.monotonic()
        asked[request.body].append([begin, begin + ANSWER_SECONDS])
        sent = response(completion(said))

        def later(transport):
            asyncio.get_running_loop().call_later(ANSWER_SECONDS, transport.write, sent)

        return later

    with tempfile.TemporaryDirectory() as directory, ModelServer(script) as server:
        directory = pathlib.Path(directory)
        plan = write_plan(directory / "example", server.url)
        build = lambda out, *more: [quarry, "data", "build", plan, "--out", directory / out, *more]
        subprocess.run(build("alone"), check=True, capture_output=True)
        expected, n_questions = result(directory / "alone"), len(asked)
        if server.count != n_questions:
            sys.exit("the undisturbed build asked twice")
        asked.clear()

        nats = Nats(directory / "nats")
        member = lambda: worker(quarry, nats, server.url, "--questions", QUESTIONS, "--programs", 0, "--lease", 3)
        one = member()
        subprocess.run(build("one", "--nats", nats.url), check=True, capture_output=True, timeout=300)
        if result(directory / "one") != expected or len(asked) != n_questions:
            sys.exit("one worker builds something else")
        team = [one, member()]

        killed, rounds, n_repeated = 0, 0, 0
        begin = time.monotonic()
        while killed < kills:
            asked.clear()
            rounds += 1
            out = f"two-{rounds}"
            building = Process(build(out, "--nats", nats.url))
            while building.process.poll() is None:
                before, deadline = server.count, time.monotonic() + 30
                while server.count == before and building.process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.002)
                time.sleep(draw.uniform(0, 0.3))
                if killed < kills and building.process.poll() is None:
                    killed += 1
                    victim = building if killed % 5 == 0 else draw.choice(team)
                    deaths.append(time.monotonic())
                    victim.kill()
                    deaths.append(time.monotonic())
                    victim.start()
            errors = building.process.communicate(timeout=300)[1].decode()
            if building.process.returncode:
                sys.exit(f"the build ended with {building.process.returncode}: {errors}")
            if result(directory / out) != expected:
                sys.exit("two workers, some of them killed, build something else")
            half = [path for path in (directory / out).rglob(".partial-*")]
            if half or len(asked) != n_questions:
                sys.exit(f"left half-written: {half}; {len(asked)} questions, expected {n_questions}")
            n_repeated += repetitions(asked.values(), deaths)
        took = time.monotonic() - begin
        for member in team:
            member.stop()
        nats.kill()
        print(
            f"{killed} kills of 2 workers and of the build, in {rounds} builds and {took:.1f} s: {len(expected)} files are the"
            f" same as with one worker and with none, byte for byte; {n_questions} questions a build, {n_repeated} of them"
            " repeated as they were under way at a worker that died"
        )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
