"""Arguments: what is not as expected raises an error that names the argument."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any

PathLike = str | os.PathLike[str]


def path(name: str, given: PathLike) -> Path:
    """A path. An empty one is a mistake in a script, not the current directory."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"{name}: expected a path, found {given!r}")
    if not os.fspath(given):
        raise ValueError(f'{name}: expected a path, found an empty string; the current directory is "."')
    return Path(given)


def path_or_none(name: str, given: PathLike | None) -> Path | None:
    """A path, if there is one."""
    return None if given is None else path(name, given)


def count(name: str, given: Any, least: int = 0) -> int:
    """A number of things; larger than any is the largest."""
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, found {given!r}") from None
    if number < least:
        raise ValueError(f"{name}: expected {least} or more, found {number}")
    return min(number, sys.maxsize)


def fraction(name: str, given: Any) -> float:
    """A number from 0 to 1."""
    if not isinstance(given, Real):
        raise TypeError(f"{name}: expected a number from 0 to 1, found {given!r}")
    number = float(given)
    # NaN is not in the range either.
    if not 0 <= number <= 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, found {number}")
    return number


def seconds(name: str, given: Any) -> float:
    """A duration."""
    if not isinstance(given, Real):
        raise TypeError(f"{name}: expected a number of seconds, found {given!r}")
    number = float(given)
    # NaN is not in the range either.
    if not 0 <= number:
        raise ValueError(f"{name}: expected 0 seconds or more, found {number}")
    return number


def several(name: str, given: Iterable[Any]) -> Iterable[Any]:
    """Several texts: of one alone, each letter would be one."""
    if isinstance(given, str):
        raise TypeError(f"{name}: expected several texts, found one; put it in a list")
    return given
