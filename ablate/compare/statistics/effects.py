"""Main effects and two-factor interactions of a factorial design: "A helps only without B".

Each is a contrast over the design's arms, taken within every seed, so that it is paired like a
difference of two arms: one number a seed, a t interval over them, and Holm's correction over
all contrasts that the design can tell apart.

    main effect of A       mean over the rest of the design of  y(A = level) - y(A = reference)
    interaction of A and B  [effect of A where B is at its level] - [where B is at its reference]

y is the mean nats a token. The reference of a factor is its level in the base arm. In a
fraction of a factorial, contrasts that are one number (aliases) are one row under all their names:
such a design cannot tell which of them it is.

If an interaction is decided, the effects of each factor at each level of the other follow, with a
separate correction over those shown: only then may a line say that A helps without B.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.against import judged
from ablate.compare.statistics.paired import HIGHER, LOWER, UNDECIDED, Difference
from ablate.compare.statistics.replication import Replication, counted
from ablate.compare.table.rows import ArmSummary, Effect, Effects
from ablate.compare.text.units import Unit
from ablate.store.study_record import StudyRecord

DESIGNS = ("factorial", "fractional_factorial")
ROUNDED = 12  # digits to which equal contrasts are equal
Weights = tuple[float, ...]  # of a contrast, by arm


@dataclass(frozen=True)
class Contrast:
    """A name and a weight for every arm."""

    name: str
    kind: str
    weights: Weights
    factors: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def effects(
    record: StudyRecord,
    arms: Sequence[ArmSummary],
    unit: Unit,
    *,
    alpha: float,
    replication: Replication,
) -> Effects | None:
    """The effects of a factorial; None for any other design."""
    if record.design not in DESIGNS:
        return None
    levels = {arm.name: dict(record.arm(arm.name).levels) for arm in arms}
    design = Design([levels[arm.name] for arm in arms], levels.get(record.base_arm) or {})
    if not design.balanced:
        return Effects(notes=("Effects: this scale leaves out arms, so its factors do not cross.",))
    table = _Table(list(arms), unit, alpha, replication)
    if not table.rows:
        return Effects(notes=("Effects: no seed has completed in every arm yet.",))
    family = table.family(design.contrasts())
    decided = [e for e in family if e.kind == "interaction" and e.verdict in (LOWER, HIGHER)]
    chosen = {name for effect in decided for name in (effect.name, *effect.aliases)}
    simple = table.family(design.simple(chosen)) if record.design == "factorial" else ()
    return Effects(
        effects=family,
        simple=simple,
        readings=tuple(_readings(simple)),
        notes=tuple(_notes(replication, family)),
    )


class Design:
    """The levels of every factor in every arm, and the contrasts between them."""

    def __init__(self, arms: Sequence[Mapping[str, str]], base: Mapping[str, str]) -> None:
        self.arms = list(arms)
        self.factors = sorted({factor for arm in arms for factor in arm})  # as they are stored
        self.levels = {f: self._levels(f, base) for f in self.factors}

    def _levels(self, factor: str, base: Mapping[str, str]) -> list[str]:
        """The reference first: the base arm's level."""
        found = list(dict.fromkeys(arm[factor] for arm in self.arms if factor in arm))
        reference = base.get(factor, found[0])
        return [reference, *(level for level in found if level != reference)]

    @property
    def balanced(self) -> bool:
        """Return whether every factor is in every arm, and every two of them are crossed evenly.

        In a fraction two may also be the same, which makes them aliases.
        """
        if not self.arms or any(set(arm) != set(self.factors) for arm in self.arms):
            return False
        for a, b in itertools.combinations(self.factors, 2):
            pairs = [(arm[a], arm[b]) for arm in self.arms]
            counts = {pairs.count(pair) for pair in set(pairs)}
            whole = len(self.levels[a]) * len(self.levels[b])
            if len(counts) > 1 or len(set(pairs)) not in (whole, len(self.levels[a])):
                return False
        alone = ([arm[f] for arm in self.arms] for f in self.factors)
        return all(len({column.count(level) for level in column}) == 1 for column in alone)

    def contrasts(self) -> list[Contrast]:
        """Every main effect and two-factor interaction, aliases merged."""
        named = [
            *(self._main(factor, level) for factor, level in self._changed()),
            *(
                self._interaction(a, b)
                for a, b in itertools.combinations(self._changed(), 2)
                if a[0] != b[0]
            ),
        ]
        classes: dict[Weights, list[Contrast]] = {}
        for contrast in named:
            if any(contrast.weights):
                classes.setdefault(_direction(contrast.weights), []).append(contrast)
        return [
            replace(first, aliases=tuple(c.name for c in others))
            for first, *others in classes.values()
        ]

    def simple(self, interactions: Iterable[str]) -> list[Contrast]:
        """Within these interactions: each factor's effect at each of two levels of the other."""
        wanted, found = set(interactions), []
        for a, b in itertools.combinations(self._changed(), 2):
            if a[0] == b[0] or self._interaction(a, b).name not in wanted:
                continue
            for (factor, level), (other, its) in ((a, b), (b, a)):
                found += [
                    self._main(factor, level, (other, at)) for at in (self.levels[other][0], its)
                ]
        return found

    def _changed(self) -> list[tuple[str, str]]:
        """Every level of every factor except the reference."""
        return [(f, level) for f in self.factors for level in self.levels[f][1:]]

    def _main(self, factor: str, level: str, at: tuple[str, str] | None = None) -> Contrast:
        reference = self.levels[factor][0]
        within = [at is None or arm[at[0]] == at[1] for arm in self.arms]
        weights = _between(self._are(factor, level, within), self._are(factor, reference, within))
        name = f"{factor}: {level} vs {reference}"
        if at is None:
            return Contrast(name, "main", weights, (factor,))
        return Contrast(f"{name}, {at[0]} {at[1]}", "simple", weights, (factor, level, *at))

    def _are(self, factor: str, level: str, within: Sequence[bool]) -> list[bool]:
        return [
            arm[factor] == level and is_in for arm, is_in in zip(self.arms, within, strict=True)
        ]

    def _interaction(self, a: tuple[str, str], b: tuple[str, str]) -> Contrast:
        """Twice the mean where both or neither are changed, less where one of them is."""
        signs = []
        for arm in self.arms:
            here = [_sign(arm[f], level, self.levels[f][0]) for f, level in (a, b)]
            signs.append(here[0] * here[1])
        halves = _between([s > 0 for s in signs], [s < 0 for s in signs])
        weights = tuple(2 * weight for weight in halves)
        return Contrast(f"{_short(self, a)} × {_short(self, b)}", "interaction", weights)


