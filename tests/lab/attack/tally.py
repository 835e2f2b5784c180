"""What an attack counts: one line of the table that `make attack` prints."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """How often one kind of attack was tried, and what gave way."""

    kind: str
    tried: int = 0
    lost: int = 0  # results that were there before and are not afterwards
    doubled: int = 0  # results that are there twice
    wrong: int = 0  # other numbers than without the attack, without an error
    tracebacks: int = 0
    hangs: int = 0
    examples: tuple[str, ...] = ()  # what failed, and how to repeat it
