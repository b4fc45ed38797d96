"""Tests of quarry_action.py on repositories that attack, with a program that reports nothing in place of quarry."""

import os
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

ACTION = Path(__file__).with_name("quarry_action.py")
# `quarry eval repo` has nothing to report.
PROGRAM = """#!/bin/sh
case $1 in index) echo '{"files": 1, "units": 1}';; related) cat "$HOME/related";; *) echo "$3" >>"$ASKED"; exit 1;; esac
"""


class Action(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name).resolve()
        self.workspace = self.work / "workspace"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.work), "ASKED": str(self.work / "asked")}
        self.program = self.work / "quarry"
        self.write(self.program, PROGRAM, executable=True)
        self.write(self.work / "related", '{"results": []}')
        self.write(self.workspace / "src/code.py", "def f():\n    pass\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("One")

    def write(self, path, text, executable=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable:
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def git(self, *arguments):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", *identity, *arguments], cwd=self.workspace, env=self.environment, check=True)

    def commit(self, message):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def act(self, path):
        environment = self.environment | {
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.work),
            "QUARRY_PATH": path,
            "QUARRY_BASE": "main",
            "QUARRY_QUERIES": "10",
            "QUARRY_FAIL_IF_WORSE": "false",
            "QUARRY_TOKEN": "",
            "QUARRY_PROGRAM": str(self.program),
        }
        for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_PATH"):
            environment[name] = str(self.work / name)
        command = ["python3", "-I", ACTION]
        return subprocess.run(command, cwd=self.workspace, env=environment, capture_output=True, encoding="utf-8")

    def test_measures_the_same_directory_of_both_trees(self):
        self.git("checkout", "--quiet", "-b", "change")
        ended = self.act("src")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        head, base = (self.work / "asked").read_text().splitlines()
        self.assertEqual(head, str(self.workspace / "src"))
        self.assertRegex(base, r"/base-tree/src$")
        trees = subprocess.run(["git", "worktree", "list"], cwd=self.workspace, capture_output=True, text=True)
        self.assertEqual(trees.stdout.count("\n"), 1, "the work tree of the base is removed")

    def test_does_not_take_a_directory_of_the_pull_request_for_a_repository(self):
        """A pull request fills its `src` like a bare repository, with settings that name its program."""
        self.git("checkout", "--quiet", "-b", "change")
        ran = self.work / "ran"
        program = self.workspace / "src/program"
        self.write(program, f"#!/bin/sh\ntouch {ran}\ncat\n", executable=True)
        self.write(self.workspace / ".gitattributes", "*.py filter=theirs\n")
        settings = f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = "{program}"\n'
        settings += f'[filter "theirs"]\nsmudge = "{program}"\nclean = "{program}"\n'
        self.write(self.workspace / "src/config", settings)
        git_directory = self.workspace / ".git"
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=self.workspace, text=True)
        self.write(self.workspace / "src/HEAD", commit)
        self.write(self.workspace / "src/refs/heads/main", commit)
        for file in (git_directory / "objects").rglob("*"):
            if file.is_file():
                target = self.workspace / "src/objects" / file.relative_to(git_directory / "objects")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
        # git takes it for one.
        command = ["git", "rev-parse", "--absolute-git-dir"]
        found = subprocess.check_output(command, cwd=self.workspace / "src", text=True)
        self.assertEqual(found, f"{self.workspace}/src\n")
        self.commit("Two")
        ran.unlink(missing_ok=True)
        ended = self.act("src")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertFalse(ran.exists(), "the pull request's program ran")

    def test_lists_untouched_places_as_text(self):
        self.git("checkout", "--quiet", "-b", "change")
        self.write(self.workspace / "src/code.py", "def f():\n    return 1\n")
        self.commit("Two")
        place = '{"root": "%s", "path": "%s", "start_line": 3, "name": "%s", "probability": %s, "reasons": [%s]}'
        reason = '{"evidence": "changed in 7 of its 9 commits"}'
        found = [("code.py", "f", 0.9), ("b.py", "<b>g|h</b>", 0.6), ("c.py", "rare", 0.1)]
        found = [place % (self.workspace / "src", path, name, share, reason) for path, name, share in found]
        self.write(self.work / "related", '{"results": [%s]}' % ", ".join(found))
        ended = self.act("src")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        summary = (self.work / "GITHUB_STEP_SUMMARY").read_text()
        [line] = [line for line in summary.splitlines() if "60%" in line]
        self.assertNotRegex(line, r"<b>|g\|h")
        self.assertNotIn("90%", summary)
        self.assertNotIn("rare", summary)

    def test_needs_a_clone(self):
        (self.workspace / ".git").rename(self.work / "elsewhere")
        ended = self.act("src")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("is not in a clone", ended.stdout)


if __name__ == "__main__":
    unittest.main()
