"""Judges results that anybody made: the same table, tests and words as for a study of ablate's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from ablate.compare.judged import ALPHA
from ablate.compare.study_summary import StudySummary
from ablate.errors import ConfigError, unknown, wrong_value
from ablate.judging import files, plain
from ablate.judging.imported import Imported, Planned, imported, metric_of, pairs_with
from ablate.judging.ledger import Known, Ledger, held
from ablate.judging.rows import Columns, Records, Row
from ablate.judging.runs import checked
from ablate.results.check_looks import check_looks
from ablate.store import study_record
from ablate.store.replication import counted
from ablate.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of the rows."""

    columns: Columns
    better: str = "lower"
    scale: str = "linear"
    base: str | None = None  # none: the arm of the first row
    margin: str | float | None = None
    looks: tuple[int, ...] = ()
    ledger: str | None = None
    command: str = ""


def judge(
    results: Any,
    *,
    arm: str | Sequence[str],
    metric: str,
    better: str,
    seed: str | None = "seed",
    base: str | None = None,
    scale: str = "linear",
    margin: str | float | None = None,
    looks: Sequence[int] = (),
    last: str | None = None,
    item: str | None = None,
    cluster: str | None = None,
    cost: str | None = None,
    ledger: str | None = None,
) -> StudySummary:
    """Judge results that were not made with ablate.

    Args:
        results: A data frame of pandas or polars, an Arrow table, a list of mappings, or the name
            of a file (`.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet`): a row for each run. Logs of
            lm-evaluation-harness and Inspect, or a folder of them: a row for each item. Logs of
            Ray Tune, TensorBoard or trackio, or a pattern of files: rows for each run.
        arm: The column that names a variant; several columns name it together.
        metric: The column of the number that decides.
        better: `"higher"` or `"lower"`: which values of it are better.
        seed: The column of a run's seed. Arms are compared seed by seed. None: runs have no seeds,
            and are paired in the order of rows.
        base: The arm that others are compared with. Default: that of the first row.
        scale: `"linear"` compares differences, `"log"` ratios, `"logit"` ratios of odds.
        margin: A difference too small to matter: arms within it are called the same.
        looks: The numbers of seeds at which results are looked at, as planned before the first.
        last: Of several rows of a run, take the one with the largest number in this column.
        item: Of several rows of a run, take the mean over the items that this column names. Without
            a column of seeds, each arm is one training, and items alone are compared.
        cluster: The column of what items share, if they are no independent draws.
        cost: The column of what a run cost, in any unit: arms of unequal cost are named.
        ledger: A file that counts every variant that was ever judged.
    """
    names = (arm,) if isinstance(arm, str) else tuple(arm)
    columns = Columns(
        arm=names, seed=seed, metric=metric, cost=cost, last=last, item=item, cluster=cluster
    )
    question = Question(
        columns=columns,
        better=better,
        scale=scale,
        base=base,
        margin=margin,
        looks=tuple(looks),
        ledger=ledger,
    )
    source, records = _records(results)
    return judged(records, question, source)


def judged(records: Records, question: Question, source: str) -> StudySummary:
    """The rows as a study; what the ledger knows is taken into account."""
    runs = checked(records, question.columns, source)
    rows = runs.rows
    names = list(dict.fromkeys(row.arm for row in rows))
    base = names[0] if question.base is None else question.base
    if base not in names:
        raise ConfigError(unknown("arm", base, names, f"{source}: base"))
    metric = metric_of(question.columns.metric, question.better, question.scale, rows)
    with nullcontext() if question.ledger is None else held(question.ledger) as ledger:
        known = ledger.known(rows, base, metric.shown) if ledger else None
        if known is not None:
            rows = known.with_earlier(rows, base)
        plan = _plan(rows, question, ledger, known, base, source)
        study = imported(
            rows,
            metric,
            base=base,
            source=source,
            command=question.command,
            margin=question.margin,
            plan=plan,
            notes=runs.notes,
        )
        if ledger is not None and known is not None:
            study = _as_remembered(study, known)
            ledger.add(known, plan.looks)
    return StudySummary(study.record, study.journals)