def _short(design: Design, changed: tuple[str, str]) -> str:
    """`dropout`, or `dropout: 0.5` where it has more than two levels."""
    factor, level = changed
    return factor if len(design.levels[factor]) == 2 else f"{factor}: {level}"


def _sign(level: str, changed: str, reference: str) -> int:
    return 1 if level == changed else -1 if level == reference else 0


def _between(first: Sequence[bool], second: Sequence[bool]) -> Weights:
    """The mean of the first arms less the mean of the second; zeros if either is empty."""
    if not any(first) or not any(second):
        return tuple(0.0 for _ in first)
    return tuple(
        a / sum(first) - b / sum(second)
        for a, b in zip(map(int, first), map(int, second), strict=True)
    )


def _direction(weights: Weights) -> Weights:
    """Contrasts that differ only in sign and size have one direction."""
    largest = max(abs(weight) for weight in weights)
    sign = 1 if next(weight for weight in weights if weight) > 0 else -1
    return tuple(round(sign * weight / largest, ROUNDED) + 0.0 for weight in weights)


class _Table:
    """The values of all arms, a row for every seed (or repeat of a search) they all have."""

    def __init__(
        self, arms: list[ArmSummary], unit: Unit, alpha: float, replication: Replication
    ) -> None:
        self.arms, self.unit, self.alpha = arms, unit, alpha
        self.replication = replication
        shared = [i for i in arms[0].values if all(i in arm.values for arm in arms)]
        self.rows = [
            [statistics.mean([arm.values[i] for i in group]) for arm in arms]
            for group in replication.groups(shared)
        ]
        self.at = unit.show(statistics.mean([v for row in self.rows for v in row] or [0.0]))

    def family(self, contrasts: Sequence[Contrast]) -> tuple[Effect, ...]:
        """Their effects, corrected over all of them."""
        differences = [self._difference(contrast) for contrast in contrasts]
        corrected = statistics.holm([d.p for d in differences])
        return tuple(
            self._effect(contrast, found, p, len(contrasts))
            for contrast, found, p in zip(contrasts, differences, corrected, strict=True)
        )

    def _difference(self, contrast: Contrast) -> Difference:
        totals = [
            math.fsum(w * v for w, v in zip(contrast.weights, row, strict=True))
            for row in self.rows
        ]
        found = statistics.paired_difference(
            totals,
            [0.0] * len(totals),
            alpha=self.alpha,
            tested=not self.replication.of_settings_found,
        )
        if found is None:
            raise ValueError("a contrast over no seed")
        return found

    def _effect(
        self, contrast: Contrast, found: Difference, p_holm: float | None, num: int
    ) -> Effect:
        involved = [a for a, w in zip(self.arms, contrast.weights, strict=True) if w]
        judgement = judged(
            found, p_holm, _reservation(involved, found), self.unit, self.at, self.replication, num
        )
        return Effect(
            **vars(judgement), name=contrast.name, kind=contrast.kind, aliases=contrast.aliases
        )


