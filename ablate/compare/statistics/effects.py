"""Main effects and two-factor interactions of a factorial design: "A helps only without B".

Each is a contrast over the design's arms, taken within every seed, so that it is paired like a
difference of two arms: one number a seed, a t interval over them, and Holm's correction over
all contrasts that the design can tell apart.

    main effect of A       mean over the rest of the design of  y(A = level) - y(A = reference)
    interaction of A and B  [effect of A where B is at its level] - [where B is at its reference]

y is the mean loss, as `ablate/config/metrics.py` has it. The reference of a factor is its level in
the base arm. In a fraction of a factorial, contrasts that are one number (aliases) are one row
under all their names: such a design cannot tell which of them the number is.

If an interaction is decided, the effects of each factor at each level of the other follow, with a
separate correction over those shown: only then may a line say that A helps without B.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.against import Judge, lost_seeds, shared_seeds
from ablate.compare.statistics.paired import Difference
from ablate.compare.table.rows import ArmSummary, Effect, Effects
from ablate.config.metrics import Metric
from ablate.results.replication import counted
from ablate.results.result import MISSING
from ablate.results.verdict import Verdict
from ablate.store.study_record import StudyRecord

DESIGNS = ("factorial", "fractional_factorial")
ROUNDED = 12  # digits to which equal contrasts are equal
Level = tuple[str, str]  # a factor and one of its levels


@dataclass(frozen=True)
class Contrast:
    """A name and a weight for every arm."""

    name: str
    kind: str
    weights: np.ndarray
    aliases: tuple[str, ...] = ()
    what: str = ""  # of a simple effect: the levels that are compared
    where: str = ""  # of a simple effect: the level of the other factor


def effects(record: StudyRecord, arms: Sequence[ArmSummary], judge: Judge) -> Effects | None:
    """The effects of a factorial; None for any other design."""
    design = design_of(record, arms)
    if design is None:
        return None
    if not design.balanced:
        return Effects(notes=("Effects: this scale leaves out arms, so its factors do not cross.",))
    if not shared_seeds(arms):
        yet = " yet" if any(arm.counts.missing for arm in arms) else ""
        return Effects(notes=(f"Effects: no seed has completed in every arm{yet}.",))
    family = _family(design.contrasts(), arms, judge)
    decided = [e for e in family if e.kind == "interaction" and e.verdict.decided]
    chosen = {name for effect in decided for name in (effect.name, *effect.aliases)}
    within = design.simple(chosen) if record.design == "factorial" else []
    different = {contrast.name: contrast for pair in within for contrast in pair}
    simple = _family([*different.values()], arms, judge)
    return Effects(
        effects=family,
        simple=simple,
        readings=tuple(_readings(within, {effect.name: effect for effect in simple})),
        notes=tuple(_notes(judge, family)),
    )


def design_of(record: StudyRecord, arms: Iterable[ArmSummary]) -> Design | None:
    """The design of a factorial study's table; None for any other study."""
    if record.design not in DESIGNS:
        return None
    levels = {arm.name: dict(record.arm(arm.name).levels) for arm in arms}
    return Design([*levels.values()], levels.get(record.base_arm) or {})


