"""Our number against a published one: reproduced, within seed noise, not reproduced, or not
comparable.

A paper prints one number, usually of one run, and does not report its noise; ours are several
seeds. In log perplexity (or bits), with m the mean of our n seeds and s their spread:

    reproduced         the t interval of m lies within 1% of the published number: whatever the
                       true mean is, it is as good as the same
    within seed noise  otherwise, if the published number lies where another of our runs would
                       land: m -+ t(1 - alpha/2, n - 1) s sqrt(1 + 1/n), and half a unit of its
                       last digit
    not reproduced     otherwise; and by how much ours is lower or higher
    not comparable     and why: another scale, another corpus, a part of it, what the paper's file
                       says of the cell or the study of the arm, a value that is not the one of the
                       paper's table of settings (`departures.py`), an arm with holes, fewer than
                       three seeds, which have no spread worth the name, or, of an arm that was
                       tuned, fewer than three searches

A model of counts draws nothing, so every run of it is the same: one is enough, and the number
itself is compared with the published one.

Of an arm that was tuned, n counts searches and s is the spread of their means, each over the seeds
that confirm it: these share their search's luck, and are no n of their own. One more run, of one
more search and one seed, then also varies as seeds do within a search: s^2 in the reach of "within
seed noise" becomes s^2 + w^2 (1 - 1/k), with w the spread over the k seeds of a search.

"Within seed noise" is weaker than it sounds where the spread is wide: it says that our seeds do
not speak against the paper, not that they speak for it. Verdicts are on single cells, each at the
table's level, and not corrected: to call a number not reproduced is no discovery.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ablate import papers
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.against import Judge
from ablate.compare.statistics.departures import departure
from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.figures import decimal
from ablate.config.identity import StageName
from ablate.config.metrics import ARMS, ROUGE_1, ROUGE_2, ROUGE_L, Metric
from ablate.config.tasks import COUNTING
from ablate.results.arm import Measured
from ablate.results.sizes import shown_size
from ablate.results.verdict import not_comparable
from ablate.store.journal import Journal
from ablate.store.numbers import finite
from ablate.store.replication import counted
from ablate.store.study_record import StudyRecord

REPRODUCED, NOISE, NOT = "reproduced", "within seed noise", "not reproduced"
AS_LIN = "|tok:rouge-1.5.5|"  # of a signature: scores that count the words that Lin's program does
OF_ROUGE = {name for metric in (ROUGE_1, ROUGE_2, ROUGE_L) for name in metric.published}


def rule(metrics: Sequence[Metric]) -> str:
    """How to read these verdicts."""
    margins = [_margin(metric) for metric in metrics]
    near = f"{margins[0]} of the published number" if margins[0] else "at the published number"
    if len(metrics) > 1:
        named = zip(metrics, margins, strict=True)
        each = (f"{metric.shown}: {margin or 'as printed'}" for metric, margin in named)
        near = f"near the published number ({'; '.join(each)})"
    return (
        f"Next to the paper: reproduced, if the interval of our mean is {near}; within seed "
        "noise, if another of our runs might land on it; each cell by itself."
    )


def _margin(metric: Metric) -> str:
    """`within 1%`; empty where there is none."""
    return f"within {shown_size(metric.margin, metric)}" if metric.margin else ""


def verdicts(
    record: StudyRecord, arms: Sequence[ArmSummary], journals: Mapping[str, Journal], judge: Judge
) -> dict[tuple[str, str, str], str]:
    """(arm, metric, split) -> the verdict on its published number, if there is one."""
    return {
        (arm.name, measured.metric.name, split): _verdict(
            record, arm, measured, split, journals, judge
        )
        for arm in arms
        for measured in arm.every
        for split in measured.published
    }


def _verdict(
    record: StudyRecord,
    arm: ArmSummary,
    measured: Measured,
    split: str,
    journals: Mapping[str, Journal],
    judge: Judge,
) -> str:
    metric, published = measured.metric, measured.published[split]
    cells = published_cells(record, split, metric)
    cells = [cell for cell in cells if cell.value == published]
    trials = [journals[trial] for trial in arm.trials if trial in journals]
    obstacles = (
        *_obstacles(record, arm, cells, trials, judge, journals),
        *_obstacles_of(metric, split, published, [*trials, *_measures(record, arm, journals)]),
    )
    if obstacles:
        return not_comparable(obstacles[0])
    losses = measured.losses[split]
    groups = judge.replication.groups(losses)
    pairs = [[losses[index] for index in group] for group in groups]
    rounding = half_digit(cells)
    of = judge.replication.unit
    exact = all(journal.trial.runner == COUNTING for journal in trials)
    return judged(pairs, published, metric, rounding, exact=exact, alpha=judge.alpha, of=of)


def judged(
    pairs: Sequence[Sequence[float]],
    published: float,
    metric: Metric,
    rounding: float = 0.0,
    *,
    exact: bool = False,
    alpha: float = 0.05,
    of: str = "seed",
) -> str:
    """The verdict by the rule, on seeds or searches, each with the losses of its seeds.

    `published` and `rounding` are as shown; `exact`: every seed would give the same number.
    """
    means = [statistics.mean(pair) for pair in pairs]
    if (exact or metric.of == ARMS) and means:  # counted, so that no seed changes the number
        centre, target = means[0], metric.loss_of_shown(published)
        digits = digits_of(published, metric, rounding)
        close = abs(centre - target) <= metric.margin + digits
        return REPRODUCED if close else f"{NOT}: ours {_apart(centre, target, metric)}"
    if not means:
        return not_comparable("not measured")
    interval = statistics.t_interval(means, alpha)
    if interval is None or len(means) < statistics.MIN_PAIRS:
        too_few = f"{counted(len(means), of)}{' has no spread' if len(means) == 1 else ''}"
        return not_comparable(too_few)
    centre, target = statistics.mean(means), metric.loss_of_shown(published)
    if max(abs(end - target) for end in interval) <= metric.margin:
        return REPRODUCED
    digits = digits_of(published, metric, rounding)
    if abs(centre - target) <= reach(pairs, alpha) + digits:
        return NOISE
    return f"{NOT}: ours {_apart(centre, target, metric)}"


def half_digit(cells: Sequence[papers.Cell]) -> float:
    """Half a unit of the last digit that a paper prints."""
    return 0.5 * 10 ** -max((cell.decimals for cell in cells), default=1)


def digits_of(published: float, metric: Metric, rounding: float) -> float:
    """How far rounding may have moved a published number, on the scale of the tests."""
    return abs(metric.loss_of_shown(published + rounding) - metric.loss_of_shown(published))


def reach(pairs: Sequence[Sequence[float]], alpha: float) -> float:
    """How far from the mean of our pairs one more run may land: one more search, and one seed of
    that search."""
    num = len(pairs)
    between = statistics.spread([statistics.mean(pair) for pair in pairs]) or 0.0
    apart = [v - statistics.mean(pair) for pair in pairs for v in pair]
    free = len(apart) - num
    within = math.fsum(v**2 for v in apart) / free if free else 0.0
    alone = within * statistics.mean([1 - 1 / len(pair) for pair in pairs])
    quantile = statistics.t_quantile(1 - alpha / 2, num - 1)
    return quantile * math.sqrt(between**2 * (1 + 1 / num) + alone)


def _obstacles(
    record: StudyRecord,
    arm: ArmSummary,
    cells: Sequence[papers.Cell],
    trials: Sequence[Journal],
    judge: Judge,
    journals: Mapping[str, Journal],
) -> Iterator[str]:
    """Why the two numbers are not comparable; the first reason is reported."""
    if not record.published_scale:
        yield "another scale"
    texts = dict(papers.trained_on(cell.corpus) for cell in cells)
    own = papers.corpus_name(record.corpus, record.level)
    if reason := declared(record, arm.name, cells):
        yield reason
    if texts and own and own not in texts:
        yield f"another corpus ({record.corpus})"
    if any(journal.trial.corpus_digest != record.corpus_digest for journal in trials):
        yield "another corpus digest"
    # The paper's own slice of a text has its number of tokens; None stands for the whole text.
    sizes = {"corpus.train_tokens": texts.get(own), "corpus.eval_tokens": None}
    if any(journal.config.get(key) != size for journal in trials for key, size in sizes.items()):
        yield "a part of the corpus"
    if reason := departure(record, record.arm(arm.name), _first_trained(record, arm, journals)):
        yield reason
    if arm.counts.missing:
        yield f"{arm.counts.missing} to run"
    if arm.counts.selected:
        yield "it lost seeds"
    if judge.replication.untestable:
        yield f"tuned by {judge.replication.searches}"


def _first_trained(
    record: StudyRecord, arm: ArmSummary, journals: Mapping[str, Journal]
) -> Journal | None:
    """A trial of an arm's first training, before any stage."""
    planned = record.trials_of(arm.name)
    return next((journals[t.id] for t in planned if not t.parents and t.id in journals), None)


