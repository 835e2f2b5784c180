"""An arm of a study, or a model of a paper's table, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

Place = tuple[str, str, str]  # of a number: corpus, split, unit
Key = tuple[str, str, str, str]  # of a column: a place, and OURS or PUBLISHED
OURS, PUBLISHED = "ours", "published"


@dataclass
class Row:
    """An arm or a model, and its values."""

    source: str
    name: str
    parameters: float | None
    values: dict[Key, str] = field(default_factory=dict)
    # The published number, shown even if none of our results can be compared with it; then the
    # verdict, or the reason why there is none.
    beside: dict[Place, tuple[str, str]] = field(default_factory=dict)
