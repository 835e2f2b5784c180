"""Beside a published number: reproduced, within seed noise, not reproduced, or not comparable.

A paper prints one number, of one run as a rule, whose own noise is not told; ours are several
seeds. In log perplexity (or bits), with m the mean of our n seeds and s their spread:

    reproduced         the t interval of m lies within 1% of the published number: whatever m
                       truly is, it is as good as the same
    within seed noise  otherwise, if the published number lies where one more run of ours would
                       land: m -+ t(1 - alpha/2, n - 1) s sqrt(1 + 1/n), and half a unit of its
                       last digit
    not reproduced     otherwise; and by how much ours is lower or higher
    not comparable     and why: another scale, another corpus, a part of it, an arm with holes,
                       or fewer than three seeds, which have no spread worth the name

"Within seed noise" is weaker than it sounds where the spread is wide: it says that our seeds do
not speak against the paper, not that they speak for it. Verdicts are on single cells, each at the
table's level, and not corrected: to call a number not reproduced is no discovery.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ablate import papers
from ablate.compare import statistics
from ablate.compare.cells import value
from ablate.compare.rows import ArmSummary
from ablate.compare.units import BITS, Unit
from ablate.journal import Journal
from ablate.study_record import StudyRecord

REPRODUCED, NOISE, NOT = "reproduced", "within seed noise", "not reproduced"
NOT_COMPARABLE = "not comparable"
MARGIN = 0.01  # nats: one percent of perplexity
METRICS = {"ppl": False, "bpc": True}  # whether it is in bits
SLICED = ("corpus.train_tokens", "corpus.eval_tokens")
RULE = (
    "Beside the paper: reproduced, where the interval of our mean is within 1% of the published "
    "number; within seed noise, where one more run of ours might land on it; each cell by itself."
)


def verdicts(
    record: StudyRecord,
    arms: Sequence[ArmSummary],
    journals: Mapping[str, Journal],
    unit: Unit,
    *,
    alpha: float,
) -> dict[tuple[str, str], str]:
    """(arm, split) -> the verdict on its published number, wherever there is one."""
    return {
        (arm.name, split): _verdict(record, arm, split, there, journals, unit, alpha)
        for arm in arms
        for split, there in arm.published.items()
    }


def _verdict(
    record: StudyRecord,
    arm: ArmSummary,
    split: str,
    there: float,
    journals: Mapping[str, Journal],
    unit: Unit,
    alpha: float,
) -> str:
    found = [value(journals.get(trial), split) for trial in arm.trials]
    nats = [each for each in found if each is not None]
    cells = published_cells(record, split, there, unit)
    trials = [journals[trial] for trial in arm.trials if trial in journals]
    why = next((w for w in _obstacles(record, arm, cells, trials, len(nats)) if w), "")
    if why:
        return f"{NOT_COMPARABLE}: {why}"
    decimals = max((cell.decimals for cell in cells), default=1)
    return judged(nats, there, unit, rounding=0.5 * 10**-decimals, alpha=alpha)


def judged(
    nats: Sequence[float], there: float, unit: Unit, *, rounding: float = 0.0, alpha: float = 0.05
) -> str:
    """The rule itself, for three seeds or more. `there`, `rounding`: in the unit shown."""
    centre, spread = statistics.mean(nats), statistics.spread(nats)
    around = statistics.t_interval(nats, alpha)
    if around is None or spread is None or len(nats) < statistics.MIN_PAIRS:
        return f"{NOT_COMPARABLE}: {_seeds(len(nats))}"
    target = in_nats(there, unit)
    if max(abs(end - target) for end in around) <= MARGIN:
        return REPRODUCED
    reach = (around[1] - centre) * math.sqrt(len(nats) + 1)  # of one more run
    digits = in_nats(there + rounding, unit) - target
    if abs(centre - target) <= reach + digits:
        return NOISE
    return f"{NOT}: ours {_apart(centre, target)}"


def _obstacles(
    record: StudyRecord,
    arm: ArmSummary,
    cells: Sequence[papers.Cell],
    trials: Sequence[Journal],
    num: int,
) -> Iterable[str]:
    """Why the two numbers may not be set against each other; the first that holds is said."""
    if not record.published_scale:
        yield "another scale"
    corpora = {cell.corpus for cell in cells}
    if corpora and papers.corpus_name(record.corpus, record.level) not in corpora:
        yield f"another corpus ({record.corpus})"
    if any(journal.trial.corpus_digest != record.corpus_digest for journal in trials):
        yield "another corpus digest"
    if any(journal.config.get(key) is not None for journal in trials for key in SLICED):
        yield "a part of the corpus"
    if arm.counts.missing:
        yield f"{arm.counts.missing} to run"
    if arm.counts.selected:
        yield "it lost seeds"
    if num < statistics.MIN_PAIRS:
        yield _seeds(num)


def _seeds(num: int) -> str:
    return "1 seed has no spread" if num == 1 else f"{num} seeds"


def published_cells(record: StudyRecord, split: str, there: float, unit: Unit) -> list[papers.Cell]:
    """The cells of the study's tables that print this number."""
    if record.paper not in papers.ids():
        return []
    return [
        cell
        for table in record.tables
        if table in papers.load(record.paper).tables
        for cell in papers.cells(record.paper, table, split=split)
        if METRICS.get(cell.metric) is (unit.name == BITS) and cell.value == there
    ]


def in_nats(shown: float, unit: Unit) -> float:
    """A number of the table's unit as nats a token."""
    return shown * math.log(2) if unit.name == BITS else math.log(shown)


def _apart(ours: float, theirs: float) -> str:
    percent = 100 * abs(math.expm1(ours - theirs))
    size = f"{percent:.1f}%" if percent < 1000 else f"×{math.exp(ours - theirs):.0f}"
    return f"{size} {'lower' if ours < theirs else 'higher'}"
