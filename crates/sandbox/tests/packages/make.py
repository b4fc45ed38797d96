"""Makes packages by hand: make.py DIRECTORY, with a list of what to make on standard input, as JSON."""
import base64
import hashlib
import io
import json
import pathlib
import sys
import tarfile
import zipfile

directory = pathlib.Path(sys.argv[1])


def wheel(name, version, files, needs):
    information = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {other}" for other in needs]
    files = dict(files)
    files[f"{information}/METADATA"] = "\n".join(metadata) + "\n"
    files[f"{information}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    files[f"{information}/RECORD"] = record + f"{information}/RECORD,,\n"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def tarball(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            if text.startswith("-> "):
                entry.type, entry.linkname, text = tarfile.SYMTYPE, text[3:], ""
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


for package in json.load(sys.stdin):
    kind, name, version = package["kind"], package["name"], package["version"]
    files, needs = package.get("files", {}), package.get("needs", [])
    if kind == "wheel":
        wheel(name, version, files, needs)
    elif kind == "source":
        inside = {f"{name}-{version}/{path}": text for path, text in files.items()}
        inside[f"{name}-{version}/PKG-INFO"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        tarball(directory / f"{name}-{version}.tar.gz", inside)
    else:
        manifest = {"name": name, "version": version, "dependencies": dict(needs), **package.get("manifest", {})}
        files = {f"package/{path}": text for path, text in files.items()}
        (directory / name).parent.mkdir(exist_ok=True)
        tarball(directory / f"{name}-{version}.tgz", {**files, "package/package.json": json.dumps(manifest)})
        content = (directory / f"{name}-{version}.tgz").read_bytes()
        manifest["dist"] = {"integrity": "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()}
        (directory / f"{name}.json").write_text(json.dumps(manifest))
