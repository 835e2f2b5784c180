"""Writes what `ablate sync` exports for readers, through MLflow's public client."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from mlflow import MlflowClient

from ablate.record import quiet
from ablate.record.mirror.server import EPOCHS, ROW, SHARED, STUDY
from ablate.results.facts import HOME, STUDY_RUN, TRIAL
from ablate.results.labels import labels_of
from ablate.results.rows import epoch_columns, status_of, tag_key, trial_row
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.numbers import without_nan
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord


class Server:
    """A database, read through MLflow's client as a server is."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        with quiet.silent_warnings():
            self.client = MlflowClient(uri)
        self.runs: dict[str, str] = {}  # a trial or a study -> its run
        self.experiments: dict[str, str] = {}

    def export(self, store: Store, *, piece: int = 8000, status: str = "finished") -> None:
        """Bring each study of a store, and the trials that it was the first to name."""
        homes: dict[str, str] = {}
        for key in study_record.names(store):
            record = study_record.read(store, key)
            known = journals.read_all(store, record.trial_ids())
            plain = without_nan(dataclasses.asdict(record))
            counts = ", ".join(sorted(f"{t}:{j.status}:{j.attempts}" for t, j in known.items()))
            own = {STUDY_RUN: key, HOME: key, "status": status, "trials": counts[:piece]}
            self._put(key, key, {**own, **pieces(STUDY, plain, piece)})
            for trial, journal in known.items():
                if homes.setdefault(trial, home_of(store, record, journal)) == key:
                    self._put(key, trial, tags_of(record, journal, piece))
        for key in study_record.names(store):
            record = study_record.read(store, key)
            for trial in record.trial_ids():
                if homes.get(trial, key) != key:
                    self._put(key, trial, {f"{SHARED}{tag_key(key)}": labels_of(record)[trial].arm})

    def delete(self, name: str) -> None:
        self.client.delete_run(self.runs[name])

    def bare(self, key: str, tags: dict[str, str]) -> None:
        """A run as an earlier version exported it."""
        self.client.create_run(self.experiments[key], tags=tags)

    def _put(self, key: str, name: str, tags: dict[str, str]) -> None:
        with quiet.silent_warnings():
            if key not in self.experiments:
                made = self.client.create_experiment(key.replace("/", "_"), tags={HOME: key})
                self.experiments[key] = made
            if name not in self.runs:
                run = self.client.create_run(self.experiments[key], tags=tags)
                self.runs[name] = run.info.run_id
                return
            for tag, text in tags.items():
                self.client.set_tag(self.runs[name], tag, text)


def home_of(store: Store, record: StudyRecord, journal: Journal) -> str:
    own = f"{journal.trial.study}@{journal.trial.scale}"
    here = study_record.exists(store, own)
    lists_it = here and journal.trial.id in study_record.read(store, own).trial_ids()
    return own if lists_it else record.key


def tags_of(record: StudyRecord, journal: Journal, piece: int) -> dict[str, str]:
    label = labels_of(record).get(journal.trial.id)
    rows = pieces(ROW, trial_row(record, journal, label), piece)
    epochs = pieces(EPOCHS, epoch_columns(journal), piece)
    status = {"status": str(status_of(journal, running=False))}
    return {TRIAL: journal.trial.id, HOME: record.key, **status, **rows, **epochs}


def pieces(name: str, plain: Any, piece: int) -> dict[str, str]:
    text = json.dumps(plain)
    parts = [text[at : at + piece] for at in range(0, len(text), piece)]
    return {name if n == 1 else f"{name}.{n}": part for n, part in enumerate(parts, 1)}
