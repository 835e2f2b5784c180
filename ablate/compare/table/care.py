"""The few lines below a study's table that change how this very table is read: what was changed or
lost, what to read with care, and what the paper has. `notes.py` has everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ablate.compare.judged import Judged
from ablate.compare.statistics.claims import Claim, claims
from ablate.compare.table import notes
from ablate.compare.table.costs import APART, compared_with, cost_ratio
from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.lists import MOST, are, joined, named
from ablate.results.result import RAISED
from ablate.store.journal import kept_outside
from ablate.store.replication import plural

ROOM = 300  # characters of what to read with care
MOST_CLAIMS = 4  # of which a line has the numbers


def changed_or_lost(judged: Judged) -> Iterator[str]:
    """What was changed on the way, and the results that are missing."""
    record, looks, kept = judged.record, judged.looks, judged.record.kept_plan
    if record.changed:
        yield f"Changed on the command line: {record.changed}."
    yield from _missing(judged)
    yield from notes.fewer_seeds(judged)
    yield from notes.at_floor(judged)
    yield from judged.about_base()
    yield from judged.below_floor()
    yield from kept_outside(judged.journals[t] for t in record.trial_ids() if t in judged.journals)
    holds = (
        f": verdicts and intervals hold at any number of {plural(looks.unit)}, and decide later "
        "than planned ones"
    )
    said = [str(looks)] if str(looks) else []
    if kept is not None and not kept.is_whole:
        said = [str(kept).rstrip(".")]
    yield from (f"{_sentence(each)[:-1]}{'' if looks.as_planned else holds}." for each in said)
    yield from map(_sentence, notes.other_seeds(judged))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _missing(judged: Judged) -> Iterator[str]:
    counts = [arm.counts for arm in judged.arms]
    left, planned = sum(each.missing for each in counts), sum(each.planned for each in counts)
    if left:
        yield f"Provisional: {left} of {planned} planned results {are(range(left))} missing."
    lost = [(arm, text) for arm in judged.arms if (text := _lost(arm))]
    if lost:
        texts = [f"{arm.name} {text}" for arm, text in lost[:MOST]]
        more = f"; {len(lost) - MOST} more arms" if len(lost) > MOST else ""
        selected = [arm.name for arm, _ in lost if arm.counts.selected]
        selected_few = f". {named(selected)} cannot be called better" if selected else ""
        yield f"Lost: {'; '.join(texts)}{more}{selected_few}."


def _lost(arm: ArmSummary) -> str:
    """`2 of 5 (1 diverged, 1 failed)`; empty if no result was lost."""
    counts = arm.counts
    reasons = {
        "diverged": counts.diverged,
        RAISED: counts.raised,
        "failed": counts.failed - counts.raised,
        "stopped early": counts.pruned,
        "not measured": arm.unmeasured,
    }
    num = sum(reasons.values())
    texts = (f"{num} {reason}" for reason, num in reasons.items() if num)
    return f"{num} of {counts.planned} ({', '.join(texts)})" if num else ""


def with_care(judged: Judged) -> Iterator[str]:
    """One paragraph: cost, training that had not settled, settings, ways of computing; then what
    the study itself says of this scale, as far as there is room."""
    found = (_one_training, _costs, _unsettled, _after_others, _computed, _without_effect)
    texts = [text for find in found for text in find(judged)]
    sentences = [f"{'; '.join(texts)}."] if texts else []
    room = ROOM - sum(map(len, sentences))
    for note in judged.record.notes:
        first = f"{note.split('. ')[0].rstrip('.')}."
        room -= len(first)
        sentences += [first] if room >= 0 else []
    if sentences:
        yield f"Read with care: {' '.join(sentences)}"


def _one_training(judged: Judged) -> Iterator[str]:
    if judged.blocks is not None and judged.blocks.alone:
        yield notes.ONE_TRAINING


def _costs(judged: Judged) -> Iterator[str]:
    """The arms whose training cost more, or less, than that of the arm that they stand beside."""
    groups: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for arm in judged.arms:
        ratio, other = cost_ratio(arm, judged), compared_with(arm, judged)
        if ratio and other and abs(ratio - 1) > APART:
            word = "operations" if arm.operations else "tokens"
            groups.setdefault((other, word), []).append((arm.name, ratio))
    for (other, word), arms in groups.items():
        others = [arm for arm in judged.arms if compared_with(arm, judged) == other]
        names = [name for name, _ in arms]
        who = "every other arm" if len(others) == len(names) > 1 else named(names, 3)
        yield f"{who} took {_as_much([ratio for _, ratio in arms], word)} {judged.called(other)}"


def _as_much(ratios: Sequence[float], word: str) -> str:
    """`20 to 21% more operations than`, `3.5 times the tokens of`."""
    low, high = min(ratios), max(ratios)
    if high >= 2 or (low < 1 < high):
        return f"{_range(f'{low:.3g}', f'{high:.3g}')} times the {word} of"
    ends = sorted(abs(round(100 * (ratio - 1))) for ratio in (low, high))
    return f"{_range(*map(str, ends))}% {'more' if low > 1 else 'fewer'} {word} than"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _unsettled(judged: Judged) -> Iterator[str]:
    compared = [arm for arm in judged.arms if arm.comparison]
    open_ = [each.arm.name for each in judged.unsettled]
    if open_:
        who = "every arm" if len(open_) == len(compared) > 1 else named(open_, 3)
        its = "its" if len(open_) == 1 or who == "every arm" else "their"
        yield f"{who} or {its} base still improved in the last epoch"


def _after_others(judged: Judged) -> Iterator[str]:
    """The rows that Holm's correction decides once others are: their intervals contain 0."""
    names = [
        arm.name
        for arm in judged.arms
        if arm.comparison and arm.comparison.verdict.decided and arm.comparison.contains_0
    ]
    if names:
        yield f"the interval of {named(names, 3)} contains 0, as other rows were decided first"