def _plan(
    rows: Sequence[Row],
    question: Question,
    ledger: Ledger | None,
    known: Known | None,
    base: str,
    source: str,
) -> Planned:
    """The planned looks, and those that were made: now, and before as far as a ledger knows."""
    pairs = pairs_with(rows, base)
    now = set(pairs.values())
    if question.looks:
        last = max(question.looks)
        check_looks(question.looks, last, "seeds", f"{source}: --looks")
    if ledger is None or known is None:
        # A log grows at its end, so an earlier look had the seeds of its first rows.
        seen = tuple(dict.fromkeys(row.seed for row in rows)) if question.looks else ()
        return Planned(looks=question.looks, made=_sorted(now if question.looks else ()), seen=seen)
    looks = ledger.planned(known, question.looks)
    before = {num for made in known.looks.values() for num in made}
    again = any({*made} - {pairs[arm]} for arm, made in known.looks.items())
    made = _sorted(before | now if looks or again else ())
    return Planned(looks=looks, made=made, seen=known.seen)


def _sorted(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers))


def draw(ledger: str, num: int) -> list[str]:
    """Seeds of a ledger that nobody has seen."""
    with held(ledger) as opened_ledger:
        return opened_ledger.draw(num)


def check_name(name: str) -> None:
    """Refuse a name of a study that cannot be a folder's."""
    if not re.fullmatch(r"[^./\\@\s\x00-\x1f\ud800-\udfff][^/\\@\x00-\x1f\ud800-\udfff]*", name):
        expected = "text without / \\ @ that does not start with . or a space"
        raise ConfigError(wrong_value("--keep", name, expected))


def keep(study: StudySummary, store: Store, name: str) -> str:
    """Store judged results as a study, so that tables, pages and comparisons have it."""
    record = replace(study.record, name=name)
    for journal in study.journals.values():
        journal.write(store)
    study_record.write(store, record)
    return record.key


def _as_remembered(study: Imported, known: Known) -> Imported:
    """The study with what the ledger knows of its variants."""
    record, others = study.record, known.others
    kind = "confirmation" if known.held_out else "variant"
    counted_as = dict(known.counts_as)
    factors = ", ".join(f"{arm} {num:,}" for arm, num in counted_as.items())
    notes = [*record.notes]
    if known.held_out:
        notes.append("All seeds were drawn by the ledger, and no other variant was judged on them.")
    notes.append(
        f"The ledger knows {counted(others, f'other {kind}')}. The k-th {kind} is judged at "
        f"{100 * ALPHA:g}% / (k (k + 1)), so that all of them, however many follow, err in "
        f"{100 * ALPHA:g}%. As so many comparisons an arm counts: {factors}."
    )
    record = replace(record, judged_before=others, counted_as=counted_as, notes=tuple(notes))
    return replace(study, record=record)


def _records(results: Any) -> tuple[str, Records]:
    """The name of what was given, and its rows."""
    if isinstance(results, str) or hasattr(results, "__fspath__"):
        return str(results), files.read(str(results))
    try:
        plain.refuse_doubled(getattr(results, "column_names", getattr(results, "columns", ())))
    except ValueError as error:
        raise ConfigError(f"these results cannot be read: {error}.") from None
    for method in ("to_pylist", "to_dicts"):  # Arrow, polars
        if hasattr(results, method):
            return "the table", [*map(files.flat, getattr(results, method)())]
    if hasattr(results, "to_dict"):  # pandas
        return "the data frame", results.to_dict("records")
    rows = list(results)
    if not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(
            "these results cannot be read. Expected a data frame, an Arrow table, a list of "
            "mappings from column to value, or the name of a file."
        )
    return "the rows", [*map(files.flat, rows)]
