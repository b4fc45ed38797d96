"""Search in source trees."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal, overload

from . import _arguments, _quarry
from ._arguments import PathLike
from ._shipped import directories

Quality = Literal["auto", "fast", "best", "balanced"]
Names = str | Sequence[str]


# Columns of `Answer.to_dataframe` before the code.
_COLUMNS = ("rank", "score", "root", "path", "start_line", "end_line", "name", "kind", "language", "signature")


@dataclass(frozen=True, slots=True, repr=False)
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
        The lines of the source, as they were indexed.
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
    _code: str | None
    _parts: str

    @property
    def code(self) -> str:
        """The lines of the source, as they were indexed.

        Raises
        ------
        QuarryError
            When the file had changed, or was gone, when it was found: the lines would be those of other code.
        """
        if self._code is None:
            raise _quarry.QuarryError(
                f"{self.file}: changed since it was indexed; call `refresh` of the index and search again, or open the index "
                "with `refresh=0`"
            )
        return self._code

    @property
    def parts(self) -> dict[str, float | bool]:
        """The signals that make up the score, by name."""
        found: dict[str, float | bool] = json.loads(self._parts)
        return found

    @property
    def file(self) -> Path:
        """Absolute path of the file."""
        return Path(self.root) / self.path

    def __repr__(self) -> str:
        return f"<Result {self.rank}: {self.path}:{self.start_line}-{self.end_line} {self.kind} {self.name}>"


@dataclass(frozen=True, slots=True, repr=False)
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
    notes
        What to know about the answer: how the query was read, and what was left out.
    """

    results: tuple[Result, ...]
    confident: bool | None
    confidence: float
    took_ms: float
    notes: tuple[str, ...] = ()

    @classmethod
    def _of(cls, found: _quarry._Found) -> Answer:
        rows, confident, confidence, took_ms, notes = found
        return cls(tuple([Result(*row) for row in rows]), confident, confidence, took_ms, tuple(notes))

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Result, ...]: ...
    def __getitem__(self, index: int | slice) -> Result | tuple[Result, ...]:
        return self.results[index]

    def to_dataframe(self) -> Any:
        """The results as a pandas DataFrame: a row for each; `code` is None where a file has changed since it was indexed."""
        import pandas

        rows = [[getattr(result, name) for name in _COLUMNS] + [result._code] for result in self.results]
        return pandas.DataFrame(rows, columns=[*_COLUMNS, "code"])

    def __repr__(self) -> str:
        results = f"{len(self)} result{'' if len(self) == 1 else 's'}"
        return f"<Answer: {results}, confident={self.confident}, confidence={self.confidence:.2f}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{result.rank}</td><td>{result.score:.3f}</td><td>{escape(result.path)}:{result.start_line}</td>"
            f"<td>{result.kind}</td><td>{escape(result.name)}</td><td><code>{escape(result.signature)}</code></td></tr>"
            for result in self.results
        )
        head = "".join(f"<th>{name}</th>" for name in ("rank", "score", "place", "kind", "name", "signature"))
        return f"<p>{escape(repr(self))}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)


