"""Finds code by what it does, and measures how well code is found.

`Index` searches source trees, `Encoder` embeds texts, `Retriever` ranks a corpus by any method of ``quarry eval``, and
`evaluate` scores rankings against relevance judgments. `quarry.mteb` has the same for MTEB.
"""

from ._evaluation import Comparison, Difference, Evaluation, compare, evaluate
from ._index import Answer, Index, Result
from ._models import Encoder, Retriever
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
