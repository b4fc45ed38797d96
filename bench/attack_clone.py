"""Runs quarry on source trees that try to harm users who clone or unpack them, and checks that they fail.

Each attack creates a tree beside unrelated files and a home directory, and runs every command that a user
would run there. A command must end in time with exit code 0, 1 or 2; it must not panic, write raw escape
sequences, call the server that the trees name, start programs that they name, or change anything except the user's cache and
state directories and the index that it is asked to build in the tree. Exits with 1 after printing all violations.

    python attack_clone.py QUARRY [ATTACK …]
"""

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

SECONDS = 30
SOURCE = 'def connect(host):\n    """Open a socket to a host."""\n    return dial(host)\n'
# Terminal controls in UTF-8: ESC, BEL, a C1 control and a bidirectional override.
RAW = [b"\x1b", b"\x07", b"\xc2\x9b", "\u202e".encode()]
ESCAPES = "\x1b]0;owned\x07\x1b[31m\u202e\u009b"
HASH = "0123456789abcdef"

# Commands, and the paths in the tree that they may write.
COMMANDS = [
    (["search", "open a socket to a host"], None),
    (["search", "open a socket", "--no-ignore", "--hidden", "--json"], None),
    (["search", "-e", "secret|connect"], None),
    (["similar", "net.py:1"], None),
    (["status"], None),
    (["doctor"], None),
    (["config"], None),
    (["index"], None),
    (["eval", "repo", "."], None),
    (["mcp"], None),
    (["cache", "list"], None),
    (["cache", "prune"], None),
    (["index", "--index", "made/index"], "made"),
    (["index", "--local"], ".quarry"),
    (["search", "open a socket", "--no-ignore", "--hidden"], ".quarry"),
]

MESSAGES = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "attack", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "open a socket"}}},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "read_unit", "arguments": {"path": "../outside/secret.py", "line": 1}}},
]


