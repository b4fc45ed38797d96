"""Workers and a NATS server for the scripts beside it: processes that can be killed and started again."""

import math
import os
import shutil
import signal
import socket
import subprocess
import time

# Maximum time from the end of an answer until it is stored, on a busy machine.
STORED_SECONDS = 2.0


def nats_server():
    """The path of nats-server, if it is installed."""
    return shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")


class Process:
    """A process of a command that can be killed and started again."""

    def __init__(self, command, **environment):
        self.command, self.environment = [str(part) for part in command], {**os.environ, **environment}
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def stop(self):
        """Interrupts it, and returns its output."""
        self.process.terminate()
        errors = self.process.communicate(timeout=60)[1].decode()
        # A process that was just started has no handler yet, and is killed by the signal.
        if self.process.returncode not in (0, -signal.SIGTERM):
            raise SystemExit(f"{self.command[1]} ended with {self.process.returncode}: {errors}")
        return errors


class Nats(Process):
    """A server with JetStream on a free port of loopback, with its files in `directory`."""

    def __init__(self, directory):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.port, self.url = port, f"nats://127.0.0.1:{port}"
        super().__init__([nats_server(), "--addr", "127.0.0.1", "--port", port, "--jetstream", "--store_dir", directory])

    def start(self):
        super().start()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.01)
        raise SystemExit("nats-server does not start")


def worker(quarry, nats, model, *more, **environment):
    return Process([quarry, "worker", "--nats", nats.url, "--model", model, *more], **environment)


def repetitions(asked, deaths):
    """The number of repeated questions, given the begin and end of each attempt at a question, and the times at which
    workers died. Ends the process if no worker died while an attempt was under way or its answer was being stored."""
    n_repeated = 0
    for attempts in asked:
        for began, ended in attempts[:-1]:
            n_repeated += 1
            lived = min((death - ended for death in deaths if death >= began), default=math.inf)
            if lived > STORED_SECONDS:
                raise SystemExit(f"a question was repeated although all workers lived for {lived:.2f} s after its answer")
    return n_repeated
