"""Remembers every variant that was ever judged against a base, and the seeds it gave out.

The best of forty tries looks good by luck alone. A judge who sees one try at a time cannot know
that there were forty, so a ledger counts them: a file with one line of JSON for each judgement,
which is only ever added to. Verdicts are corrected over all variants in it, and an arm that is
judged again with more seeds is judged by a test that allows for it.

A variant is its results and not its name: if the result on a seed that was judged before is another
one now, it is of another variant.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, DamagedError, StoreError
from ablate.judging.rows import Row
from ablate.store.locks import locked

LARGEST_SEED = 2**31 - 1  # what every framework takes


@dataclass(frozen=True)
class Judged:
    """One variant, as it was judged once. `values`: seed -> value, None where a run has none."""

    base: str
    metric: str
    arm: str
    values: Mapping[str, float | None]
    when: str
    looks: Sequence[int] = ()  # planned when it was judged first


@dataclass(frozen=True)
class History:
    """What a ledger knows of one variant and of all others that were judged against its base."""

    looks: tuple[int, ...]  # numbers of seeds at which the variant was judged before
    others: int  # variants that are not judged now


@contextlib.contextmanager
def held(file: str) -> Iterator[Ledger]:
    """A ledger that nobody else reads or writes meanwhile: two judgements made at once would not
    count each other's variants."""
    lock = Path(f"{file}.lock")
    with contextlib.ExitStack() as stack:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(lock, remove=True))
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"the ledger {file} cannot be locked by {lock}: {reason}.") from error
        yield Ledger(file)


class Ledger:
    """The lines of a ledger's file, which need not exist yet."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._judged: list[Judged] = []
        self._drawn: list[str] = []
        for number, line in enumerate(self._lines(), 1):
            self._take(line, number)

    def history(self, rows: Sequence[Row], base: str, metric: str) -> dict[str, History]:
        """What is known of each arm of these rows, without the base."""
        matched = self._matched(rows, base, metric)
        known = {id(variant) for variant in matched.values() if variant is not None}
        others = len(self._variants(base, metric)) - len(known)
        return {
            arm: History(() if variant is None else variant.looks, others)
            for arm, variant in matched.items()
        }

    def _matched(self, rows: Sequence[Row], base: str, metric: str) -> dict[str, _Variant | None]:
        """Arm -> the variant that it was judged as before."""
        variants = self._variants(base, metric)
        matched = {
            arm: _matching(arm, own, variants) for arm, own in _values(rows).items() if arm != base
        }
        return {arm: None if at is None else variants[at] for arm, at in matched.items()}

    def planned(
        self, rows: Sequence[Row], base: str, metric: str, looks: tuple[int, ...]
    ) -> tuple[int, ...]:
        """The looks that were planned for these arms before any of them was judged."""
        known = self._matched(rows, base, metric)
        plans = {variant.planned for variant in known.values() if variant}
        first = next(iter(plans)) if len(plans) == 1 else () if plans else looks
        if looks and looks != first:
            was = f"looks at {', '.join(map(str, first))} seeds" if first else "one look"
            raise ConfigError(
                f"the ledger {self._file} has results of these arms, for which {was} had been "
                "planned: a plan holds if it was made before the first look. Instead: leave "
                "--looks out, or judge fresh seeds (--draw)."
            )
        return first

    def seen(self, rows: Sequence[Row], base: str, metric: str) -> tuple[str, ...]:
        """The seeds of these arms in the order in which they were judged."""
        known = self._matched(rows, base, metric).values()
        return tuple(dict.fromkeys(seed for v in known if v for seed in v.values))

    def add(self, rows: Sequence[Row], base: str, metric: str, looks: tuple[int, ...] = ()) -> None:
        """Write down that these arms were judged; what is there already is not written again."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = {(j.base, j.metric, j.arm, *sorted(j.values.items())) for j in self._judged}
        for arm, values in _values(rows).items():
            if arm != base and (base, metric, arm, *sorted(values.items())) not in said:
                judged = Judged(base, metric, arm, values, when, looks)
                self._append({"judged": asdict(judged)})
                self._judged.append(judged)

    def draw(self, num: int) -> list[str]:
        """Seeds that nobody has seen, for a confirmation. Each is given out once."""
        known = {seed for judged in self._judged for seed in judged.values} | {*self._drawn}
        seeds: list[str] = []
        while len(seeds) < num:
            seed = str(secrets.randbelow(LARGEST_SEED) + 1)
            if seed not in known:
                known.add(seed)
                seeds.append(seed)
        self._append({"drawn": seeds})
        self._drawn += seeds
        return seeds

    def held_out(self, rows: Sequence[Row], base: str, metric: str) -> bool:
        """Return whether all seeds were given out by `draw`, and no variant was judged on them."""
        seeds = {row.seed for row in rows}
        spent = {
            seed
            for judged in self._judged
            if (judged.base, judged.metric) == (base, metric)
            for seed in judged.values
        }
        return seeds <= {*self._drawn} - spent

    def _variants(self, base: str, metric: str) -> list[_Variant]:
        variants: list[_Variant] = []
        for judged in self._judged:
            if (judged.base, judged.metric) == (base, metric):
                at = _matching(judged.arm, judged.values, variants)
                if at is None:
                    variants.append(_Variant(judged.arm, {}, (), tuple(judged.looks)))
                    at = len(variants) - 1
                variants[at] = variants[at].seen(judged.values)
        return variants

    def _lines(self) -> list[str]:
        try:
            return self._file.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"the ledger {self._file} cannot be read: {error}") from error

    def _take(self, line: str, number: int) -> None:
        try:
            entry = json.loads(line)
            if "judged" in entry:
                self._judged.append(Judged(**entry["judged"]))
            else:
                self._drawn += map(str, entry["drawn"])
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError(
                f"the ledger {self._file} is damaged in line {number}: {error}. A ledger that "
                "forgets judges too kindly: restore it from a copy, or mend the line."
            ) from error

    def _append(self, entry: Mapping[str, Any]) -> None:
        """Add a line and have it on the disk before anything is said of it."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"the ledger {self._file} cannot be written: {reason}.") from error


@dataclass(frozen=True)
class _Variant:
    """A variant over all its judgements."""

    arm: str
    values: Mapping[str, float | None]
    looks: tuple[int, ...]  # that were made
    planned: tuple[int, ...]

    def seen(self, values: Mapping[str, float | None]) -> _Variant:
        looks = (*self.looks, len(values))
        return _Variant(self.arm, {**self.values, **values}, looks, self.planned)


def _matching(
    arm: str, values: Mapping[str, float | None], variants: Sequence[_Variant]
) -> int | None:
    """Which variant this is: one of the same name whose results on shared seeds are the same."""
    for at, known in enumerate(variants):
        shared = known.values.keys() & values.keys()
        if known.arm == arm and all(known.values[seed] == values[seed] for seed in shared):
            return at
    return None


def _values(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    by_arm: dict[str, dict[str, float | None]] = {}
    for row in rows:
        by_arm.setdefault(row.arm, {})[row.seed] = row.value
    return by_arm
