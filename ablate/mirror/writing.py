"""Another generation of the mirror: what was read joins what is there, by DuckDB, in Parquet.

Rows go through lines of JSON in a file beside, for DuckDB reads these faster than it is told rows,
and gives every column its type on the way.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from ablate.mirror import kinds
from ablate.mirror.files import Folder, Manifest
from ablate.mirror.records import (
    EPOCH_FOUND,
    EPOCH_PLACES,
    FACTS,
    FOUND,
    PLACES,
    STUDY,
    epoch_rows,
    study_row,
    trial_row,
)
from ablate.record.recorded import Record

SMALL = 100_000  # rows: smaller segments are put together ...
MANY = 8  # ... once there are so many of them
SEGMENT = 200_000  # rows after which a segment is closed
Kinds = dict[str, str]


def fixed_trials() -> Kinds:
    return {**{name: kind for name, (_, kind) in FACTS.items()}, **PLACES}


def fixed_epochs() -> Kinds:
    return dict(EPOCH_PLACES)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass
class Generation:
    """One more generation over `before`; `finish` gives its manifest, which names its files."""

    folder: Folder
    before: Manifest
    db: Any  # a DuckDB connection
    changed: set[str] = field(default_factory=set)  # runs whose rows of before are old

    def __post_init__(self) -> None:
        old = self.before
        self.manifest = Manifest(
            generation=old.generation + 1,
            epochs=[*old.epochs],
            rows={**old.rows},
            configs={**old.configs},
            numbers={**FOUND, **old.numbers},
            epoch_numbers={**EPOCH_FOUND, **old.epoch_numbers},
            seals={**old.seals},
        )
        self._studies: list[dict[str, Any]] = []

    def add(self, batches: Iterable[list[Record]]) -> None:
        """Take in the records that were read."""
        name = self._name("rows", "jsonl")
        with self._lines(name) as file:
            for trials in self._trials(batches):
                file.writelines(f"{kinds.line(row)}\n" for row in trials)
        self._merge_trials(name)
        self._write_studies()
        self.folder.place(name).unlink()

    def _trials(self, batches: Iterable[list[Record]]) -> Iterator[list[dict[str, Any]]]:
        """The rows of trials; those of epochs are written on the way."""
        epochs = _Segments(self)
        for batch in batches:
            trials = [record for record in batch if record.is_trial]
            self._studies += [study_row(record) for record in batch if record.is_study]
            self._learn(trials)
            for record in trials:
                epochs.add(epoch_rows(record, self.manifest.generation))
            yield [{**self._config(r), **trial_row(r, self.manifest.generation)} for r in trials]
        epochs.close()

    def _learn(self, trials: list[Record]) -> None:
        """The columns of these records and their types."""
        columns: dict[str, set[str]] = {}
        for record in trials:
            for name, text in record.params.items():
                columns.setdefault(config_column(name), set()).add(text)
        for name, texts in columns.items():
            kind = kinds.united(self.manifest.configs.get(name), kinds.kind_of(texts))
            if kind is not None:
                self.manifest.configs[name] = kind
        for record in trials:
            for name in trial_row(record, 0).keys() - fixed_trials().keys():
                self.manifest.numbers.setdefault(name, kinds.NUMBER)

    def _config(self, record: Record) -> dict[str, Any]:
        return {config_column(n): text for n, text in record.params.items() if text != "None"}

    def _merge_trials(self, new: str) -> None:
        columns = {**fixed_trials(), **self.manifest.numbers, **self.manifest.configs}
        known = self._columns(self.before.trials)
        parts = []
        if self.before.trials:
            shown = [_cast(name, kind, name in known) for name, kind in columns.items()]
            place = literal(str(self.folder.place(self.before.trials)))
            self._note_changed()
            parts.append(
                f"SELECT {', '.join(shown)} FROM read_parquet({place}) "
                "WHERE run_id NOT IN (SELECT run_id FROM changed)"
            )
        if self.folder.place(new).stat().st_size:
            parts.append(f"SELECT * FROM {self._json(new, columns)}")
        self.manifest.trials = self._name("trials", "parquet")
        empty = ", ".join(_cast(name, kind, False) for name, kind in columns.items())
        query = " UNION ALL BY NAME ".join(parts) or f"SELECT {empty} WHERE false"
        self._copy(f"{query} ORDER BY started_ms, run_id", self.manifest.trials)

    def _write_studies(self) -> None:
        name, lines = self._name("studies", "parquet"), self._name("studies", "jsonl")
        with self._lines(lines) as file:
            file.writelines(f"{kinds.line(row)}\n" for row in self._studies)
        parts = []
        if self.before.studies:
            self._note_changed()
            place = literal(str(self.folder.place(self.before.studies)))
            parts.append(
                f"SELECT * FROM read_parquet({place}) "
                "WHERE run_id NOT IN (SELECT run_id FROM changed)"
            )
        if self._studies:
            parts.append(f"SELECT * FROM {self._json(lines, STUDY)}")
        empty = ", ".join(_cast(column, kind, False) for column, kind in STUDY.items())
        self._copy(" UNION ALL BY NAME ".join(parts) or f"SELECT {empty} WHERE false", name)
        self.manifest.studies = name
        self.folder.place(lines).unlink()

    def _note_changed(self) -> None:
        rows = ", ".join(f"({literal(run_id)})" for run_id in ("", *self.changed))
        self.db.execute("CREATE OR REPLACE TEMP TABLE changed (run_id VARCHAR)")
        self.db.execute(f"INSERT INTO changed VALUES {rows}")

    def finish(self, seen: str) -> Manifest:
        """Name the new files; `seen` is what tells what has changed."""
        name = self._name("seen", "json")
        self.folder.partial(name).write_text(seen)
        self.folder.seal(self.manifest, name)
        self.manifest.seen = name
        self._compact()
        self.folder.write(self.manifest)
        return self.manifest

    def _compact(self) -> None:
        """Put many small segments together, without the rows that are old."""
        small = [name for name in self.manifest.epochs if self.manifest.rows[name] < SMALL]
        if len(small) < MANY:
            return
        places = ", ".join(literal(str(self.folder.place(name))) for name in small)
        trials = literal(str(self.folder.place(self.manifest.trials)))
        columns = {**fixed_epochs(), **self.manifest.epoch_numbers}
        read = f"read_parquet([{places}], union_by_name = true)"
        known = {row[0] for row in self.db.execute(f"DESCRIBE FROM {read}").fetchall()}
        shown = ", ".join(_cast(name, kind, name in known) for name, kind in columns.items())
        current = f"SELECT run_id, generation FROM read_parquet({trials})"
        self.write_segment(
            f"SELECT {shown} FROM {read} WHERE (run_id, generation) IN ({current}) "
            "ORDER BY run_id, epoch"
        )
        self.manifest.epochs = [name for name in self.manifest.epochs if name not in small]

    def write_segment(self, query: str) -> None:
        name = self._name("epochs", "parquet")
        self.manifest.rows[name] = self._copy(query, name)
        self.manifest.epochs.append(name)

    def write_epochs(self, lines: str) -> None:
        columns = {**fixed_epochs(), **self.manifest.epoch_numbers}
        self.write_segment(f"SELECT * FROM {self._json(lines, columns)}")

    def learn_epochs(self, rows: list[dict[str, Any]]) -> None:
        for name in {name for row in rows for name in row} - fixed_epochs().keys():
            self.manifest.epoch_numbers.setdefault(name, kinds.NUMBER)

    def _copy(self, query: str, name: str) -> int:
        partial = literal(str(self.folder.partial(name)))
        done = self.db.execute(f"COPY ({query}) TO {partial} (FORMAT parquet, COMPRESSION snappy)")
        (rows,) = done.fetchone()
        self.folder.seal(self.manifest, name)
        return rows

    def _columns(self, name: str) -> set[str]:
        if not name:
            return set()
        place = literal(str(self.folder.place(name)))
        return {
            row[0] for row in self.db.execute(f"DESCRIBE FROM read_parquet({place})").fetchall()
        }

    def _json(self, name: str, columns: Mapping[str, str]) -> str:
        types = ", ".join(f"{literal(column)}: {literal(kind)}" for column, kind in columns.items())
        place = literal(str(self.folder.place(name)))
        return f"read_json({place}, format = 'newline_delimited', columns = {{{types}}})"

    def _name(self, what: str, kind: str) -> str:
        return f"{what}-{self.manifest.generation}-{secrets.token_hex(4)}.{kind}"

    @contextlib.contextmanager
    def _lines(self, name: str) -> Iterator[TextIO]:
        with self.folder.place(name).open("w", encoding="utf-8") as file:
            yield file

    def segment_file(self) -> tuple[str, TextIO]:
        name = self._name("epochs", "jsonl")
        return name, self.folder.place(name).open("w", encoding="utf-8")


class _Segments:
    """Rows of epochs, a segment after the other."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._name, self._file, self._rows = "", None, 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        if self._file is None:
            self._name, self._file = self._generation.segment_file()
        self._generation.learn_epochs(rows)
        self._file.writelines(f"{kinds.line(row)}\n" for row in rows)
        self._rows += len(rows)
        if self._rows >= SEGMENT:
            self.close()

    def close(self) -> None:
        if self._file is None:
            return
        self._file.close()
        if self._rows:
            self._generation.write_epochs(self._name)
        self._generation.folder.place(self._name).unlink()
        self._name, self._file, self._rows = "", None, 0


def config_column(name: str) -> str:
    """A field's own name, unless a column of every trial is called so."""
    reserved = name in fixed_trials() or name in FOUND
    return f"config.{name}" if reserved else name


def _cast(name: str, kind: str, there: bool) -> str:
    value = quoted(name) if there else "NULL"
    return f"CAST({value} AS {kind}) AS {quoted(name)}"
