"""Runs the code under test, for the process that runs its test: reads calls, and writes what they return."""

import ast
import builtins
import marshal
import os
import sys

CONTAINERS = (list, dict, set, bytearray)
KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What code raises where it needs something of the test.
INCOMPLETE = (NameError, ImportError)


def definitions(path):
    """What the program imports and defines, without what it tests."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    names = {"__name__": "candidate"}
    for node in tree.body:
        if isinstance(node, KEPT) or isinstance(node, (ast.Assign, ast.AnnAssign)) and is_constant(node.value):
            exec(compile(ast.Module([node], []), "main.py", "exec"), names)
    return names


def is_constant(node):
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def answer(names, name, arguments, named):
    given = (*arguments, *named.values())
    try:
        value = names[name](*arguments, **named)
    except Exception as error:
        kind = type(error).__name__
        is_plain = getattr(builtins, kind, None) is type(error) and not isinstance(error, INCOMPLETE)
        return ("error" if is_plain else "other", (kind, error.args), given)
    for number, argument in enumerate(given):
        if argument is value and type(value) in CONTAINERS:
            return "argument", number, given
    return "value", value, given


def main():
    requests, replies = os.fdopen(int(sys.argv[1]), "rb"), int(sys.argv[2])
    sys.path[0] = os.getcwd()
    names = definitions(".quarry/program.py")
    while header := requests.read(8):
        question = marshal.loads(requests.read(int.from_bytes(header, "little")))
        try:
            reply = marshal.dumps(answer(names, *question))
        except ValueError:
            reply = marshal.dumps(("other", None, ()))
        sys.stdout.flush()
        with os.fdopen(os.dup(replies), "wb") as stream:
            stream.write(len(reply).to_bytes(8, "little") + reply)


main()
