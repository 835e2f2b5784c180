"""Trials of an Optuna study that ablate did not make, as rows: parameters, attributes, values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
from sqlalchemy.engine import make_url

from ablate.errors import ConfigError, unknown
from ablate.redaction import redacted


def rows(storage: str, study: str) -> list[dict[str, Any]]:
    """A row for each completed trial. Several objectives are `value_0`, `value_1` and so on."""
    try:
        opened = _storage(storage)
        names = [found.study_name for found in opened.get_all_studies()]
    except Exception as error:  # of any database's driver
        reason = redacted(str(error)).split("\n")[0]
        raise ConfigError(
            f"Optuna's storage {redacted(storage)} cannot be read: {reason}"
        ) from error
    if study not in names:
        raise ConfigError(unknown("study", study, names, redacted(storage)))
    trials = optuna.load_study(study_name=study, storage=opened).get_trials(deepcopy=False)
    return [_row(trial) for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]


def _storage(storage: str) -> Any:
    """A database by its URL, or a journal's file. What is not there is not made."""
    if "://" in storage:
        file = make_url(storage).database if storage.startswith("sqlite") else None
        _refuse_missing(file)
        return optuna.storages.RDBStorage(storage, skip_table_creation=True)
    from optuna.storages.journal import JournalFileBackend

    _refuse_missing(storage)
    return optuna.storages.JournalStorage(JournalFileBackend(storage))


def _refuse_missing(file: str | None) -> None:
    if file is not None and not Path(file).is_file():
        raise FileNotFoundError(f"there is no file {file}")


def _row(trial: Any) -> dict[str, Any]:
    values = trial.values or []
    named = {"value": values[0]} if len(values) == 1 else {}
    several = {f"value_{at}": value for at, value in enumerate(values)} if not named else {}
    return {"trial": trial.number, **trial.user_attrs, **trial.params, **named, **several}
