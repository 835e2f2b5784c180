"""The rows of a batch, shared among the processes of a trial (`ablate/trial/training/crew.py`).

Each process computes the loss and the gradient of its own rows, and the sums over all processes
are those of one process with all rows. So every term must be a sum over tokens or a mean over
rows, and a mask must be drawn for the whole batch, of which a process keeps its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ablate.config import registry
from ablate.config.config import Config
from ablate.config.tasks import TEXT
from ablate.errors import CombinationError


@dataclass(frozen=True)
class Rows:
    """The rows from `first` up to `end`, of `total`, that this process computes."""

    first: int
    end: int
    total: int

    def of(self, x: Tensor, dim: int) -> Tensor:
        """Return these rows of a tensor that has all, with rows in dimension `dim`."""
        return x.narrow(dim, self.first, self.end - self.first).contiguous()


def share_of(total: int, rank: int, size: int) -> Rows:
    """The share of process `rank` of `size`: shares differ by one row at most, and may be empty."""
    return Rows(total * rank // size, total * (rank + 1) // size, total)


def check_rows(config: Config, processes: int) -> None:
    """Refuse several processes for a trial whose update is not a sum over rows."""
    way_out = "Instead: processes=1 in the scale."
    if config.kind.reads != TEXT:
        raise CombinationError(
            f"a trial that reads {config.kind.reads} trains in one process, and the scale gives it "
            f"{processes}. {way_out}"
        )
    training = config.training
    fewest = -(-training.batch_size // training.accumulate)  # of the first part of an update
    if fewest < processes:
        raise CombinationError(
            f"training.batch_size = {training.batch_size} with training.accumulate = "
            f"{training.accumulate} computes {fewest} rows at a time, which {processes} processes "
            f"cannot share. {way_out}"
        )
    loss = config["loss"].name
    if not registry.get("loss", loss).build.by_rows:
        raise CombinationError(f"{_not_by_rows('loss', loss, processes)} {way_out}")
    for choice in config.listed.get("regularizer", ()):
        if not choice.make().by_rows:
            refusal = _not_by_rows("regularizer", choice.name, processes)
            raise CombinationError(f"{refusal} {way_out}")


def _not_by_rows(slot: str, name: str, processes: int) -> str:
    return (
        f"{slot} '{name}' does not say that it can be computed for some rows of a batch apart "
        f"(`by_rows`), as each of {processes} processes would."
    )