def _reservation(arms: Sequence[ArmSummary], found: Difference) -> str:
    """Why the test cannot decide; a lost seed makes some arm look better, on either side."""
    missing = sum(arm.counts.missing for arm in arms)
    if missing:
        return f"{missing} to run"
    if any(arm.counts.selected for arm in arms):
        return "lost seeds"
    return "1 pair" if found.num_pairs == 1 else ""


def _readings(simple: Sequence[Effect]) -> Iterable[str]:
    """Pairs of simple effects, at the reference and at the level of the other factor, in words."""
    for at_reference, at_level in zip(simple[::2], simple[1::2], strict=True):
        what, _, first = at_reference.name.partition(", ")
        second = at_level.name.partition(", ")[2]
        states = (at_reference.verdict, at_level.verdict)
        if set(states) == {LOWER, UNDECIDED}:
            where, elsewhere = (first, second) if states[0] == LOWER else (second, first)
            yield f"{what} helps with {where}; with {elsewhere} it is not shown to help."
        elif set(states) == {LOWER, HIGHER}:
            where, elsewhere = (first, second) if states[0] == LOWER else (second, first)
            yield f"{what} helps with {where} and hurts with {elsewhere}."
        elif set(states) == {LOWER}:
            larger = min((at_reference, at_level), key=lambda effect: effect.difference.mean)
            more = first if larger is at_reference else second
            yield f"{what} helps with either, more with {more}."


def _notes(replication: Replication, family: Sequence[Effect]) -> Iterable[str]:
    pairs = max((effect.difference.num_pairs for effect in family), default=0)
    tested = f"Holm-corrected over {len(family)}"
    if replication.of_settings_found:
        tested = "of the settings found, without a verdict"
    yield (
        f"Effects: paired contrasts over {counted(pairs, replication.unit)}, {tested}; in nats, "
        "shown as a change of the design's mean. An interaction is how much more the first "
        "bought where the second was changed as well."
    )
    if any(effect.aliases for effect in family):
        yield (
            "Effects joined by = are one number in this design (except for its sign and a factor "
            "of two): the design cannot tell which of them it is."
        )
