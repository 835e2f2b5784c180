"""The answer of a study in a sentence, and what to run next: both follow from the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.compare.judged import Blocks, Judged
from ablate.compare.statistics.power import MAX_PAIRS, POWER
from ablate.compare.statistics.power_items import MOST_TIMES
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.text.lists import are, capital, in_words, joined, named
from ablate.results.sizes import shown_size
from ablate.results.verdict import Verdict
from ablate.store.outcome import TEXT
from ablate.store.replication import MIN_PAIRS, MIN_SEARCHES, counted, plural

ORDER = (Verdict.BETTER, Verdict.HIGHER, Verdict.WORSE, Verdict.LOWER, Verdict.SAME)
MOST_ADVICE = 3  # arms whose further seeds are named


def answer(judged: Judged) -> Iterator[str]:
    """What is decided; nothing before there is a comparison."""
    compared = [arm for arm in judged.arms if arm.comparison is not None]
    if not compared:
        return
    if judged.replication.untestable:
        yield f"No verdict: {judged.tuned_by}, which does not show how much searches vary."
        return
    parts = [*_decided(judged, compared), *_open(judged, compared)]
    yield capital(f"{'; '.join(parts)}.") if parts else "Nothing is decided."
    yield from judged.effects.readings if judged.effects else ()


def _decided(judged: Judged, compared: Sequence[ArmSummary]) -> Iterator[str]:
    """A part for each word, and for each arm that others are compared with."""
    groups: dict[tuple[str, Verdict], list[str]] = {}
    others = dict.fromkeys(_other(arm, judged) for arm in compared)
    for other in others:
        for word in ORDER:
            names = [a.name for a in compared if _other(a, judged) == other and _is(a, word)]
            groups |= {(other, word): names} if names else {}
    said, best = None, next((arm.name for arm in judged.arms if arm.best), "")
    alone = len(compared) == 1 or ([best] in groups.values())
    for (other, word), names in groups.items():
        than = "" if other == said else f" {_than(word)} {judged.called(other)}"
        others = ", and than every other arm" if names == [best] and len(compared) > 1 else ""
        yield f"{named(names)} {are(names)} {word}{than}{_margin(judged, word)}{others}"
        said = None if word == Verdict.SAME else other
    if best and not alone:
        yield f"{judged.called(best)} is better than every other arm"


def _than(word: Verdict) -> str:
    return "as" if word == Verdict.SAME else "than"


def _margin(judged: Judged, word: Verdict) -> str:
    margin = judged.record.margin
    if word != Verdict.SAME or margin is None:
        return ""
    return f" (less than {shown_size(margin, judged.metric)} apart)"


def _is(arm: ArmSummary, word: Verdict) -> bool:
    return arm.comparison is not None and arm.comparison.verdict == word


def _other(arm: ArmSummary, judged: Judged) -> str:
    return arm.against or judged.record.base_arm


def _open(judged: Judged, compared: Sequence[ArmSummary]) -> Iterator[str]:
    """The arms without a decision, if others have one, and those that are not finished."""
    open_ = [arm for arm in compared if _is(arm, Verdict.UNDECIDED)]
    undecided = [arm.name for arm in open_ if not arm.counts.missing]
    if len(open_) == len(compared):
        yield "nothing is decided" if undecided else "nothing is decided yet"
    elif undecided:
        which = joined(undecided) if len(undecided) <= 2 else in_words(len(undecided))
        yield f"{which} {are(undecided)} undecided"


def what_next(judged: Judged) -> Iterator[str]:
    """How many more pairs would decide what is open, or what else would."""
    unit = judged.replication.unit
    if judged.replication.untestable:
        if judged.copied is None and judged.record.num_searches is not None:
            yield f"With repeats={MIN_SEARCHES} or more in the study's Search there are verdicts."
        return
    undecided = [arm for arm in judged.arms if _is(arm, Verdict.UNDECIDED)]
    tested = [
        (arm.name, arm.comparison)
        for arm in undecided
        if arm.comparison and arm.comparison.reason in ("", "1 pair")
    ]
    if tested and not judged.looks.as_planned:
        yield _fresh(judged)
    elif tested and judged.looks.are_several:
        ahead = next((at for at in judged.looks.planned if at > judged.looks.last), None)
        yield from [f"The next planned look is at {ahead} {plural(unit)}."] if ahead else []
    elif tested and judged.blocks and judged.blocks.unit != TEXT:
        yield from _more_of_items(tested, judged.blocks)
    elif tested:
        yield from _more(tested, unit, " on this text" if judged.blocks else "")


def _fresh(judged: Judged) -> str:
    command = "ablate study --replicate"
    if judged.record.imported:
        command = "ablate judge --ledger FILE --draw NUM"
    return f"Fresh {plural(judged.replication.unit)}, judged once, decide more: {command}."


def _more(tested: Sequence[tuple[str, Comparison]], unit: str, text: str) -> Iterator[str]:
    if any(each.difference.num_pairs < MIN_PAIRS for _, each in tested):
        yield f"No test decides with fewer than {MIN_PAIRS} {plural(unit)}."
        return
    found = sorted(
        (each.pairs_needed, name) for name, each in tested if each.pairs_needed is not None
    )
    texts = [f"{name} needs {_more_of(num, unit)}" for num, name in found[:1]]
    texts += [f"{name} {num}" for num, name in found[1:MOST_ADVICE]]
    hopeless = len(tested) - len(texts)
    if texts:
        rest = {0: "", 1: "; the other more"}.get(hopeless, "; the others more")
        yield f"{', '.join(texts)} ({POWER:.0%} power){rest}."
    else:
        yield f"Even {MAX_PAIRS} {plural(unit)} would probably not decide {_it(hopeless)}{text}."


def _more_of_items(tested: Sequence[tuple[str, Comparison]], blocks: Blocks) -> Iterator[str]:
    found = [(name, shown_ways(each, blocks)) for name, each in tested if each.ways]
    if found:
        texts = (f"{name} needs {ways}" for name, ways in found[:MOST_ADVICE])
        rest = "; the rest more" if len(tested) > len(found[:MOST_ADVICE]) else ""
        yield f"{'; '.join(texts)} ({POWER:.0%} power){rest}."
        return
    seeds = "" if blocks.alone else f" or {MAX_PAIRS} seeds"
    yield (
        f"Even {MOST_TIMES} times as many {blocks}{seeds} would probably not decide "
        f"{_it(len(tested))}."
    )


def shown_ways(tested: Comparison, blocks: Blocks) -> str:
    """`880 fresh items or 41 more seeds`."""
    texts = (
        f"{way.num:,} fresh {blocks}" if way.of_items else _more_of(way.num, "seed")
        for way in tested.ways
    )
    return " or ".join(texts)


def _more_of(num: int, unit: str) -> str:
    return counted(num, unit).replace(" ", " more ", 1)


def _it(num: int) -> str:
    return "it" if num == 1 else "any of them"
