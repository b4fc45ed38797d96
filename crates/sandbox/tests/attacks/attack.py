"""Helpers for attacks: each says so if it got somewhere."""
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def refused(what, function, *arguments, **keywords):
    """Calls something that has to fail."""
    try:
        result = function(*arguments, **keywords)
    except Exception as error:
        return error
    print("ESCAPED:", what, repr(result)[:200], flush=True)


def system_call(what, number, *arguments, refusals=(1, 38)):
    """Makes a system call that has to be refused, not only to fail for other reasons."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(argument) for argument in arguments])
    if result != -1 or ctypes.get_errno() not in refusals:
        print("ESCAPED:", what, result, os.strerror(ctypes.get_errno()), flush=True)


def read(path):
    """Reads something. What is masked is empty, which is as good as refused."""
    with open(path, "rb") as file:
        text = file.read(100)
    if not text:
        raise OSError("it is empty")
    return text


def stat(path):
    """Looks for something. An empty directory is as good as none."""
    return entries(path) if os.path.isdir(path) else os.stat(path)


def entries(path):
    """What is in a directory. An empty one is as good as none."""
    names = os.listdir(path)
    if not names:
        raise OSError("it is empty")
    return names


def write(path, mode="wb", content=b"x"):
    with open(path, mode) as file:
        file.write(content)


def end():
    print("the end", flush=True)
