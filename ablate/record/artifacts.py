"""The files of runs, from a trial's journal: its config, environment, curve and error."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ablate.store.journal import Journal
from ablate.store.numbers import in_utf8, without_nan


def of_trial(journal: Journal, own: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a trial's run; `own`: those of `run.folder`."""
    files = {
        **{f"files/{name}": data for name, data in own.items()},
        # A "?" for a lone surrogate, as of a file name that is not UTF-8: no record fails for it.
        "config.toml": config_toml(journal).encode(errors="replace"),
        "environment.json": json_of([attempt.to_plain() for attempt in journal.attempts]),
    }
    if journal.epochs:
        curve = [epoch.to_plain() for epoch in journal.epochs]
        names = list(dict.fromkeys(key for epoch in curve for key in sorted(epoch)))
        rows = [[epoch.get(name, "") for name in names] for epoch in curve]
        files["curve.csv"] = _csv([names, *rows])
    if journal.outcome and journal.outcome.reason:
        lines = [journal.outcome.reason, journal.outcome.frames]
        files["error.txt"] = "\n".join(filter(None, lines)).encode(errors="replace")
    return files


def config_toml(journal: Journal) -> str:
    """The resolved config as flat TOML (`"backbone.units" = 960`); None becomes a comment."""
    trial, config = journal.trial, journal.config or journal.trial.values
    lines = [f"# trial {trial.id}: seed {trial.seed}, {trial.device}, {trial.threads} threads"]
    for key in sorted(config):
        value = config[key]
        text = json.dumps(value, ensure_ascii=False)  # which is TOML: journals have no NaN
        if " " in key:  # recorded besides the values (`Config.extras`)
            lines.append(f"# {key}: {value}")
        else:
            lines.append(f"# {key} is not set" if value is None else f'"{key}" = {text}')
    return "\n".join(lines) + "\n"


def _csv(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(errors="replace")


def json_of(data: Any) -> bytes:
    """JSON that has neither NaN nor lone surrogates."""
    return json.dumps(in_utf8(without_nan(data)), indent=1, sort_keys=True).encode()
