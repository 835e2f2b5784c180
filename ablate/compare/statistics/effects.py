"""Main effects and two-factor interactions of a factorial design: "A helps only without B".

Each is a contrast over the design's arms (`design.py`), taken within every seed, so that it is
paired like a difference of two arms: one number a seed, and a t interval over them. `family.py`
corrects their tests together with those of the arms.

If an interaction is decided, the effects of each factor at each level of the other follow: only
then may a line say that A helps without B. One that is the comparison of an arm with the base arm
has that comparison's p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.against import Judge, lost_seeds, shared_seeds
from ablate.compare.statistics.design import Contrast, Design
from ablate.compare.statistics.family import Family
from ablate.compare.statistics.paired import Difference
from ablate.compare.table.rows import ArmSummary, Effect, Effects
from ablate.config.metrics import Metric
from ablate.results.arm import ArmResult
from ablate.results.result import AT_FLOOR, MISSING
from ablate.results.verdict import Verdict
from ablate.store.replication import counted
from ablate.store.study_record import StudyRecord

Within = tuple[str, Contrast, Contrast]  # an interaction, an effect at the reference and beside


@dataclass(frozen=True)
class Contrasted:
    """A contrast, and its value over the seeds that all arms have."""

    contrast: Contrast
    arms: tuple[ArmResult, ...]  # those with a weight
    difference: Difference


def family_of(
    record: StudyRecord, design: Design | None, arms: Sequence[ArmResult], judge: Judge
) -> Family:
    """The tests of the page: those of the arms, and those of a factorial's effects."""
    # Arms without a result yet count too: a half-run table is no more generous than the whole.
    num_arms = sum(arm.is_tested for arm in arms) + judge.judged_before
    if record.counted_as:
        counted_as = (record.counted_as[arm.name] for arm in arms if not arm.is_base)
        return Family(num_arms, counted_as=tuple(counted_as))
    if design is None or not design.balanced or not shared_seeds(arms):
        return Family(num_arms)
    effects = _contrasted(design.contrasts(), arms, judge)
    num, whole = num_arms + len(effects), record.design == "factorial"
    opening = frozenset(
        index
        for index, effect in enumerate(effects)
        if (whole and effect.contrast.kind == "interaction") or judge.keeps(effect.difference, num)
    )
    return Family(num_arms, tuple(effect.difference.p for effect in effects), opening)


def effects(
    record: StudyRecord,
    design: Design | None,
    arms: Sequence[ArmSummary],
    judge: Judge,
    family: Family,
) -> Effects | None:
    """The effects of a factorial; None for any other design."""
    if design is None:
        return None
    if not design.balanced:
        return Effects(notes=("Effects: this scale leaves out arms, so its factors do not cross.",))
    if not shared_seeds(arms):
        yet = " yet" if any(arm.counts.missing for arm in arms) else ""
        return Effects(notes=(f"Effects: no seed has completed in every arm{yet}.",))
    differences = [arm.comparison and arm.comparison.difference for arm in arms]
    keeping = judge.keeping(differences, family)
    _, corrected = family.corrected([d and d.p for d in differences], keeping)
    contrasted = _contrasted(design.contrasts(), arms, judge)
    shown = _judged(contrasted, corrected, arms, judge, family.num)
    decided = {e.name: e for e in shown if e.kind == "interaction" and e.verdict.decided}
    within = design.simple({*decided}) if record.design == "factorial" else []
    simple = _simple(within, decided, arms, judge, family)
    return Effects(
        effects=shown,
        simple=simple,
        readings=tuple(_readings(within, {effect.name: effect for effect in simple})),
        notes=tuple(_notes(judge, shown, simple, family)),
    )


def _simple(
    within: Iterable[Within],
    decided: Mapping[str, Effect],
    arms: Sequence[ArmSummary],
    judge: Judge,
    family: Family,
) -> tuple[Effect, ...]:
    """The effects within the decided interactions, each once."""
    showing: dict[str, list[str]] = {}  # an effect -> the interactions that it is within
    contrasts: dict[str, Contrast] = {}
    for interaction, *pair in within:
        for contrast in pair:
            contrasts[contrast.name] = contrast
            showing.setdefault(contrast.name, []).append(interaction)
    contrasted = _contrasted([*contrasts.values()], arms, judge)
    corrected = []
    for one in contrasted:
        opened = [decided[name].p_holm for name in showing[one.contrast.name]]
        p = family.within(one.difference.p, opened)
        known = (p, _p_of_arm(one.contrast, arms))
        corrected.append(min((p for p in known if p is not None), default=None))
    return _judged(contrasted, corrected, arms, judge, 2 * family.num)


