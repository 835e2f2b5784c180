"""The studies that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_WHEEL, _CHECKOUT = _PACKAGE / "studies", _PACKAGE.parent / "studies"


def shipped() -> dict[str, Path]:
    """Return the file of each shipped study."""
    folder = _WHEEL if _WHEEL.is_dir() else _CHECKOUT
    return {file.stem: file for file in sorted(folder.glob("*.py"))}