def _computed(judged: Judged) -> Iterator[str]:
    if judged.not_alike:
        yield "some pairs were not computed alike"


def _without_effect(judged: Judged) -> Iterator[str]:
    settings = [*judged.without_effect]
    if settings:
        verb = "has" if len(settings) == 1 else "have"
        yield f"{joined(settings[:MOST])} {verb} no effect in some arms"


def of_paper(judged: Judged) -> Iterator[str]:
    """The paper's numbers beside ours: levels where the scale is the paper's, else differences."""
    record = judged.record
    if not record.paper:
        return
    source = ", ".join([record.paper, *record.tables])
    if levels := _levels(judged):
        yield f"The paper ({source}): {levels}."
    every = claims(judged)
    if rows := [claim for claim in every if claim.split == judged.split] or every:
        at = "" if record.published_scale else ", at its own scale"
        start = "Its differences" if levels else f"The paper ({source}){at}"
        yield f"{start}: {_claims(rows)}."


def _levels(judged: Judged) -> str:
    """The arms by what became of their published numbers, on the split that decides."""
    groups: dict[str, list[str]] = {}
    for (arm, metric, split), verdict in judged.verdicts.items():
        if metric == judged.metric.name and split == judged.split:
            groups.setdefault(verdict.partition(":")[0], []).append(arm)
    return "; ".join(f"{named(names, 3)} {word}" for word, names in groups.items())


def _claims(rows: Sequence[Claim]) -> str:
    known = [claim.within_one_run for claim in rows if claim.within_one_run is not None]
    numbers = ""
    if len(rows) <= MOST_CLAIMS:
        numbers = f"{', '.join(claim.shown_theirs for claim in rows)}; "
    same = sum(claim.same_direction for claim in rows)
    parts = [_of_all(same, len(rows), "in our direction")]
    parts += [_of_all(sum(known), len(known), "within one run of ours")] if known else []
    return f"{numbers}{', '.join(parts)}"


def _of_all(num: int, of: int, what: str) -> str:
    if of > 1 and num in (0, of):
        return f"{'each' if num else 'none'} {what}"
    return f"{num} of {of} {what}"


def elsewhere(judged: Judged) -> Iterable[str]:
    """Which arms are compared with another arm than the base arm."""
    groups: dict[str, list[str]] = {}
    for arm, other in notes.shown.elsewhere_noted(judged).items():
        groups.setdefault(other, []).append(arm)
    if groups:
        texts = [f"{joined(arms)} with {other}" for other, arms in groups.items()]
        yield f"Compared with another arm than the base: {'; '.join(texts)}."
