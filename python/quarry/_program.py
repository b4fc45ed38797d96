"""The program `quarry`, which is in the module: the wheel has the code once."""

import os
import signal
import sys

from . import _quarry


def main() -> None:
    # Python's handler would wait for the interpreter, which runs nothing until the program ends.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Without standard streams, files would be opened in their place.
    while (opened := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(opened, True)
    os.close(opened)
    # The interpreter has nothing to finish.
    os._exit(_quarry.run_program(sys.argv, _quarry.__file__))
