"""Reading, checking, sampling and printing the papers' tables (`search_spaces/*.toml`)."""

from ablate.space.row import Choices, Range, Row
from ablate.space.space import Space, load

__all__ = ["Choices", "Range", "Row", "Space", "load"]