def declared(record: StudyRecord, arm: str, cells: Sequence[papers.Cell]) -> str:
    """Why an arm's number is not comparable with these cells, if the paper's file says so of the
    cells, or the study of the arm."""
    reasons = [cell.not_comparable for cell in cells]
    return reasons[0] if reasons and all(reasons) else record.arm(arm).not_comparable


def _measures(
    record: StudyRecord, arm: ArmSummary, journals: Mapping[str, Journal]
) -> list[Journal]:
    """The journals of the trials that measured the arm's models."""
    planned = (t for t in record.trials_of(arm.name) if t.stage == StageName.MEASURE)
    return [journals[trial.id] for trial in planned if trial.id in journals]


def _obstacles_of(
    metric: Metric, split: str, published: float, trials: Sequence[Journal]
) -> Iterator[str]:
    """What the trials' reports tell of a way of measuring that is not the paper's."""

    def reported(name: str) -> list[float]:
        key = metric.sibling(name).key(split)
        return [number for t in trials if (number := finite(t.metrics.get(key))) is not None]

    if any(reported("generated")):
        yield "generated questions"
    if metric.published and set(metric.published) <= OF_ROUGE and _counts_otherwise(metric, trials):
        yield "ROUGE of other words than Lin's program counts"
    contexts = min(reported("num_contexts"), default=published)
    if contexts < published:
        yield f"a rank of at most {contexts:.0f} contexts"


