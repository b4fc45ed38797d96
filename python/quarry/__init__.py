"""Finds code by what it does, and measures how well code is found.

`Index` searches source trees, `Encoder` embeds texts, `Retriever` ranks a corpus by any method of ``quarry eval``, and
`evaluate` scores rankings against relevance judgments. `quarry.mteb` has the same for MTEB.
"""

from ._quarry import QuarryError, __version__

__all__ = [
    "Answer",
    "Comparison",
    "Difference",
    "Encoder",
    "Evaluation",
    "Index",
    "QuarryError",
    "Result",
    "Retriever",
    "__version__",
    "compare",
    "evaluate",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._evaluation import Comparison, Difference, Evaluation, compare, evaluate
    from ._index import Answer, Index, Result
    from ._models import Encoder, Retriever
else:

    def __getattr__(name):
        # The program in the package starts in half the time without these.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _evaluation, _index, _models

        for module in (_evaluation, _index, _models):
            globals().update({known: getattr(module, known) for known in __all__ if hasattr(module, known)})
        return globals()[name]

    def __dir__():
        return list(__all__)
