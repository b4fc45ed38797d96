"""A command in a pseudo-terminal whose screen an emulator renders, for the scripts beside it. Needs pyte 0.8.2."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

import pyte

PATIENCE = 60.0


class Session:
    """A command with its screen on a pseudo-terminal, and its stdout there too or in a pipe."""

    def __init__(self, command, columns, lines, cwd, stdout=subprocess.PIPE, **environment):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=other, stdout=stdout or other, stderr=other, cwd=cwd, start_new_session=True,
            env=dict(os.environ, TERM="xterm-256color", **environment),
            # The size is asked of the terminal that a process belongs to.
            preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),
        )
        os.close(other)

    def wait_for(self, words):
        """Reads the screen until it has these words."""
        end = time.monotonic() + PATIENCE
        while not any(words in line for line in self.screen.display):
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"{words!r} is not on the screen:\n" + "\n".join(self.screen.display))
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.stream.feed(os.read(self.terminal, 65536))
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys):
        os.write(self.terminal, keys.encode())

    def end(self):
        """The exit code and what it printed into a pipe."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    os.read(self.terminal, 65536)
                except OSError:
                    break
        printed = self.process.communicate(timeout=PATIENCE)[0]
        os.close(self.terminal)
        return self.process.returncode, (printed or b"").decode()


def expect(condition, *found):
    if not condition:
        raise SystemExit("unexpected: " + " ".join(map(repr, found)))
