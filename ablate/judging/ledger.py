"""Remembers every variant that was ever judged, and the seeds it gave out.

The best of forty tries looks good by luck alone. A judge who sees one try at a time cannot know
that there were forty, so a ledger counts them: a file with one line of JSON for each judgement,
which is only ever added to. All variants in it share one error (`variants.py`), whatever their
bases and columns are called, and a variant that is judged again on further seeds is judged on all
its seeds, by a test that allows for it. Confirmations on held-out seeds share an error of their
own, in the same way.
"""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from ablate.config import typed
from ablate.errors import ConfigError, DamagedError, StoreError
from ablate.judging.lines import Lines
from ablate.judging.rows import Row
from ablate.judging.variants import Family, Judged, Variant, comparisons, values_of
from ablate.store.locks import locked

LARGEST_SEED = 2**31 - 1  # what every framework takes


@dataclass(frozen=True)
class Known:
    """What a ledger knows of the arms of some rows."""

    judged: Sequence[Judged]  # each arm without the base, as the rows have it
    variants: Mapping[str, Variant]  # arm -> as it was judged before; without those that are new
    others: int  # variants that share the error, and are not among these arms
    counts_as: Mapping[str, int]  # arm -> comparisons

    @property
    def held_out(self) -> bool:
        """Return whether it is a confirmation, on seeds that nobody had seen."""
        return self.judged[0].held_out

    @property
    def looks(self) -> dict[str, tuple[int, ...]]:
        """Arm -> the numbers of pairs at which it was judged before."""
        return {arm: variant.looks for arm, variant in self.variants.items()}

    @property
    def seen(self) -> tuple[str, ...]:
        """The seeds in the order in which they were judged."""
        return tuple(dict.fromkeys(chain.from_iterable(v.values for v in self.variants.values())))

    def with_earlier(self, rows: Sequence[Row], base: str) -> list[Row]:
        """The rows, and the pairs of earlier judgements that they lack."""
        have = {(row.arm, row.seed): row for row in rows}
        for arm, variant in self.variants.items():
            of_base = variant.of_base or {}
            for seed in filter(of_base.__contains__, variant.values):
                for name, values in ((arm, variant.values), (base, of_base)):
                    row = Row(arm=name, seed=seed, value=values[seed], cost=None, place=0, cells={})
                    have.setdefault((name, seed), row)
        return list(have.values())


@contextlib.contextmanager
def held(file: str) -> Iterator[Ledger]:
    """A ledger that nobody else reads or writes meanwhile: two judgements made at once would not
    count each other's variants."""
    lock = Path(f"{file}.lock")
    with contextlib.ExitStack() as stack:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(lock, remove=True))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"the ledger {file} cannot be locked by {lock}: {reason}.") from error
        yield Ledger(file)


class Ledger:
    """The lines of a ledger's file, which need not exist yet."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines = Lines(file, "the ledger")
        self._families = {False: Family(), True: Family()}  # held out, or not
        self._seen: set[str] = set()  # seeds
        self._drawn: set[str] = set()
        for number, line in self._lines.read():
            self._take(line, number)

    def known(self, rows: Sequence[Row], base: str, metric: str) -> Known:
        """What is known of each arm of these rows, without the base."""
        values = values_of(rows)
        of_base = values.pop(base)
        judged = [Judged(base, metric, arm, own, "", (), of_base) for arm, own in values.items()]
        confirmed = self._matched(judged, held_out=True)
        held_out = {row.seed for row in rows} <= self._drawn and all(
            seed not in self._seen or (one.arm in confirmed and seed in confirmed[one.arm].values)
            for one in judged
            for seed in one.values
        )
        variants = confirmed if held_out else self._matched(judged, held_out=False)
        num = self._families[held_out].num
        new = comparisons(num, len(judged) - len(variants))
        counts = {j.arm: variants[j.arm].counts_as if j.arm in variants else new for j in judged}
        judged = [replace(j, held_out=held_out, counts_as=counts[j.arm]) for j in judged]
        return Known(judged, variants, num - len(variants), counts)

    def _matched(self, judged: Sequence[Judged], *, held_out: bool) -> dict[str, Variant]:
        """Arm -> the variant that it was judged as before."""
        matched: dict[str, Variant] = {}
        of_base = dict(judged[0].of_base or {}) if judged else {}
        for one in judged:
            variant = self._families[held_out].matching(replace(one, of_base=of_base))
            if variant is not None:
                matched[one.arm] = variant
                of_base = {**(variant.of_base or {}), **of_base}  # one base for all arms
        return matched

    def planned(self, known: Known, looks: tuple[int, ...]) -> tuple[int, ...]:
        """The looks that were planned for these arms before any of them was judged."""
        plans = {variant.planned for variant in known.variants.values()}
        first = next(iter(plans)) if len(plans) == 1 else () if plans else looks
        if looks and looks != first:
            was = f"looks at {', '.join(map(str, first))} seeds" if first else "one look"
            raise ConfigError(
                f"the ledger {self._file} has results of these arms, for which {was} had been "
                "planned: a plan holds if it was made before the first look. Instead: leave "
                "--looks out, or judge fresh seeds (--draw)."
            )
        return first

    def add(self, known: Known, looks: tuple[int, ...] = ()) -> None:
        """Write down that these arms were judged; what is there already is not written again."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        new = [
            replace(one, when=when, looks=looks)
            for one in known.judged
            if one.values
            and (one.arm not in known.variants or not known.variants[one.arm].knows(one))
        ]
        if new:
            self._lines.append([{"judged": asdict(one)} for one in new])
        for one in new:
            self._count(one)

    def draw(self, num: int) -> list[str]:
        """Seeds that nobody has seen, for a confirmation. Each is given out once."""
        known = self._seen | self._drawn
        seeds: list[str] = []
        while len(seeds) < num:
            seed = str(secrets.randbelow(LARGEST_SEED) + 1)
            if seed not in known:
                known.add(seed)
                seeds.append(seed)
        self._lines.append([{"drawn": seeds}])
        self._drawn |= {*seeds}
        return seeds

    def _take(self, line: bytes, number: int) -> None:
        try:
            entry = json.loads(line)
            if "judged" in entry:
                self._count(_finite(typed.read(Judged, entry["judged"])))
            else:
                self._drawn |= {*map(str, entry["drawn"])}
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DamagedError(
                f"the ledger {self._file} is damaged in line {number}: {error}. A ledger that "
                "forgets judges too kindly: restore it from a copy, or mend the line."
            ) from error

    def _count(self, judged: Judged) -> None:
        self._families[judged.held_out].take(judged)
        self._seen |= {*judged.values, *(judged.of_base or ())}


def _finite(judged: Judged) -> Judged:
    values = (*judged.values.values(), *(judged.of_base or {}).values())
    if not all(value is None or math.isfinite(value) for value in values):
        raise ValueError("its values are not all finite")
    return judged