class Design:
    """The levels of every factor in every arm, and the contrasts between them."""

    def __init__(self, arms: Sequence[Mapping[str, str]], base: Mapping[str, str]) -> None:
        self.arms = list(arms)
        self.factors = sorted({factor for arm in arms for factor in arm})  # as they are stored
        self.levels = {factor: self._levels(factor, base) for factor in self.factors}

    def _levels(self, factor: str, base: Mapping[str, str]) -> list[str]:
        """The reference first: the base arm's level."""
        levels = list(dict.fromkeys(arm[factor] for arm in self.arms if factor in arm))
        reference = base.get(factor, levels[0])
        return [reference, *(level for level in levels if level != reference)]

    @property
    def balanced(self) -> bool:
        """Return whether every factor is in every arm, and every two factors are crossed evenly.

        In a fraction, two factors may also be one, which makes them aliases.
        """
        if not self.arms or any(set(arm) != set(self.factors) for arm in self.arms):
            return False
        for a, b in itertools.combinations(self.factors, 2):
            pairs = Counter((arm[a], arm[b]) for arm in self.arms)
            whole = len(self.levels[a]) * len(self.levels[b])
            if len(set(pairs.values())) > 1 or len(pairs) not in (whole, len(self.levels[a])):
                return False
        alone = (Counter(arm[factor] for arm in self.arms) for factor in self.factors)
        return all(len(set(counts.values())) == 1 for counts in alone)

    def contrasts(self) -> list[Contrast]:
        """Every main effect and two-factor interaction, aliases merged."""
        named = [self._main(changed) for changed in self._changed()]
        named += [self._interaction(a, b) for a, b in self._crossed()]
        classes: dict[bytes, list[Contrast]] = {}
        for contrast in named:
            if contrast.weights.any():  # else the design lacks the arms for it
                classes.setdefault(_direction(contrast.weights), []).append(contrast)
        return [
            replace(first, aliases=tuple(contrast.name for contrast in others))
            for first, *others in classes.values()
        ]

    def simple(self, interactions: set[str]) -> list[tuple[Contrast, Contrast]]:
        """Within these interactions: each factor's effect at each of two levels of the other.

        The first level is the reference, at which several interactions may look.
        """
        return [
            (self._main(changed, (at[0], self.levels[at[0]][0])), self._main(changed, at))
            for a, b in self._crossed()
            if self._interaction(a, b).name in interactions
            for changed, at in ((a, b), (b, a))
        ]

    def _changed(self) -> list[Level]:
        """Every level of every factor except the reference."""
        return [(f, level) for f in self.factors for level in self.levels[f][1:]]

    def _crossed(self) -> list[tuple[Level, Level]]:
        """Every two changed levels of different factors."""
        pairs = itertools.combinations(self._changed(), 2)
        return [(a, b) for a, b in pairs if a[0] != b[0]]

    def _main(self, changed: Level, at: Level | None = None) -> Contrast:
        """The effect of a level: over the whole design, or where another factor is at a level."""
        factor, level = changed
        name, signs = f"{factor}: {level} vs {self.levels[factor][0]}", self._signs(changed)
        if at is None:
            return Contrast(name, "main", _between(signs))
        within = np.array([arm[at[0]] == at[1] for arm in self.arms])
        where, weights = f"{at[0]} {at[1]}", _between(signs * within)
        return Contrast(f"{name}, {where}", "simple", weights, what=name, where=where)

    def _interaction(self, a: Level, b: Level) -> Contrast:
        """Twice the mean where both or neither are changed, less where one of them is."""
        weights = 2 * _between(self._signs(a) * self._signs(b))
        return Contrast(f"{self._short(a)} × {self._short(b)}", "interaction", weights)

    def _signs(self, changed: Level) -> np.ndarray:
        """For every arm: 1 where the factor is changed, -1 at its reference, 0 at other levels."""
        factor, level = changed
        sign = {level: 1, self.levels[factor][0]: -1}
        return np.array([sign.get(arm[factor], 0) for arm in self.arms])

    def _short(self, changed: Level) -> str:
        """`dropout`, or `dropout: 0.5` if the factor has more than two levels."""
        factor, level = changed
        return factor if len(self.levels[factor]) == 2 else f"{factor}: {level}"


def _between(signs: np.ndarray) -> np.ndarray:
    """The mean of the positive arms less that of the negative ones; zeros if either are missing."""
    positive, negative = signs > 0, signs < 0
    if not positive.any() or not negative.any():
        return np.zeros(len(signs))
    return positive / positive.sum() - negative / negative.sum()


def _direction(weights: np.ndarray) -> bytes:
    """Contrasts that differ only in sign and size have one direction."""
    first = weights[np.flatnonzero(weights)[0]]
    return (np.round(weights / first, ROUNDED) + 0.0).tobytes()  # -0.0 has other bytes than 0.0


