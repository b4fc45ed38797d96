"""Quarry's methods and models for MTEB (``pip install mteb``, 2 or newer).

>>> import mteb, quarry.mteb
>>> mteb.evaluate(quarry.mteb.Search("hybrid"), mteb.get_task("CosQA"))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder
from mteb.types import PromptType

from . import Encoder, Retriever, __version__


def _meta(name: str) -> ModelMeta:
    # What a path has between its directories is between the owner and the name of a model.
    name = name.strip("./").replace("/", "_") or "model"
    return ModelMeta.create_empty({"name": f"quarry/{name}", "revision": __version__})


class Search:
    """Any method of ``quarry eval`` as a search system of MTEB, which ranks the whole corpus.

    Parameters
    ----------
    method
        As of `quarry.Retriever`.
    """

    def __init__(self, method: str = "hybrid") -> None:
        self.retriever = Retriever(method)
        self.mteb_model_meta = _meta(method)

    def index(self, corpus: Iterable[dict[str, Any]], **_: Any) -> None:
        """Indexes the corpus of a task."""
        self.retriever.index({document["id"]: document for document in corpus})

    def search(
        self,
        queries: Iterable[dict[str, Any]],
        *,
        top_k: int,
        top_ranked: dict[str, list[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """The best `top_k` documents of each query, of those in `top_ranked` where a task re-ranks."""
        asked = {query["id"]: query["text"] for query in queries}
        if top_ranked is None:
            return self.retriever.search(asked, top_k)
        found = self.retriever.search(asked, len(self.retriever._ids))
        allowed = {query: set(documents) for query, documents in top_ranked.items()}
        return {
            query: dict([(id, score) for id, score in scores.items() if id in allowed.get(query, ())][:top_k])
            for query, scores in found.items()
        }


class Model(AbsEncoder):  # type: ignore[misc]
    """A model of Quarry as an encoder of MTEB.

    Parameters
    ----------
    model
        As of `quarry.Encoder`.
    """

    def __init__(self, model: str | None = None) -> None:
        self.encoder = Encoder(model)
        self.mteb_model_meta = _meta(model or "builtin")

    def encode(
        self, inputs: Iterable[dict[str, Any]], *, prompt_type: PromptType | None = None, **_: Any
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Vectors of the texts of all batches, one row each."""
        texts = [text for batch in inputs for text in batch["text"]]
        if prompt_type == PromptType.query:
            return self.encoder.encode_queries(texts)
        return self.encoder.encode_documents(texts)
