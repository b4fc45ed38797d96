"""Where the models are that come with the package."""

import sysconfig
from pathlib import Path


def directories() -> list[Path]:
    """Directories that may hold the models of the qualities."""
    user = sysconfig.get_preferred_scheme("user")
    is_users = Path(__file__).is_relative_to(sysconfig.get_path("platlib", user))
    data = sysconfig.get_path("data", user if is_users else sysconfig.get_default_scheme())
    return [Path(data) / "share" / "quarry" / "models"]
