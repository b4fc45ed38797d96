"""The program `quarry`, which is in the module: the wheel has the code once."""

import signal
import sys

from . import _quarry


def main() -> int:
    # Python's handler would wait for the interpreter, which runs nothing until the program ends.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _quarry.run_program(sys.argv, _quarry.__file__)
