"""Where a command's numbers are: matches of patterns in its output, or a file that it writes.

    reads={"valid_loss": r"val_loss: (\\S+)", "test_loss": r"test_loss: (\\S+)"}
    reads={"valid_loss": "val_loss", "test_loss": "test_loss"}, file="metrics.csv"

A line or a row may have some of an epoch's numbers. An epoch ends where one of its numbers comes
again, once it has the validation value of the metric that decides. Numbers `test_...` are the
result, of which the last ones count.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablate.config.metrics import Metric
from ablate.errors import ConfigError, TrialError

SUFFIXES = (".csv", ".json", ".jsonl")


@dataclass(frozen=True)
class Reads:
    """Where each number is: a pattern for the output's lines, or a column or key of the file."""

    places: Mapping[str, str]
    file: str = ""

    def in_line(self, line: str) -> dict[str, str]:
        """The numbers in a line of the output, as texts."""
        found = {name: re.search(pattern, line) for name, pattern in self.places.items()}
        return {name: match[1].rstrip(",;") for name, match in found.items() if match and match[1]}

    def in_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers in a row of the file; cells may be empty."""
        found = {name: row.get(place) for name, place in self.places.items()}
        return {name: value for name, value in found.items() if value not in (None, "")}

    def lacking(self, name: str, names: Iterable[str]) -> str:
        """What to say if nothing was found for a number."""
        source, place = self.file or "the command's output", self.places[name]
        found = ", ".join(map(repr, sorted(names))) or "nothing"
        return f"{source} has no {place!r}, where reads expects '{name}'. Found: {found}."


@dataclass
class Epochs:
    """Gathers the numbers of lines or rows into epochs and a result."""

    deciding: str  # `valid_...`, without which no epoch ends
    result: dict[str, Any] = field(default_factory=dict)
    _epoch: dict[str, Any] = field(default_factory=dict)

    def add(self, numbers: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Take in numbers; give the epoch that has ended, if one has."""
        last = {name: value for name, value in numbers.items() if name.startswith("test_")}
        self.result |= last
        epoch = {name: value for name, value in numbers.items() if name not in last}
        if self.deciding in self._epoch and not epoch.keys().isdisjoint(self._epoch):
            yield from self.end()
        self._epoch |= epoch

    def end(self) -> Iterator[dict[str, Any]]:
        """Give the last epoch."""
        if self._epoch:
            yield self._epoch
        self._epoch = {}


def checked(
    reads: Mapping[str, str] | None, file: str, metrics: Metric | Sequence[Metric], where: str
) -> Reads | None:
    """What a declaration says; None if the command prints JSON lines."""
    if reads is None and not file:
        return None
    metric = metrics if isinstance(metrics, Metric) else metrics[0]
    wanted = [metric.key(split) for split in ("valid", "test")]
    reads = {name: name for name in wanted} if reads is None else reads
    for name in wanted:
        if name not in reads:
            raise ConfigError(
                f"{where}: reads does not say where '{name}' is. Expected: a place for "
                f"{' and '.join(wanted)}; a script that has one number may give it for both."
            )
    for name, place in reads.items() if not file else ():
        _check_pattern(name, place, where)
    if file and (Path(file).suffix not in SUFFIXES or Path(file).is_absolute()):
        raise ConfigError(
            f"{where}: file is {file!r}. Expected: a path below {{folder}} that ends with "
            f"{', '.join(SUFFIXES)}."
        )
    return Reads(reads, file)


def _check_pattern(name: str, pattern: str, where: str) -> None:
    try:
        num_groups = re.compile(pattern).groups
    except re.error as error:
        raise ConfigError(f"{where}: the pattern of '{name}', {pattern!r}: {error}.") from None
    if num_groups != 1:
        raise ConfigError(
            f"{where}: the pattern of '{name}', {pattern!r}, has {num_groups} groups. Expected: "
            rf"one, around the number, as in r'{name}: (\S+)'."
        )


def rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a CSV file, the objects of JSON lines, or those of a JSON file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".csv":
            found: Any = [*_cells(csv.DictReader(text.splitlines()))]
        elif path.suffix == ".jsonl":
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            found = json.loads(text)
    except OSError as error:
        raise TrialError(f"the command wrote no {path.name}: {error.strerror}") from None
    except (ValueError, RecursionError, csv.Error) as error:
        raise TrialError(f"{path.name} of the command cannot be read: {error}") from None
    for row in found if isinstance(found, list) else [found]:
        if not isinstance(row, dict):
            raise TrialError(
                f"{path.name} of the command has {row!r:.40} where an object should be"
            )
        yield row


def _cells(reader: csv.DictReader) -> Iterator[Mapping[str, Any]]:
    """The rows of a CSV file, none of which can be read in two ways."""
    names = [*(reader.fieldnames or ())]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two columns are called {doubled[0]!r}")
    for row in reader:
        if reader.restkey in row:
            raise ValueError(
                f"line {reader.line_num} has more cells than the header, as 0,85 for 0.85 makes"
            )
        yield row
