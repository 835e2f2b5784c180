"""Judges results that anybody made: the same table, tests and words as for a study of ablate's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from ablate.compare.material import Material
from ablate.compare.study_summary import StudySummary, opened
from ablate.compare.table.summary import summarise
from ablate.errors import ConfigError, unknown
from ablate.judging import files
from ablate.judging.imported import Imported, Planned, imported, metric_of, pairs_with
from ablate.judging.ledger import Ledger, held
from ablate.judging.rows import Columns, Records, Row, checked
from ablate.results.check_looks import check_looks
from ablate.store import study_record
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
    cost: str | None = None,
    ledger: str | None = None,
) -> StudySummary:
    """Judge results that were not made with ablate.

    Args:
        results: A data frame of pandas or polars, an Arrow table, a list of mappings, or the name
            of a file (`.csv`, `.tsv`, `.jsonl`, `.json`, `.parquet`): a row for each run.
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
        cost: The column of what a run cost, in any unit: arms of unequal cost are named.
        ledger: A file that counts every variant that was ever judged against this base.
    """
    names = (arm,) if isinstance(arm, str) else tuple(arm)
    columns = Columns(arm=names, seed=seed, metric=metric, cost=cost, last=last)
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
    return opened(judged(records, question, source))


def judged(records: Records, question: Question, source: str) -> Material:
    """The rows as a study with its summary; what the ledger knows is taken into account."""
    rows = checked(records, question.columns, source)
    names = list(dict.fromkeys(row.arm for row in rows))
    base = names[0] if question.base is None else question.base
    if base not in names:
        raise ConfigError(unknown("arm", base, names, f"{source}: base"))
    metric = metric_of(question.columns.metric, question.better, question.scale, rows)
    with held(question.ledger) if question.ledger else nullcontext() as ledger:
        plan = _plan(rows, question, ledger, base, source)
        study = imported(
            rows,
            metric,
            base=base,
            source=source,
            command=question.command,
            margin=question.margin,
            plan=plan,
            in_order=question.columns.seed is None,
        )
        if ledger is not None:
            study = _as_remembered(study, rows, ledger, base, plan.looks)
    return Material(summarise(study.record, study.journals), study.journals)


def _plan(
    rows: Sequence[Row], question: Question, ledger: Ledger | None, base: str, source: str
) -> Planned:
    """The planned looks, and those that were made: now, and before as far as a ledger knows."""
    now = set(pairs_with(rows, base).values())
    if question.looks:
        last = max(question.looks)
        check_looks(question.looks, last, "seeds", f"{source}: --looks")
    if ledger is None:
        # A log grows at its end, so an earlier look had the seeds of its first rows.
        seen = tuple(dict.fromkeys(row.seed for row in rows)) if question.looks else ()
        return Planned(looks=question.looks, made=_sorted(now if question.looks else ()), seen=seen)
    name = question.columns.metric
    looks = ledger.planned(rows, base, name, question.looks)
    before = {num for known in ledger.history(rows, base, name).values() for num in known.looks}
    made = _sorted(before | now if looks or before - now else ())
    return Planned(looks=looks, made=made, seen=ledger.seen(rows, base, name))


def _sorted(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers))


def draw(ledger: str, num: int) -> list[str]:
    """Seeds of a ledger that nobody has seen."""
    with held(ledger) as opened_ledger:
        return opened_ledger.draw(num)


def keep(material: Material, store: Store, name: str) -> str:
    """Store judged results as a study, so that tables, pages and comparisons have it."""
    record = replace(material.record, name=name)
    for journal in material.journals.values():
        journal.write(store)
    study_record.write(store, record)
    return record.key


def _as_remembered(
    study: Imported, rows: Sequence[Row], ledger: Ledger, base: str, looks: tuple[int, ...]
) -> Imported:
    """The study with what the ledger knows of its variants; the ledger then records the study."""
    metric = study.record.metric.shown
    history = ledger.history(rows, base, metric)
    held_out = ledger.held_out(rows, base, metric)
    before = max((known.others for known in history.values()), default=0)
    notes = list(study.record.notes)
    if before:
        variants = "1 other variant" if before == 1 else f"{before} other variants"
        notes.append(
            f"The ledger knows {variants} judged against '{base}': the correction counts them."
        )
    if held_out:
        notes.append(
            "All seeds were drawn by the ledger, and no variant was judged on them before."
        )
    ledger.add(rows, base, metric, looks)
    return replace(study, record=replace(study.record, judged_before=before, notes=tuple(notes)))


def _records(results: Any) -> tuple[str, Records]:
    """The name of what was given, and its rows."""
    if isinstance(results, str) or hasattr(results, "__fspath__"):
        return str(results), files.read(str(results))
    for method in ("to_pylist", "to_dicts"):  # Arrow, polars
        if hasattr(results, method):
            return "the table", getattr(results, method)()
    if hasattr(results, "to_dict"):  # pandas
        return "the data frame", results.to_dict("records")
    rows = list(results)
    if not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(
            "these results cannot be read. Expected a data frame, an Arrow table, a list of "
            "mappings from column to value, or the name of a file."
        )
    return "the rows", rows
