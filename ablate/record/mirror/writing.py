"""Writes a generation of the mirror: DuckDB merges new records into the Parquet files.

Rows pass through files of JSON lines, whose columns DuckDB converts to their types.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ablate.record.mirror.arms import (
    ARM_COLUMNS,
    STUDY_FACTS,
    TRIAL_FACTS,
    Changes,
    Study,
    arm_rows,
    columns_of,
    planned_trials,
)
from ablate.record.mirror.files import Folder, Manifest
from ablate.record.mirror.lines import (
    common_kind,
    epoch_lines,
    kind_of,
    line,
    spellings,
    trial_line,
    write,
)
from ablate.results.facts import TEXT, TRUTH
from ablate.results.rows import (
    EPOCH_COLUMNS,
    EPOCH_METRICS,
    RESULTS,
    STUDY_COLUMNS,
    TRIAL_COLUMNS,
    Recorded,
)
from ablate.store.study_record import StudyRecord

SMALL = 100_000  # segments with fewer rows are merged ...
MANY = 8  # ... once there are this many
COUNTED = "(study_key, arm) IN (SELECT unnest(${}), unnest(${}))"
Kinds = Mapping[str, str]


def quoted(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def first_runs(trials: str) -> str:
    """SQL for one run of each trial: the first that started, if a crash left two."""
    first = "row_number() OVER (PARTITION BY trial ORDER BY started_ms, run_id) = 1"
    return f"SELECT * FROM {trials} QUALIFY {first}"


def parquet(folder: Folder, *names: str) -> str:
    """SQL for these files of a mirror as one table."""
    paths = ", ".join(literal(str(folder.path_to(name))) for name in names)
    return f"read_parquet([{paths}], union_by_name = true)"


def rows_of(
    db: Any, columns: Sequence[str], source: str, parameters: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """Return these columns of a table as dictionaries."""
    query = f"SELECT {', '.join(map(quoted, columns))} FROM {source}"
    rows = db.execute(query, [*parameters]).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in rows]


@dataclass
class Generation:
    """The generation after `before`; `finish` returns its manifest."""

    folder: Folder
    before: Manifest
    db: Any  # a DuckDB connection
    changed: set[str] = field(default_factory=set)  # runs whose rows in `before` are old
    records: Mapping[str, StudyRecord] = field(default_factory=dict)  # those that the source has

    def __post_init__(self) -> None:
        old = self.before
        self.manifest = Manifest(
            generation=old.generation + 1,
            epochs=[*old.epochs],
            rows={**old.rows},
            configs={**old.configs},
            numbers={**RESULTS, **old.numbers},
            epoch_numbers={**EPOCH_METRICS, **old.epoch_numbers},
            seals={**old.seals},
        )

    def add(self, batches: Iterable[list[Recorded]]) -> int:
        """Add the runs that were read; return their number."""
        files = [self.folder.path_to(f"{name}.jsonl") for name in ("trials", "epochs", "studies")]
        trials, epochs, studies = files
        num = 0
        with trials.open("w") as trial, epochs.open("w") as epoch, studies.open("w") as study:
            for batch in batches:
                self._write_rows(batch, trial, epoch, study)
                self.changed.update(run.run_id for run in batch)
                num += len(batch)
        self._list_changed()
        columns = {**TRIAL_COLUMNS, **self.manifest.numbers, **self.manifest.configs}
        self.manifest.trials = self._merge("trials", columns, trials, "started_ms, run_id")
        self.manifest.studies = self._merge("studies", STUDY_COLUMNS, studies, "study_key")
        self.manifest.arms = self._write_arms()
        if epochs.stat().st_size:
            self._write_segment(self._unnested(epochs))
        for file in files:
            file.unlink()
        return num

    def _write_rows(
        self, batch: list[Recorded], trial: TextIO, epoch: TextIO, study: TextIO
    ) -> None:
        """Write a line for each row, and add its columns to the manifest."""
        manifest, generation = self.manifest, self.manifest.generation
        trials = [run for run in batch if run.trial is not None]
        self._learn_configs(trials)
        known = {*TRIAL_COLUMNS, *manifest.configs}
        write((trial_line(run, generation) for run in trials), trial, known, manifest.numbers)
        lines = (line for run in trials for line in epoch_lines(run, generation))
        write(lines, epoch, EPOCH_COLUMNS, manifest.epoch_numbers)
        studies = ({**run.study, "run_id": run.run_id} for run in batch if run.study is not None)
        write(studies, study, STUDY_COLUMNS, {})

    def _learn_configs(self, trials: list[Recorded]) -> None:
        """Add the config columns of these runs, and their types, to the manifest."""
        configs = self.manifest.configs
        spelled = spellings(configs)
        columns: dict[str, str] = {}  # of names: most trials have the same
        for run in trials:
            for name, value in (run.trial or {})["config"].items():
                if (column := columns.get(name)) is None:
                    column = columns[name] = spelled.setdefault(name.lower(), name)
                known, kind = configs.get(column), kind_of(value)
                if known != kind:
                    configs[column] = common_kind(known, kind)

    def _unnested(self, epochs: Path) -> str:
        """SQL for a row for each epoch, from lines with a list for each column."""
        plain = {name: kind for name, kind in EPOCH_COLUMNS.items() if name != "epoch"}
        lists = {name: kind for name, kind in self._epoch_columns.items() if name not in plain}
        columns = {**plain, **{name: f"{kind}[]" for name, kind in lists.items()}}
        shown = [*plain, *(f"unnest({quoted(name)}) AS {quoted(name)}" for name in lists)]
        return f"SELECT {', '.join(shown)} FROM {_json(epochs, columns)}"

    @property
    def _epoch_columns(self) -> Kinds:
        return {**EPOCH_COLUMNS, **self.manifest.epoch_numbers}

    def _list_changed(self) -> None:
        rows = "SELECT unnest(CAST($1 AS VARCHAR[])) AS run_id"
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE changed AS {rows}", [[*self.changed]])

    def _merge(self, table: str, columns: Kinds, new: Path, order: str) -> str:
        """Write the new rows and the old ones that have not changed; return the file's name."""
        # No row, but every column with its type, whatever the other parts lack.
        parts = [f"SELECT {self._casts(columns)} WHERE false"]
        if before := getattr(self.before, table):
            old = parquet(self.folder, before)
            unchanged = "run_id NOT IN (SELECT run_id FROM changed)"
            parts.append(f"SELECT {self._casts(columns, old)} FROM {old} WHERE {unchanged}")
        if new.stat().st_size:
            parts.append(f"SELECT * FROM {_json(new, columns)}")
        name = self._name(table, "parquet")
        self._copy(f"{' UNION ALL BY NAME '.join(parts)} ORDER BY {order}", name)
        return name

    def _write_arms(self) -> str:
        """Write the rows of `arms`; those of arms that have not changed stay as they are."""
        studies = rows_of(self.db, STUDY_FACTS, parquet(self.folder, self.manifest.studies))
        changes, old = self._changes(), self.before.arms
        touched = [changes.of_study(row) if old else changes.study(row) for row in studies]
        counted = [study for study in touched if study is not None]
        new = self.folder.path_to("arms.jsonl")
        with new.open("w") as file:
            for row in self._arm_rows(counted):
                file.write(f"{line(row)}\n")
        parts = [f"SELECT {self._casts(ARM_COLUMNS)} WHERE false"]
        parts += [f"SELECT * FROM {_json(new, ARM_COLUMNS)}"] if new.stat().st_size else []
        parameters: list[list[str]] = []
        if old:
            whole = {study.key for study in counted if study.arms is None}
            kept = [key for row in studies if (key := row["study_key"]) not in whole]
            parameters = [kept, *_pairs(counted)]
            of_others = f"study_key IN (SELECT unnest($1)) AND NOT {COUNTED.format(2, 3)}"
            parts.append(f"SELECT * FROM {parquet(self.folder, old)} WHERE {of_others}")
        name = self._name("arms", "parquet")
        query = f"{' UNION ALL BY NAME '.join(parts)} ORDER BY study_key, arm, split, metric"
        self._copy(query, name, parameters)
        new.unlink()
        return name

    def _changes(self) -> Changes:
        changes = Changes(runs=self.changed - self._same_studies(), records=self.records)
        now, number = parquet(self.folder, self.manifest.trials), self.manifest.generation
        changes.add(rows_of(self.db, TRIAL_FACTS, f"{now} WHERE generation = {number}"))
        if self.before.trials:
            gone = "run_id IN (SELECT run_id FROM changed)"
            before = f"{parquet(self.folder, self.before.trials)} WHERE {gone}"
            changes.add(rows_of(self.db, TRIAL_FACTS, before))
        return changes

    def _same_studies(self) -> set[str]:
        """The runs of studies whose records are as before, whatever their status is."""
        if not self.before.studies:
            return set()
        now, before = (parquet(self.folder, m.studies) for m in (self.manifest, self.before))
        both = f"{now} AS now JOIN {before} AS before USING (run_id)"
        query = f"SELECT run_id FROM {both} WHERE now.record = before.record"
        return {run_id for (run_id,) in self.db.execute(query).fetchall()}

    def _arm_rows(self, studies: Sequence[Study]) -> Iterator[dict[str, Any]]:
        """The rows of the arms to count of these studies."""
        listed = [trial.id for study in studies for trial in planned_trials(study)]
        numbers = columns_of(studies, self.manifest.numbers)
        facts = [*TRIAL_FACTS, *(name for name in numbers if name not in TRIAL_FACTS)]
        trials = first_runs(parquet(self.folder, self.manifest.trials))
        source = f"({trials}) WHERE trial IN (SELECT unnest($1))"
        by_trial = {row["trial"]: row for row in rows_of(self.db, facts, source, [listed])}
        for study in studies:
            yield from arm_rows(study, by_trial)

    def finish(self, seen: str) -> Manifest:
        """Write the manifest; `seen` is what the next update compares with."""
        name = self._name("seen", "json")
        self.folder.partial(name).write_text(seen)
        self.folder.seal(self.manifest, name)
        self.manifest.seen = name
        self._compact()
        self.folder.write(self.manifest, replaced=self.before.files)
        return self.manifest

    def _compact(self) -> None:
        """Merge small segments if there are many, without their old rows."""
        small = [name for name in self.manifest.epochs if self.manifest.rows[name] < SMALL]
        if len(small) < MANY:
            return
        segments = parquet(self.folder, *small)
        trials = parquet(self.folder, self.manifest.trials)
        self._write_segment(
            f"SELECT {self._casts(self._epoch_columns, segments)} FROM {segments} "
            f"WHERE (run_id, generation) IN (SELECT run_id, generation FROM {trials}) "
            "ORDER BY run_id, epoch"
        )
        self.manifest.epochs = [name for name in self.manifest.epochs if name not in small]

    def _write_segment(self, query: str) -> None:
        name = self._name("epochs", "parquet")
        self.manifest.rows[name] = self._copy(query, name)
        self.manifest.epochs.append(name)

    def _copy(self, query: str, name: str, parameters: Sequence[Any] = ()) -> int:
        partial = literal(str(self.folder.partial(name)))
        copy = f"COPY ({query}) TO {partial} (FORMAT parquet, COMPRESSION snappy)"
        (rows,) = self.db.execute(copy, [*parameters]).fetchone()
        self.folder.seal(self.manifest, name)
        return rows

    def _casts(self, columns: Kinds, table: str = "") -> str:
        """SQL for typed columns of a table, NULL for those that it lacks."""
        described = self.db.execute(f"DESCRIBE FROM {table}").fetchall() if table else []
        existing = {name: before for name, before, *_ in described}
        return ", ".join(_cast(name, kind, existing.get(name)) for name, kind in columns.items())

    def _name(self, what: str, kind: str) -> str:
        return f"{what}-{self.manifest.generation}-{secrets.token_hex(4)}.{kind}"


def _pairs(studies: Iterable[Study]) -> tuple[list[str], list[str]]:
    """The arms to count in studies that are not counted whole: a list of studies, one of arms."""
    pairs = [(study.key, arm) for study in studies for arm in study.arms or ()]
    return [key for key, _ in pairs], [arm for _, arm in pairs]


def _json(file: Path, columns: Kinds) -> str:
    types = ", ".join(f"{literal(column)}: {literal(kind)}" for column, kind in columns.items())
    path = literal(str(file))
    return f"read_json({path}, format = 'newline_delimited', columns = {{{types}}})"


def _cast(name: str, kind: str, before: str | None) -> str:
    """SQL for a column that had another type, or that was not there."""
    value = "NULL" if before is None else quoted(name)
    if before == TRUTH and kind == TEXT:
        value = f"CASE WHEN {value} THEN 'True' WHEN NOT {value} THEN 'False' END"
    return f"CAST({value} AS {kind}) AS {quoted(name)}"
