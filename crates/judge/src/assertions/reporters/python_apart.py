

def start_apart():
    """Starts the code under test in a process of its own, and calls it there.

    That process has neither the pipe for reports nor the number that begins them: this file is gone before it starts, and
    the memory of this process is closed to it. Arguments and results are plain data; anything else ends the program.
    """
    import ctypes
    import marshal

    PR_SET_DUMPABLE = 4
    NOT_SEPARABLE = 97

    def give_up():
        os._exit(NOT_SEPARABLE)

    try:
        os.unlink(__file__)
        if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            give_up()
        requests, request = os.pipe()
        replies, reply = os.pipe()
        environment = {name: value for name, value in os.environ.items() if name != "QUARRY_REPORT"}
        paths = environment.get("PYTHONPATH", "").split(":")
        environment["PYTHONPATH"] = ":".join(path for path in paths if path != ".quarry")
        actions = [(os.POSIX_SPAWN_DUP2, requests, requests), (os.POSIX_SPAWN_DUP2, reply, reply)]
        number = int(os.environ["QUARRY_REPORT"])
        if os.path.exists(f"/proc/self/fd/{number}"):
            actions.append((os.POSIX_SPAWN_CLOSE, number))
        command = [sys.executable, "-s", ".quarry/candidate.py", str(requests), str(reply)]
        os.posix_spawn(sys.executable, command, environment, file_actions=actions)
        os.close(requests)
        os.close(reply)
    except Exception:
        give_up()
    stream = os.fdopen(replies, "rb")
    plain = (list, tuple, dict, set, bytearray)

    def restore(before, after):
        """Makes arguments what the call made of them."""
        if type(before) is not type(after):
            give_up()
        if isinstance(before, (list, tuple)) and len(before) == len(after):
            for number, (old, new) in enumerate(zip(before, after)):
                if type(old) in plain and type(old) is type(new):
                    restore(old, new)
                elif isinstance(before, list):
                    before[number] = new
        elif isinstance(before, list):
            before[:] = after
        elif isinstance(before, bytearray):
            before[:] = after
        elif isinstance(before, (dict, set)) and before != after:
            before.clear()
            before.update(after)

    def call(name, arguments, named):
        try:
            question = marshal.dumps((name, arguments, named))
            os.write(request, len(question).to_bytes(8, "little"))
            for at in range(0, len(question), 1 << 16):
                os.write(request, question[at : at + (1 << 16)])
            length = int.from_bytes(stream.read(8), "little")
            kind, value, after = marshal.loads(stream.read(length))
            restore((*arguments, *named.values()), after)
            if kind == "argument":
                value = (*arguments, *named.values())[value]
            error = getattr(builtins, value[0]) if kind == "error" else None
        except Exception:
            give_up()
        if kind == "error" and issubclass(error, Exception):
            raise error(*value[1])
        if kind not in ("value", "argument"):
            give_up()
        return value

    builtins.quarry_report_p = call


start_apart()
del start_apart
