"""Encoders, and methods that rank a corpus of texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import _arguments, _quarry
from ._arguments import PathLike
from ._shipped import directories

if TYPE_CHECKING:  # The program in the package starts without it.
    import numpy as np
    import numpy.typing as npt

# What a document may be: its text, or a mapping with `text` and perhaps `title`.
Document = str | Mapping[str, Any]

_Text = TypeVar("_Text")


class Encoder:
    """A model that turns queries and documents into vectors whose dot product is their similarity.

    It can be used by several threads at once and after a fork, and is pickled as its path.

    Parameters
    ----------
    model
        The file or directory of a static model, or the directory of a transformer as sentence-transformers writes it, or
        of token vectors as model2vec does; None for the built-in static model.

    Raises
    ------
    QuarryError
        When there is no model at the path, or a broken one.
    """

    def __init__(self, model: PathLike | None = None) -> None:
        self._path = _arguments.path_or_none("model", model)
        self._encoder = _quarry.Encoder(self._path)

    @property
    def id(self) -> str:
        """Identifies the model and its weights."""
        return self._encoder.id

    @property
    def dimension(self) -> int:
        """Number of columns of the vectors."""
        return self._encoder.dimension

    def encode_queries(
        self,
        texts: Iterable[str],
        *,
        batch_size: int = 1024,
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Embeds queries in plain words.

        Parameters
        ----------
        texts
            The queries.
        batch_size
            Number of texts that are embedded between two calls of `progress`, at least 1.
        progress
            Called with the number of texts done so far.

        Returns
        -------
        ndarray of float32, shape (number of texts, dimension)
            Rows of length 1, or of zeros where nothing in a text is known.
        """
        return self._encode(texts, True, batch_size, progress)

    def encode_documents(
        self,
        texts: Iterable[str],
        *,
        batch_size: int = 1024,
        progress: Callable[[int], object] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Embeds code, or text about it; parameters and result as in `encode_queries`."""
        return self._encode(texts, False, batch_size, progress)

    def _encode(
        self, texts: Iterable[str], is_query: bool, batch_size: int, progress: Callable[[int], object] | None
    ) -> npt.NDArray[np.float32]:
        import numpy as np

        batch_size = _arguments.count("batch_size", batch_size, 1)
        texts = list(_arguments.several("texts", texts))
        rows = [np.zeros((0, self.dimension), np.float32)]
        for start in range(0, len(texts), batch_size):
            batch = texts[start : start + batch_size]
            values = np.frombuffer(self._encoder.encode(batch, is_query), np.float32)
            rows.append(values.reshape(len(batch), self.dimension))
            if progress is not None:
                progress(start + len(batch))
        return np.concatenate(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoder, (self._path,)


class Retriever:
    """A method that ranks a corpus of texts for queries.

    It can be used by several threads at once and after a fork. It is pickled as its method and corpus, and indexed again
    when it is loaded; vectors of transformers are kept in the user's cache.

    Parameters
    ----------
    method
        An expression of ``quarry eval --method``: ``bm25``, ``static``, ``hybrid``, ``best``, the path of a
        model, or a combination such as ``rrf(bm25, path/to/model)``. A `Path` is that of a model.

    Raises
    ------
    QuarryError
        When the expression is malformed, or there is no model at a path.
    """

    def __init__(self, method: PathLike = "hybrid") -> None:
        # In quotation marks, a path may have characters that have a meaning in an expression.
        self.method = method if isinstance(method, str) else f'"{_arguments.path("method", method)}"'
        _quarry.check_method(self.method)
        self._ids: list[str] = []
        self._documents: list[tuple[str, str, str]] = []
        self._retriever: _quarry.Retriever | None = None

    def index(self, corpus: Mapping[str, Document] | Iterable[Document]) -> Retriever:
        """Indexes a corpus in place of the present one.

        Parameters
        ----------
        corpus
            Documents by id, or documents, whose ids are then ``"0"``, ``"1"`` and so on. A document is its text, or a
            mapping with ``text`` and perhaps ``title``.

        Returns
        -------
        Retriever
            Itself.

        Raises
        ------
        QuarryError
            When a model cannot be loaded or fails.
        """
        return self._index([(id, *_texts(id, document)) for id, document in _by_id("corpus", corpus)])

    def _index(self, documents: list[tuple[str, str, str]]) -> Retriever:
        self._retriever = _quarry.Retriever(self.method, documents, directories())
        self._documents = documents
        self._ids = [id for id, _, _ in documents]
        return self

    def search(
        self, queries: Mapping[str, str] | Sequence[str], k: int = 100
    ) -> dict[str, dict[str, float]]:
        """Ranks the corpus for queries.

        Parameters
        ----------
        queries
            Queries by id, or queries, whose ids are then ``"0"``, ``"1"`` and so on.
        k
            Maximum number of documents of a query.

        Returns
        -------
        dict
            For each query the scores of the best documents by id, best first, ties in the order of the corpus.

        Raises
        ------
        QuarryError
            When nothing was indexed, or a model fails.
        """
        if self._retriever is None:
            raise _quarry.QuarryError("nothing was indexed; call `index` with a corpus first")
        asked = _by_id("queries", queries)
        found = self._retriever.search(asked, _arguments.count("k", k, 1))
        ids = self._ids
        return {
            query: {ids[position]: score for position, score in neighbors}
            for (query, _), neighbors in zip(asked, found)
        }

    @property
    def model(self) -> str | None:
        """Identities of the models with their weights, joined by ``+``; None before `index`, or without models."""
        return None if self._retriever is None else self._retriever.model

    def save(self, directory: PathLike) -> None:
        """Writes the method and the corpus into a directory, which is created if it is missing."""
        target = _arguments.path("directory", directory)
        target.mkdir(parents=True, exist_ok=True)
        with (target / "corpus.jsonl").open("w", encoding="utf-8") as file:
            for id, title, text in self._documents:
                file.write(json.dumps({"_id": id, "title": title, "text": text}) + "\n")
        (target / "retriever.json").write_text(json.dumps({"method": self.method}), encoding="utf-8")

    @classmethod
    def load(cls, directory: PathLike) -> Retriever:
        """Reads what `save` wrote, and indexes it.

        Raises
        ------
        OSError
            When a file is missing or cannot be read.
        QuarryError
            When a model cannot be loaded or fails.
        """
        source = _arguments.path("directory", directory)
        method = json.loads((source / "retriever.json").read_text(encoding="utf-8"))["method"]
        with (source / "corpus.jsonl").open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return cls(method)._index([(row["_id"], row["title"], row["text"]) for row in rows])

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (self.method, self._documents if self._retriever is not None else None)


def _loaded(method: str, documents: list[tuple[str, str, str]] | None) -> Retriever:
    retriever = Retriever(method)
    return retriever if documents is None else retriever._index(documents)


def _by_id(name: str, given: Mapping[str, _Text] | Iterable[_Text]) -> list[tuple[str, _Text]]:
    if isinstance(given, Mapping):
        return [(str(id), text) for id, text in given.items()]
    return [(str(number), text) for number, text in enumerate(_arguments.several(name, given))]


def _texts(id: str, document: Document) -> tuple[str, str]:
    if isinstance(document, str):
        return "", document
    if not isinstance(document, Mapping) or "text" not in document:
        raise TypeError(f"corpus: document {id!r}: expected a text, or a mapping with `text`, found {document!r:.80}")
    return document.get("title") or "", document["text"]