class World:
    """A tree, files beside it, and a home directory."""

    def __init__(self, directory, server):
        self.base, self.server = directory, server
        self.tree, self.outside, self.home = directory / "clone", directory / "outside", directory / "home"
        for path in [self.tree, self.outside, self.home]:
            path.mkdir()
        (self.outside / "secret.py").write_text("def secret():\n    return 'XSECRETX'\n")
        (self.outside / "secret.toml").write_text("max_output_tokens = 5\nuser = 'XSECRETX'\nanswer = { form = 'program' }\n")
        (self.outside / "directory").mkdir()
        (self.outside / "directory" / "inner.py").write_text("def inner():\n    return 'XSECRETX'\n")
        (self.tree / "net.py").write_text(SOURCE)

    def write(self, path, text):
        path = self.tree / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def link(self, path, target):
        path = self.tree / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def pipe(self, path):
        path = self.tree / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    def sparse(self, path, length=1 << 40):
        self.write(path, b"")
        os.truncate(self.tree / path, length)

    def repository(self):
        """A repository with some commits, made without git."""
        git = self.tree / ".git"
        for path in ["objects/info", "objects/pack", "refs/heads", "hooks", "info"]:
            (git / path).mkdir(parents=True, exist_ok=True)
        (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        blob = self.object("blob", SOURCE.encode())
        parent = b""
        for number in range(3):
            other = self.object("blob", SOURCE.replace("dial(host)", f"dial(host, {number})").encode())
            entries = b"100644 net.py\0" + bytes.fromhex(other if number else blob)
            tree = self.object("tree", entries)
            who = f"Ann <ann@example.org> {1700000000 + number} +0000"
            text = f"tree {tree}\n{parent.decode()}author {who}\ncommitter {who}\n\nOpen sockets of hosts faster, part {number}\n"
            commit = self.object("commit", text.encode())
            parent = f"parent {commit}\n".encode()
        (git / "refs/heads/main").write_text(commit + "\n")
        return git

    def object(self, kind, content):
        import zlib

        data = f"{kind} {len(content)}\0".encode() + content
        name = hashlib.sha1(data).hexdigest()
        path = self.tree / ".git/objects" / name[:2] / name[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.compress(data))
        return name


def links(world):
    for name, target in [
        ("link.py", "../outside/secret.py"),
        ("absolute.py", world.outside / "secret.py"),
        ("directory", "../outside/directory"),
        ("loop", "."),
        ("one", "two"),
        ("two", "one"),
        ("dangling.py", "nowhere"),
        ("zero.py", "/dev/zero"),
        ("tty.py", "/dev/tty"),
        (".quarry.toml", "../outside/secret.toml"),
        (".gitignore", "/dev/zero"),
        (".ignore", "../outside/secret.py"),
    ]:
        world.link(name, target)


def special_files(world):
    for name in ["pipe.py", ".gitignore", ".ignore", ".quarryignore", ".quarry.toml", ".git/info/exclude", ".git/HEAD"]:
        world.pipe(name)
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(world.tree)
        listening.bind("socket.py")
        os.chdir(here)


def endless_files(world):
    for name in ["huge.py", ".gitignore", ".quarryignore", ".quarry.toml", "README.md"]:
        world.sparse(name)
    world.write("line.py", "x = '" + "a" * 900_000 + "'\n")
    world.write("brackets.py", "(" * 200_000)
    world.write("lines.js", "f(" * 100_000 + "\n" * 100_000)
    world.write("heading.md", "#" * 100_000 + " x\n" + "- " * 100_000)


def names(world):
    for name in [f"{ESCAPES}.py", "two\nlines.py", "-e", "--json", "-rf.py", "a" * 250 + ".py", "[*]?{}!.py", " .py", "\\.py", "con.py"]:
        world.write(name, SOURCE)
    world.write(f"{ESCAPES}/{ESCAPES}.md", f"# {ESCAPES}\n\n{ESCAPES} open a socket to a host\n")
    world.write("content.py", f'def connect_{1}(host):\n    """Open a socket {ESCAPES} to a host."""\n    return "{ESCAPES}"\n')
    os.close(os.open(os.path.join(os.fsencode(world.tree), b"caf\xe9\x9b.py"), os.O_CREAT | os.O_WRONLY))
    world.write(".quarry.toml", f'limt = "{ESCAPES}"\n'.encode())


def index_as_link(world):
    world.link(".quarry", "../outside/directory")
    world.link("made", "../outside/directory")


def index_of_links(world):
    for name in ["lock", "manifest.json", "manifest.copy.json", "manifest.json.new", ".gitignore"]:
        world.link(f".quarry/{name}", "../../outside/secret.py")
    world.link(".quarry/generation-1", "../../outside/directory")
    world.link(".quarry/part-1", "../../outside/directory")
    world.link("made/index", "../../outside/directory")


def index_of_pipes(world):
    for name in ["lock", "manifest.json", "manifest.copy.json", ".gitignore"]:
        world.pipe(f".quarry/{name}")


def index_forged(world):
    manifest = json.dumps({"format": 9, "generation": "../../outside/directory", "root": str(world.tree), "parts": [{"name": "../../outside"}]})
    for name in ["manifest.json", "manifest.copy.json"]:
        world.write(f".quarry/{name}", f"{manifest}\n{'0' * 32}\n")
    for name in ["lock", "manifest.json.new"]:
        os.link(world.outside / "secret.py", world.tree / ".quarry" / name)
    world.write(f".quarry/generation-1/{ESCAPES}", "x")


def index_as_pipe(world):
    world.pipe(".quarry")


def hard_links(world):
    for name in ["hard.py", ".quarryignore", "README.md"]:
        os.link(world.outside / "secret.py", world.tree / name)


def settings(world):
    world.write(".quarry.toml", f'model = "{world.outside}"\nglobs = ["!**"]\n')
    world.write("inner/.quarry.toml", f'base_url = "{world.server}"\nkey_variable = "HOME"\n')
    world.write(".mcp.json", json.dumps({"mcpServers": {"x": {"command": "touch", "args": [str(world.outside / "ran")]}}}))
    world.write(".env", f"OPENAI_BASE_URL={world.server}\nOPENAI_API_KEY=x\nXDG_CACHE_HOME={world.outside}\n")


def settings_elsewhere(world):
    world.link("model", "../outside")
    world.write(".quarry.toml", 'model = "model"\n')


def ignore_files(world):
    world.write(".gitignore", "\n".join(["*a" * 200, "[" * 500, "**/" * 500, "!../outside/*", "!/../**", "{" * 999, "\\" * 99]))
    world.write("a" * 200 + ".py", SOURCE)
    world.write("many/.gitignore", "*.o\n" * 500_000)


def deep_directories(world):
    here = os.getcwd()
    os.chdir(world.tree)
    for _ in range(600):
        os.mkdir("deep")
        os.chdir("deep")
    Path("net.py").write_text(SOURCE)
    os.chdir(here)


def case_variants(world):
    for name in [".QUARRY/lock", ".Quarry/manifest.json", ".GIT/config", ".Git/HEAD", "NET.PY", ".GITIGNORE", ".Quarry.toml"]:
        world.write(name, SOURCE)


def git_runs(world):
    git = world.repository()
    ran = world.outside / "ran"
    with (git / "config").open("a") as config:
        config.write(f"\tfsmonitor = touch {ran}\n\thooksPath = hooks\n\tsshCommand = touch {ran}\n\tpager = touch {ran}\n")
        config.write(f"\tworktree = {world.outside}\n[diff]\n\texternal = touch {ran}\n[filter \"x\"]\n\tsmudge = touch {ran}\n")
        config.write(f"[remote \"origin\"]\n\turl = {world.server}\n\tpromisor = true\n\tpartialclonefilter = blob:none\n")
    for hook in ["post-checkout", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction"]:
        (git / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (git / "hooks" / hook).chmod(0o755)
    world.write(".gitattributes", "* filter=x diff=x\n")
    world.write(".gitmodules", f'[submodule "x"]\n\tpath = x\n\turl = {world.server}\n')


def git_elsewhere(world):
    world.write(".git", "gitdir: /etc\n")


def git_of_another(world):
    other = World.__new__(World)
    other.tree = world.outside / "other"
    other.tree.mkdir()
    (other.tree / "net.py").write_text(SOURCE)
    other.repository()
    world.write(".git", "gitdir: ../outside/other/.git\n")


def git_pipe(*paths):
    def attack(world):
        world.repository()
        for path in paths:
            world.pipe(f".git/{path}")

    return attack


def git_include(world):
    git = world.repository()
    world.pipe("waits")
    with (git / "config").open("a") as config:
        config.write("[include]\n\tpath = ../waits\n")


def git_refs(world):
    git = world.repository()
    (git / "HEAD").write_text("ref: ../../outside/secret.py\n")
    world.link(".git/refs/heads/zero", "/dev/zero")
    (git / "objects/info/alternates").write_text("/dev\n../../../outside\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{'f' * 40} refs/heads/{ESCAPES}\n")


def git_endless(world):
    git = world.repository()
    for name in ["HEAD", "packed-refs", "objects/info/commit-graph"]:
        os.truncate(git / name, 1 << 40) if (git / name).exists() else world.sparse(f".git/{name}")


def plan_text(world, more=""):
    return f"{more}pairs = ['pairs.jsonl']\njudge = 'query4code'\n[model]\nprovider = 'openai-compatible'\nbase_url = '{world.server}'\nmodel = 'm'\nkey_variable = 'SECRET_KEY'\n"


def plans(world):
    world.write("pairs.jsonl", '{"query": "q", "code": "def f(): pass", "language": "python"}\n')
    world.write("plan.toml", plan_text(world))
    world.link("plan.ledger", "../outside/secret.py")
    world.link("prompts/arbiter.toml", "../../outside/secret.toml")
    for entry in ["prompts", "cache", "record", "replay", "ledger"]:
        world.link(f"link-{entry}", "../outside/secret.toml")
        world.write(f"{entry}.toml", plan_text(world, f"{entry} = '{'prompts' if entry == 'prompts' else f'link-{entry}'}'\n"))
    world.pipe("waits.toml")


PLANS = [["judge", verb, f"{plan}.toml"] for plan in ["plan", "prompts", "cache", "record", "replay", "ledger", "waits"] for verb in ["run", "status"]]

ATTACKS = [
    links, special_files, endless_files, names, index_as_link, index_of_links, index_of_pipes, index_forged, index_as_pipe,
    hard_links, settings, settings_elsewhere, ignore_files, deep_directories, case_variants, git_runs, git_elsewhere,
    git_of_another, git_include, git_refs, git_endless, plans,
]
for pipes in ["HEAD", "config", "packed-refs", "shallow", "commondir", "objects/info/alternates", "objects/info/commit-graph", "refs/heads/main"]:
    attack = git_pipe(pipes)
    attack.__name__ = f"git_pipe_{pipes.replace('/', '_')}"
    ATTACKS.append(attack)


def snapshot(directory, without=None):
    """The contents of a directory: kind, mode, size, time and content of each entry."""
    found = {}
    pending = [directory]
    while pending:
        path = pending.pop()
        for entry in os.scandir(path):
            relative = os.path.relpath(entry.path, directory)
            if without is not None and relative.split(os.sep)[0] in without:
                continue
            status = entry.stat(follow_symlinks=False)
            content = None
            if stat.S_ISREG(status.st_mode) and status.st_size < 1 << 24:
                content = hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(entry.path)
            elif stat.S_ISDIR(status.st_mode) and len(entry.path) < 3000:
                pending.append(entry.path)
            time = None if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
            found[relative] = (stat.S_IFMT(status.st_mode), status.st_mode & 0o7777, time, content)
    return found


def run(quarry, world, arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "OPENAI", "QUARRY", "GIT_"))}
    environment |= {"HOME": str(world.home), "SECRET_KEY": "sk-XSECRETX", "NO_COLOR": "1"}
    said = "".join(json.dumps(message) + "\n" for message in MESSAGES) if arguments == ["mcp"] else ""
    process = subprocess.Popen([quarry, *arguments], cwd=world.tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(said.encode(), timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, b"", b""
    return process.returncode, out, err


def attack(quarry, make, server, calls):
    """Runs one attack and returns the violations."""
    wrong = []
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory).resolve(), server)
        make(world)
        outside = snapshot(world.outside)
        allowed = set()
        commands = [(plan, None) for plan in PLANS] if make is plans else COMMANDS
        tree = snapshot(world.tree)
        for arguments, written in commands:
            name = f"{make.__name__}: quarry {' '.join(arguments)}"
            code, out, err = run(quarry, world, arguments)
            if code is None:
                wrong.append(f"{name}: does not end in {SECONDS} s")
                continue
            if code not in (0, 1, 2):
                wrong.append(f"{name}: exit code {code}: {err[-300:]!r}")
            if b"panicked" in err:
                wrong.append(f"{name}: {err[-300:]!r}")
            if any(raw in out + err for raw in RAW):
                wrong.append(f"{name}: writes raw control characters: {(out + err)[:300]!r}")
            # A hard link counts as a file of the tree; everything else is outside.
            if make is not hard_links and b"XSECRETX" in out + err:
                wrong.append(f"{name}: tells what is outside of the tree: {(out + err)[:300]!r}")
            if written:
                allowed.add(written)
            before = {path: what for path, what in tree.items() if path.split(os.sep)[0] not in allowed}
            for location, was, now in [
                ("outside of the tree", outside, snapshot(world.outside)),
                ("the tree", before, snapshot(world.tree, allowed)),
            ]:
                if now != was:
                    changed = [path for path in {*was, *now} if was.get(path) != now.get(path)]
                    wrong.append(f"{name}: changes {location}: {changed[:5]}")
                    outside = snapshot(world.outside)
                    tree = snapshot(world.tree)
            homes = {".cache/quarry", ".local/state/quarry"}
            odd = [path for path in snapshot(world.home) if not any((home + "/").startswith(path + "/") or path.startswith(home) for home in homes)]
            if odd:
                wrong.append(f"{name}: writes {odd[:5]} in the home directory")
            if calls:
                wrong.append(f"{name}: calls the server: {calls[:3]}")
                calls.clear()
    return wrong


def main():
    quarry, chosen = os.path.abspath(sys.argv[1]), sys.argv[2:]
    calls = []

    class Server(BaseHTTPRequestHandler):
        def handle(self):
            calls.append(self.client_address)

    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrong = []
    made = [make for make in ATTACKS if not chosen or make.__name__ in chosen]
    for make in made:
        wrong += attack(quarry, make, f"http://127.0.0.1:{server.server_port}", calls)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(made)} attacks, {len(wrong)} succeeded")
    sys.exit(1 if wrong or not made else 0)


if __name__ == "__main__":
    main()
