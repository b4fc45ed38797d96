"""Search in source trees."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, overload

from . import _arguments, _quarry
from ._arguments import PathLike
from ._shipped import directories

Quality = Literal["fast", "balanced", "best"]
Names = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Result:
    """A function, type or other part of a file.

    Attributes
    ----------
    rank
        From 1.
    score
        Larger is better; comparable within one answer.
    root
        Absolute path of the tree that `path` is relative to.
    path
        The file, with ``/`` between its parts.
    start_line, end_line
        First and last line, from 1, inclusive.
    name
        Qualified name within the file; empty for parts between definitions.
    kind
        ``function``, ``method``, ``type``, ``module`` or ``section``.
    language
        Name of the language.
    signature
        The declaration without body.
    code
        The lines of the source.
    """

    # In the order of `_quarry._Row`.
    rank: int
    score: float
    root: str
    path: str
    start_line: int
    end_line: int
    name: str
    kind: str
    language: str
    signature: str
    code: str
    _parts: str = field(repr=False)

    @property
    def parts(self) -> dict[str, float | bool]:
        """The signals that make up the score, by name."""
        found: dict[str, float | bool] = json.loads(self._parts)
        return found

    @property
    def file(self) -> Path:
        """Absolute path of the file."""
        return Path(self.root) / self.path


@dataclass(frozen=True, slots=True)
class Answer(Sequence[Result]):
    """The results of a search, best first: a sequence of `Result`.

    Attributes
    ----------
    results
        Best first.
    confident
        Whether the confidence reaches the threshold; None for a long text without a given threshold.
    confidence
        Confidence that a result answers, 0 to 1.
    took_ms
        Milliseconds of the search.
    """

    results: tuple[Result, ...]
    confident: bool | None
    confidence: float
    took_ms: float

    @classmethod
    def _of(cls, found: _quarry._Found) -> Answer:
        rows, confident, confidence, took_ms = found
        return cls(tuple([Result(*row) for row in rows]), confident, confidence, took_ms)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Result, ...]: ...
    def __getitem__(self, index: int | slice) -> Result | tuple[Result, ...]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)


@dataclass(frozen=True, slots=True)
class _Request:
    k: int
    languages: list[str]
    kinds: list[str]
    globs: list[str]
    threshold: float | None

    @classmethod
    def of(cls, k: int, language: Names, glob: Names, kind: Names, threshold: float | None) -> _Request:
        return cls(
            _arguments.count("k", k),
            _names("language", language),
            _names("kind", kind),
            _names("glob", glob),
            None if threshold is None else _arguments.fraction("threshold", threshold),
        )


def _names(name: str, given: Names) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(each, str) and each for each in names):
        raise TypeError(f"{name}: expected a text or several, none empty, found {given!r}")
    return names


class Index:
    """The index of one or more source trees; make one by `Index.open`.

    An index can be used by several threads at once and after a fork. It is pickled as what it was opened with, and opened
    again when it is loaded.
    """

    def __init__(self, paths: Sequence[Path], options: dict[str, Any]) -> None:
        self._paths = list(paths)
        self._options = options
        self._index = _quarry.Index(self._paths, directories=directories(), **options)
        _warn(self._index.warnings)

    @classmethod
    def open(
        cls,
        *paths: PathLike,
        model: PathLike | None = None,
        quality: Quality = "fast",
        directory: PathLike | None = None,
        hidden: bool | None = None,
        ignored: bool | None = None,
        max_bytes: int | None = None,
        update: bool = True,
    ) -> Index:
        """Opens the index of source trees, and builds or updates it first if necessary.

        Parameters
        ----------
        *paths
            Directories or files, the current directory if there are none.
        model
            File or directory of the model that embeds; the built-in one by default.
        quality
            ``balanced`` and ``best`` re-rank the first results by transformers.
        directory
            Directory of the index, in place of the user's cache.
        hidden, ignored
            Whether hidden files, and files that git ignores, are found.
        max_bytes
            Larger files are skipped.
        update
            Whether changed files are looked for; without, a missing index is an error.

        Raises
        ------
        QuarryError
            When a path is missing or cannot be indexed, or a model cannot be loaded.

        Warns
        -----
        RuntimeWarning
            When the index could not be written.
        """
        options = {
            "model": _arguments.path_or_none("model", model),
            "quality": quality,
            "directory": _arguments.path_or_none("directory", directory),
            "hidden": hidden,
            "ignored": ignored,
            "max_bytes": None if max_bytes is None else _arguments.count("max_bytes", max_bytes),
            "update": update,
        }
        return cls([_arguments.path("paths", path) for path in paths] or [Path(".")], options)

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        language: Names = (),
        glob: Names = (),
        kind: Names = (),
        threshold: float | None = None,
    ) -> Answer:
        """Finds the code that answers a query.

        Parameters
        ----------
        query
            A description in plain words, a symbol, an error message, or the text of an issue.
        k
            Maximum number of results.
        language, glob, kind
            One or several: only files of these languages, files that match these globs of gitignore (``!`` excludes), and
            units of these kinds.
        threshold
            Confidence from which the answer is confident, 0 to 1.

        Raises
        ------
        QuarryError
            When a filter is malformed, a model fails, or the index cannot be read.
        """
        request = _Request.of(k, language, glob, kind, threshold)
        return Answer._of(self._index.search(query, request))

    def similar(
        self,
        path: PathLike,
        line: int,
        k: int = 10,
        *,
        language: Names = (),
        glob: Names = (),
        kind: Names = (),
    ) -> Answer:
        """Finds code similar to the unit at a line, from 1, of a file, which may be the path of a result; other parameters and
        errors as in `search`."""
        root, relative = self._relative(_arguments.path("path", path))
        request = _Request.of(k, language, glob, kind, None)
        line = _arguments.count("line", line, 1)
        return Answer._of(self._index.similar(root, relative, line, request))

    def callers(self, name: str, k: int = 50) -> dict[str, Any]:
        """The calls of what has a name, as ``quarry callers --json`` prints them; at most `k` of them."""
        found: dict[str, Any] = json.loads(self._index.calls(name, _arguments.count("k", k), True))
        return found

    def callees(self, name: str, k: int = 50) -> dict[str, Any]:
        """What the definitions with a name call, as ``quarry callees --json`` prints it; at most `k` for each."""
        found: dict[str, Any] = json.loads(self._index.calls(name, _arguments.count("k", k), False))
        return found

    def refresh(self) -> bool:
        """Looks for changed files, and updates the index; returns whether there were any."""
        is_changed, problems = self._index.refresh()
        _warn(problems)
        return is_changed

    @property
    def status(self) -> list[dict[str, Any]]:
        """The state of the index of each path, as ``quarry status --json`` prints it."""
        found: list[dict[str, Any]] = json.loads(self._index.status())
        return found

    @property
    def model(self) -> str:
        """Id of the model that embeds."""
        return self._index.model

    def _relative(self, path: Path) -> tuple[int, str]:
        bases = [root.parent if root.is_file() else root for root in map(Path.resolve, self._paths)]
        # A path of a result is relative to its tree.
        found = next((file for file in [path, *(base / path for base in bases)] if file.is_file()), path)
        file = found.resolve()
        for number, base in enumerate(bases):
            if file.is_relative_to(base):
                return number, file.relative_to(base).as_posix()
        raise _quarry.QuarryError(f"{path}: expected a file of the indexed trees")

    def __repr__(self) -> str:
        return f"quarry.Index.open({', '.join(repr(str(path)) for path in self._paths)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Index, (self._paths, self._options)


def _warn(problems: Sequence[str]) -> None:
    for problem in problems:
        warnings.warn(problem, RuntimeWarning, stacklevel=4)