@dataclass(frozen=True, slots=True)
class _Request:
    k: int | None
    languages: list[str]
    kinds: list[str]
    globs: list[str]
    threshold: float | None

    @classmethod
    def of(
        cls, k: int | None, language: Names, glob: Names, kind: Names, threshold: float | None
    ) -> _Request:
        return cls(
            None if k is None else _arguments.count("k", k, 1),
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

    def __init__(self, paths: Sequence[Path], options: dict[str, Any], refresh: float | None = None) -> None:
        self._paths = list(paths)
        self._options = options
        self._index = _quarry.Index(self._paths, directories=directories(), **options)
        self._refresh_after = refresh
        self._refreshed = time.monotonic()
        self._refreshing = threading.Lock()
        _warn(self._index.warnings)

    @classmethod
    def open(
        cls,
        *paths: PathLike,
        model: PathLike | None = None,
        quality: Quality | None = None,
        directory: PathLike | None = None,
        hidden: bool | None = None,
        ignored: bool | None = None,
        max_bytes: int | None = None,
        update: bool = True,
        refresh: float | None = None,
    ) -> Index:
        """Opens the index of source trees, and builds or updates it first if necessary. Settings in `.quarry.toml` and of the
        user hold as on the command line.

        Parameters
        ----------
        *paths
            Directories or files, the current directory if there are none.
        model
            File or directory of the model that embeds; by default that of the index, the settings, or the built-in one.
        quality
            ``best`` (alias ``balanced``) re-ranks the first results with a transformer, ``fast`` does not, and ``auto`` does if
            ``quarry index --quality best`` or a running server has computed the vectors; by default that of the settings,
            else ``auto``.
        directory
            Directory of the index, in place of the user's cache.
        hidden, ignored
            Whether hidden files, and files that git ignores, are found.
        max_bytes
            Larger files are skipped; by default those of the index or the settings.
        update
            Whether changed files are looked for; without, a missing index is an error.
        refresh
            Seconds after which a query looks for changed files first, as `refresh` does; 0 for every query. Without, only
            `refresh` does.

        Raises
        ------
        QuarryError
            When a path is missing or cannot be indexed, or a model cannot be loaded.
        ValueError
            When an argument has no such value.

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
        after = None if refresh is None else _arguments.seconds("refresh", refresh)
        return cls([_arguments.path("paths", path) for path in paths] or [Path(".")], options, after)

    def search(
        self,
        query: str,
        k: int | None = None,
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
            A description in plain words, a symbol, an error message, or the text of an issue. A text of one line is read in
            the query syntax: ``"exact phrase"``, ``/regex/``, ``lang:``, ``path:``, ``kind:``, ``name:``, ``tree:``, ``case:``.
        k
            Maximum number of results; by default that of the settings.
        language, glob, kind
            One or several: only files of these languages, files that match these globs of gitignore (``!`` excludes), and
            units of these kinds.
        threshold
            Confidence from which the answer is confident, 0 to 1; by default that of the settings.

        Raises
        ------
        QuarryError
            When the query has no word, a model fails, or the index cannot be read.
        ValueError
            When there is no such language or kind, a glob or a regular expression is malformed, or a number is out of its
            range.
        """
        request = _Request.of(k, language, glob, kind, threshold)
        return Answer._of(self._fresh().search(query, request))

    def similar(
        self,
        path: PathLike,
        line: int,
        k: int | None = None,
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
        return Answer._of(self._fresh().similar(root, relative, line, request))

    def callers(self, name: str, k: int = 50) -> dict[str, Any]:
        """The calls of what has a name, as ``quarry callers --json`` prints them; at most `k` of them."""
        found: dict[str, Any] = json.loads(self._fresh().calls(name, _arguments.count("k", k, 1), True))
        return found

    def callees(self, name: str, k: int = 50) -> dict[str, Any]:
        """What the definitions with a name call, as ``quarry callees --json`` prints it; at most `k` for each."""
        found: dict[str, Any] = json.loads(self._fresh().calls(name, _arguments.count("k", k, 1), False))
        return found

    def related(
        self,
        name: str | None = None,
        *,
        path: PathLike | None = None,
        line: int | None = None,
        kind: Names = (),
        k: int = 20,
    ) -> dict[str, Any]:
        """What else must change with what has a name, or with a file or the definition at a line of it, as
        ``quarry related --json`` prints it: at most `k` places, only for reasons of these kinds if any are given."""
        if (name is None) == (path is None):
            raise ValueError("expected either a name or a path")
        place = None
        if path is not None:
            root, relative = self._relative(_arguments.path("path", path))
            place = (root, relative, None if line is None else _arguments.count("line", line, 1))
        kinds = _names("kind", kind)
        answer = self._fresh().related(name, place, kinds, _arguments.count("k", k, 1))
        found: dict[str, Any] = json.loads(answer)
        return found

    def context(
        self, query: str, tokens: int = 4000, *, language: Names = (), glob: Names = (), kind: Names = ()
    ) -> str:
        """The code that answers a query, whole functions first, in at most `tokens` tokens, as ``quarry context`` prints
        it; other parameters and errors as in `search`."""
        request = _Request.of(1, language, glob, kind, None)
        return self._fresh().context(query, _arguments.count("tokens", tokens, 1), request)[0]

    def outline(self, tokens: int = 2000, *, language: Names = (), glob: Names = (), kind: Names = ()) -> str:
        """A map of the trees in at most `tokens` tokens, as ``quarry outline`` prints it; other parameters and errors as in
        `search`."""
        request = _Request.of(1, language, glob, kind, None)
        return self._fresh().outline(_arguments.count("tokens", tokens, 1), request)

    def refresh(self) -> bool:
        """Looks for changed files, and updates the index; returns whether there were any."""
        is_changed, problems = self._index.refresh()
        self._refreshed = time.monotonic()
        _warn(problems)
        return is_changed

    def _fresh(self) -> _quarry.Index:
        """The index, after a look for changed files if it is time for one. Of several threads, one looks."""
        after = self._refresh_after
        if after is not None:
            asked = time.monotonic()
            with self._refreshing:
                # Another thread may have looked since this one asked.
                if self._refreshed <= asked and asked - self._refreshed >= after:
                    self.refresh()
        return self._index

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
        return Index, (self._paths, self._options, self._refresh_after)


def _warn(problems: Sequence[str]) -> None:
    for problem in problems:
        warnings.warn(problem, RuntimeWarning, stacklevel=4)