def _counts_otherwise(metric: Metric, trials: Sequence[Journal]) -> bool:
    """Return whether some trial's ROUGE counts other words than published numbers do."""
    evaluator = metric.name.partition(".")[0]
    known = (t.outcome.signatures for t in trials if t.outcome and t.outcome.signatures)
    own = (
        text for by in known for name, text in by.items() if name.startswith(f"{evaluator}.rouge")
    )
    return not all(AS_LIN in signature for signature in own)


def published_cells(record: StudyRecord, split: str, metric: Metric) -> list[papers.Cell]:
    """The cells of the study's tables with results on this split, of this metric."""
    if record.paper not in papers.ids():
        return []
    return [
        cell
        for cell in papers.load(record.paper).cells
        if cell.table in record.tables
        and cell.metric in metric.published
        and metric.split_of(cell.split) == split
    ]


def as_printed(record: StudyRecord | None, split: str, metric: Metric, published: float) -> str:
    """A published number with the digits that its paper prints."""
    cells = [] if record is None else published_cells(record, split, metric)
    printed = (cell.printed for cell in cells if cell.value == published)
    return next(printed, f"{published:.10g}")


def _apart(ours: float, theirs: float, metric: Metric) -> str:
    direction = "lower" if metric.show(ours) < metric.show(theirs) else "higher"
    if not metric.reports_scaled or metric.show(theirs) == 0:
        return f"{decimal(abs(metric.show(ours) - metric.show(theirs)), metric.digits)} {direction}"
    ratio = metric.show(ours) / metric.show(theirs)
    percent = 100 * abs(ratio - 1)
    size = f"{percent:.1f}%" if percent < 1000 else f"×{ratio:.0f}"
    return f"{size} {direction}"
