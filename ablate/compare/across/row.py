"""An arm of a study, or a model of a paper's table, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[str, str, str, str]  # of a column: corpus, split, unit, and OURS or PUBLISHED
OURS, PUBLISHED = "ours", "published"


@dataclass
class Row:
    """An arm or a model, and its values."""

    source: str
    name: str
    parameters: float | None
    values: dict[Key, str] = field(default_factory=dict)
