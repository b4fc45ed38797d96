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


def system_call(what, number, *arguments):
    """Makes a system call that has to be refused, not only to fail for other reasons."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(argument) for argument in arguments])
    if result != -1 or ctypes.get_errno() not in (1, 38):
        print("ESCAPED:", what, result, os.strerror(ctypes.get_errno()), flush=True)


def read(path):
    with open(path, "rb") as file:
        return file.read(100)


def write(path, mode="wb", content=b"x"):
    with open(path, mode) as file:
        file.write(content)


def end():
    print("the end", flush=True)
