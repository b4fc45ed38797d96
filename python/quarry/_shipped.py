"""Where the models are that come with the package."""

import sys
from pathlib import Path


def directories() -> list[Path]:
    """Directories that may hold the models of the qualities."""
    return [Path(sys.prefix) / "share" / "quarry" / "models"]
