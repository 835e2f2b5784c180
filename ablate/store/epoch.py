"""One epoch of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.store.numbers import finite


@dataclass(frozen=True)
class Epoch:
    """What a trial reported when an epoch ended."""

    number: int
    metrics: Mapping[str, Any] = field(default_factory=dict)  # and a rate, an event
    seconds: float | None = None  # on the trial's clock, which runs on from epoch to epoch
    tokens: float | None = None  # trained on in this epoch

    @property
    def event(self) -> str:
        """What happened besides training; "" if nothing did."""
        return self.metrics.get("event") or ""

    def to_plain(self) -> dict[str, Any]:
        """The epoch as the journal has it, without unknown numbers."""
        own = {"epoch": self.number, "seconds": self.seconds, "tokens": self.tokens}
        return {**self.metrics, **{name: value for name, value in own.items() if value is not None}}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Epoch:
        """Seconds or tokens that are no finite number stay among the metrics."""
        metrics = {**plain}
        seconds = None if finite(plain.get("seconds")) is None else metrics.pop("seconds")
        tokens = None if finite(plain.get("tokens")) is None else metrics.pop("tokens")
        return Epoch(metrics.pop("epoch"), metrics, seconds, tokens)
