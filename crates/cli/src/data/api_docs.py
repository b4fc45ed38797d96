import importlib
import inspect
import json
import os


def find(name):
    """What a dotted name stands for: the longest importable module, then attributes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except BaseException:
            continue
        try:
            for part in parts[end:]:
                found = getattr(found, part)
        except AttributeError:
            return None
        return found
    return None


with os.fdopen(int(os.environ["QUARRY_REPORT"]), "w", encoding="utf-8") as report, open("names.txt") as names:
    for name in names.read().split("\n"):
        try:
            found = find(name)
            text = inspect.getdoc(found) if found is not None else None
        except BaseException:
            text = None
        try:
            signature = str(inspect.signature(found))
        except BaseException:
            signature = ""
        if text:
            report.write(json.dumps([name, name + signature + "\n\n" + text]) + "\n")
            report.flush()