def _family(
    contrasts: Sequence[Contrast], arms: Sequence[ArmSummary], judge: Judge
) -> tuple[Effect, ...]:
    """The effects of some contrasts over the seeds of all arms, corrected over these contrasts."""
    seeds = shared_seeds(arms)
    means = [mean for arm in arms for mean in judge.replication.means(arm.values, seeds)]
    at = judge.metric.show(statistics.mean(means))
    terms = [list(zip(arms, contrast.weights.tolist(), strict=True)) for contrast in contrasts]
    differences = [d for weighted in terms if (d := judge.difference(weighted, seeds)) is not None]
    corrected = statistics.holm([difference.p for difference in differences])
    family = []
    for contrast, weighted, difference, p in zip(
        contrasts, terms, differences, corrected, strict=True
    ):
        decided = statistics.verdict(difference, p, judge.alpha)
        reason = _reservation([a for a, weight in weighted if weight], difference, decided, judge)
        reach = _reach(contrast, judge.metric)
        comparison = judge.comparison(
            difference, p, reason, len(contrasts), at=at, possible=(-reach, reach)
        )
        named = {"name": contrast.name, "kind": contrast.kind, "aliases": contrast.aliases}
        family.append(Effect(**vars(comparison), **named))
    return tuple(family)


def _reach(contrast: Contrast, metric: Metric) -> float:
    """The largest size that a contrast can have: all arms of one sign at either end."""
    low, high = metric.range
    linear = metric.scale == "linear"  # others are shown as a change of the design's mean
    return float(abs(contrast.weights).sum() / 2 * (high - low)) if linear else math.inf


def _reservation(
    arms: Sequence[ArmSummary], difference: Difference, verdict: Verdict, judge: Judge
) -> str:
    """Why the test cannot decide; a lost seed makes some arm look better, on either side."""
    fates = [fate for arm in arms for fate in judge.fates(arm, arms, verdict)]
    if missing := fates.count(MISSING):
        return f"{missing} to run"
    if lost_seeds(fates):
        return "lost seeds"
    if difference.is_constant:
        return "no spread"
    return "1 pair" if difference.num_pairs == 1 else ""


def _readings(
    within: Iterable[tuple[Contrast, Contrast]], simple: Mapping[str, Effect]
) -> Iterable[str]:
    """Pairs of simple effects, at the reference and at the level of the other factor, in words."""
    for reference, level in within:
        at_reference, at_level = simple[reference.name], simple[level.name]
        what, first, second = reference.what, reference.where, level.where
        states = (at_reference.helps, at_level.helps)
        if set(states) == {True, None}:
            where, elsewhere = (first, second) if states[0] else (second, first)
            yield f"{what} helps with {where}; with {elsewhere} it is not shown to help."
        elif set(states) == {True, False}:
            where, elsewhere = (first, second) if states[0] else (second, first)
            yield f"{what} helps with {where} and hurts with {elsewhere}."
        elif set(states) == {True}:
            # The lower loss is the larger gain.
            larger = min((at_reference, at_level), key=lambda effect: effect.difference.mean)
            more = first if larger is at_reference else second
            yield f"{what} helps with either, more with {more}."


def _notes(judge: Judge, family: Sequence[Effect]) -> Iterable[str]:
    replication = judge.replication
    pairs = max((effect.difference.num_pairs for effect in family), default=0)
    tested = f"Holm-corrected over {len(family)}"
    if replication.of_settings_found:
        tested = "of the settings found, without a verdict"
    yield (
        f"Effects: paired contrasts over {counted(pairs, replication.unit)}, {tested}; in "
        f"{judge.metric.scale_name}, "
        "shown as a change of the design's mean. An interaction is how much more the first "
        "bought where the second was changed as well."
    )
    if any(effect.aliases for effect in family):
        yield (
            "Effects joined by = are one number in this design (except for its sign and a factor "
            "of two): the design cannot tell which of them it is."
        )