def _p_of_arm(contrast: Contrast, arms: Sequence[ArmSummary]) -> float | None:
    """The corrected p of an arm's comparison with the base arm, if that is the contrast."""
    base = np.array([arm.is_base for arm in arms], dtype=float)
    for index, arm in enumerate(arms):
        is_arm = np.eye(len(arms))[index] - base
        if arm.comparison and arm.against is None and np.allclose(contrast.weights, is_arm):
            return arm.comparison.p_holm
    return None


def _contrasted(
    contrasts: Sequence[Contrast], arms: Sequence[ArmResult], judge: Judge
) -> list[Contrasted]:
    """The contrasts over the seeds of all arms."""
    seeds, found = shared_seeds(arms), []
    for contrast in contrasts:
        terms = list(zip(arms, contrast.weights.tolist(), strict=True))
        difference = judge.difference(terms, seeds)
        if difference is not None:
            weighted = tuple(arm for arm, weight in terms if weight)
            found.append(Contrasted(contrast, weighted, difference))
    return found


def _judged(
    contrasted: Sequence[Contrasted],
    corrected: Sequence[float | None],
    arms: Sequence[ArmSummary],
    judge: Judge,
    num: int,
) -> tuple[Effect, ...]:
    """The effects, each at the mean over the design; `num` tests share the error with each."""
    shown = []
    for one, p in zip(contrasted, corrected, strict=True):
        reach, contrast = _reach(one.contrast, judge.metric), one.contrast
        decided = statistics.verdict(one.difference, p, judge.alpha)
        reason = _reservation(one.arms, one.difference, decided, judge)
        comparison = judge.comparison(one.difference, p, reason, num, possible=(-reach, reach))
        named = {"name": contrast.name, "kind": contrast.kind, "aliases": contrast.aliases}
        shown.append(Effect(**vars(comparison), **named))
    return tuple(shown)


def _reach(contrast: Contrast, metric: Metric) -> float:
    """The largest size that a contrast can have: all arms of one sign at either end."""
    low, high = metric.range
    whole = float(abs(contrast.weights).sum() / 2 * (high - low))
    return math.inf if metric.in_percent else whole


def _reservation(
    arms: Sequence[ArmResult], difference: Difference, verdict: Verdict, judge: Judge
) -> str:
    """Why the test cannot decide; a lost seed makes some arm look better, on either side."""
    fates = [fate for arm in arms for fate in judge.fates(arm, arms, verdict)]
    if missing := fates.count(MISSING):
        return f"{missing} to run"
    if AT_FLOOR in fates:
        return "values of 0"
    if lost_seeds(fates):
        return "lost seeds"
    if difference.is_constant:
        return "no spread"
    return "1 pair" if difference.num_pairs == 1 else ""


def _readings(within: Iterable[Within], simple: Mapping[str, Effect]) -> Iterable[str]:
    """Pairs of simple effects, at the reference and at the level of the other factor, in words."""
    for _, reference, level in within:
        at_reference, at_level = simple[reference.name], simple[level.name]
        what, first, second = reference.what, reference.where, level.where
        states = (at_reference.favours_arm, at_level.favours_arm)
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


def _notes(
    judge: Judge, shown: Sequence[Effect], simple: Sequence[Effect], family: Family
) -> Iterable[str]:
    replication = judge.replication
    pairs = max((effect.difference.num_pairs for effect in shown), default=0)
    tested = f"Holm-corrected over {family.num} tests, those of the arms among them"
    if replication.untestable:
        tested = "of the settings found, without a verdict"
    percent = ", shown in percent" if judge.metric.in_percent else ""
    yield (
        f"Effects: paired contrasts over {counted(pairs, replication.unit)}, {tested}; in "
        f"{judge.metric.scale_name}{percent}. An interaction is how much more the first bought "
        "where the second was changed as well."
    )
    if simple:
        yield (
            "Effects at one level of another factor are tested only where their interaction is "
            "decided, each at half of its share of the error."
        )
    if any(effect.aliases for effect in shown):
        yield (
            "Effects joined by = are one number in this design (except for its sign and a factor "
            "of two): the design cannot tell which of them it is."
        )
