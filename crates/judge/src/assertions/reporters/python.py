"""Reports the assertions that a program evaluates. Python imports this before the program, because of its name."""

import builtins
import os
import stat
import sys


async def start_coroutine():
    pass


def start():
    nonce = "@NONCE@"
    left = int("@LIMIT@")
    write = os.write
    descriptor = None

    number = os.environ.get("QUARRY_REPORT", "")
    for process in ("self", os.getppid()):
        place = f"/proc/{process}/fd/{number}"
        try:
            if stat.S_ISFIFO(os.stat(place).st_mode):
                descriptor = os.open(place, os.O_WRONLY)
                break
        except OSError:
            pass
    is_child = process != "self"

    def tell(kind, line):
        nonlocal left
        left -= 1
        if left < -1 or descriptor is None:
            return
        try:
            write(descriptor, f"{nonce} {kind if left >= 0 else 'm'} {line}\n".encode())
        except OSError:
            pass

    async def waiting():
        yield

    # Types whose values are never false: a function that is not called, a coroutine that nobody awaits.
    coroutine = start_coroutine()
    coroutine.close()
    never_false = (
        *map(type, (start, len, "".join, type.mro, str.join, (_ for _ in ()), coroutine, waiting(), sys, tell)),
        enumerate, filter, map, reversed, type, zip, classmethod, staticmethod, property,
    )

    def cannot_fail(value):
        if issubclass(type(value), never_false):
            return True
        mock = sys.modules.get("unittest.mock")
        return mock is not None and issubclass(type(value), mock.NonCallableMock) and bool(value)

    def condition(holding):
        def evaluate(line, value, _end):
            try:
                holds = bool(value) == holding
                is_void = holding and cannot_fail(value)
            except Exception:
                # The program finds that itself.
                return value
            if not is_void:
                tell("h" if holds else "f", line)
            return value

        return evaluate

    def checked(line, value, _end):
        try:
            if cannot_fail(value):
                tell("x", line)
        except Exception:
            pass
        return value

    def begin(line):
        tell("b", line)
        return line

    def end(line, value, _end):
        tell("H", line)
        return value

    class Entered:
        """What `with` enters, such as an `assertRaises`."""

        def __init__(self, line, context, _end):
            self.line = line
            self.context = context

        def __enter__(self):
            tell("b", self.line)
            return self.context.__enter__()

        def __exit__(self, kind, error, traceback):
            is_over = self.context.__exit__(kind, error, traceback)
            if kind is None or is_over:
                tell("H", self.line)
            return is_over

    for name, value in {
        "t": condition(True),
        "n": condition(False),
        "b": begin,
        "e": end,
        "c": Entered,
        "v": checked,
        "z": 0,
    }.items():
        setattr(builtins, f"quarry_report_{name}", value)
    tell("s", 0)

    def count_examples(doctest):
        runner = doctest.DocTestRunner
        is_test = lambda example: example.want or example.source.lstrip().startswith("assert")
        for method, kind in [
            ("report_success", "h"),
            ("report_failure", "f"),
            ("report_unexpected_exception", "f"),
        ]:
            def report(self, out, test, example, *rest, _original=getattr(runner, method), _kind=kind):
                if _kind == "f" or is_test(example):
                    tell(_kind, (test.lineno or 0) + example.lineno + 1)
                return _original(self, out, test, example, *rest)

            setattr(runner, method, report)

    class Finder:
        """Lets examples in documentation be counted where the program imports what runs them."""

        def find_spec(self, name, path=None, target=None):
            if name != "doctest":
                return None
            import importlib.util

            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            execute = spec.loader.exec_module

            def execute_and_count(module):
                execute(module)
                count_examples(module)

            spec.loader.exec_module = execute_and_count
            return spec

    sys.meta_path.insert(0, Finder())

    # A program that this program starts may be none of its own files, and so not be rewritten.
    if is_child and descriptor is not None:
        show = sys.excepthook

        def show_and_tell(kind, error, traceback):
            if issubclass(kind, AssertionError):
                tell("f", 0)
            show(kind, error, traceback)

        sys.excepthook = show_and_tell


start()
del start, start_coroutine
