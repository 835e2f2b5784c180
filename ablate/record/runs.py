"""How runs should look: pure functions from a study's record and a trial's journal.

Metrics by epoch have the journal's own names (`train_nll`, `valid_ppl`, ...) at step = epoch; what
a trial found at its end is `final_<name>`, so that a trial stopped early has no value where
finished ones have theirs.
"""

from __future__ import annotations

import calendar
import csv
import dataclasses
import hashlib
import io
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ablate import journal as journals
from ablate.identity import digest
from ablate.journal import Journal
from ablate.record.tracking import (
    FAILED,
    FINISHED,
    HOME,
    KILLED,
    MARK,
    NOTE,
    PARENT_RUN,
    RUN_NAME,
    RUNNING,
    STUDY_RUN,
    TRIAL,
    Point,
    Run,
)
from ablate.study_record import StudyRecord

STATUSES = {
    journals.COMPLETED: FINISHED,
    journals.PRUNED: KILLED,
    journals.DIVERGED: FAILED,
    journals.FAILED: FAILED,
    "interrupted": KILLED,
    "running": RUNNING,
}
PARAM_LENGTH, TAG_LENGTH = 6000, 8000  # MLflow's limits
CUT = " ... (cut; whole in config.toml)"


@dataclass(frozen=True)
class Label:
    """What a study calls a trial."""

    arm: str
    stage: str
    name: str
    seed_index: int | None = None
    final: bool = False


def labels(record: StudyRecord) -> dict[str, Label]:
    """What a study calls each of its trials."""
    found = {}
    for search in record.searches:
        for number, trial_id in enumerate(search.trials, 1):
            name = f"{search.arm} search {search.repeat} #{number}"
            found[trial_id] = Label(search.arm, "search", name)
    for planned in record.trials:
        stage = "" if planned.stage == "train" else f" {planned.stage}"
        name = f"{planned.arm}{stage} seed {planned.seed}"
        found[planned.id] = Label(
            planned.arm, planned.stage, name, planned.seed_index, planned.final
        )
    return found


def status_of(journal: Journal, running: bool) -> str:
    return journal.status or ("running" if running else "interrupted")


def mark_of(journal: Journal, running: bool) -> str:
    """What of a journal a run shows: equal marks have nothing to deliver."""
    status = status_of(journal, running)
    return f"{status}:{len(journal.epochs)}:{len(journal.attempts)}"


def trial_run(
    record: StudyRecord, parent_run_id: str, journal: Journal, label: Label | None, running: bool
) -> Run:
    """The run of one trial, as a child of the study's."""
    trial = journal.trial
    label = label or Label(trial.arm, trial.stage, f"{trial.arm} seed {trial.seed}")
    status = status_of(journal, running)
    start, end = _times(journal)
    return Run(
        identity=(TRIAL, trial.id),
        status=STATUSES[status],
        start=start,
        end=None if status == "running" else end,
        home=_tags(_home(record, parent_run_id, journal, label)),
        guest=_tags({f"ablate.also_in.{tag_key(record.key)}": label.arm}),
        tags=_tags(_facts(journal, status)) | {MARK: mark_of(journal, running)},
        params=_params(journal),
        points=_points(journal, start),
        artifacts={} if status == "running" else _artifacts(journal),
    )


def study_run(
    record: StudyRecord,
    status: str,
    start: int,
    results: Mapping[str, bytes],
    table: str,
    counts: Mapping[str, int],
) -> Run:
    """The run of a study: its question, its command, its table."""
    facts = {
        "ablate.kind": "study",
        "question": record.question,
        "command": record.command,
        "paper": record.paper,
        "table": ", ".join(record.tables),
        "study": record.name,
        "scale": record.scale,
        "corpus": record.corpus,
        "corpus_digest": record.corpus_digest,
        "status": status,
        "trials": ", ".join(f"{number} {name}" for name, number in counts.items()),
        "mlflow.source.name": record.file,
        "mlflow.source.type": "LOCAL",
        NOTE: note(record, table),
    }
    artifacts = {**results, "study.json": _json(dataclasses.asdict(record))}
    if table:
        artifacts["table.md"] = table.encode()
    params = {
        "scale": record.scale,
        "corpus": record.corpus,
        "level": record.level,
        "base_arm": record.base_arm,
        "num_arms": str(len(record.arms)),
        "num_seeds": str(record.num_seeds),
    }
    tags = _tags(facts)
    content = hashlib.sha256(json.dumps(tags, sort_keys=True).encode())
    for name in sorted(artifacts):
        content.update(name.encode() + artifacts[name])
    return Run(
        identity=(STUDY_RUN, record.key),
        status=status_for_study(status),
        start=start,
        end=None if status == "running" else _now(),
        home={HOME: record.key, RUN_NAME: record.key, STUDY_RUN: record.key},
        tags=tags | {MARK: f"{status}:{content.hexdigest()[:16]}"},
        params=params,
        artifacts={} if status == "running" else artifacts,
    )


def status_for_study(status: str) -> str:
    return {"running": RUNNING, "finished": FINISHED}.get(status, KILLED)


def experiment_tags(record: StudyRecord) -> dict[str, str]:
    """What the UI says of an experiment; the kind keeps it from asking what this is."""
    return {
        "mlflow.experimentKind": "custom_model_development",
        NOTE: note(record, ""),
        HOME: record.key,
    }


def note(record: StudyRecord, table: str) -> str:
    """The study in Markdown, within what a tag may hold."""
    source = ", ".join(text for text in (record.paper, *record.tables) if text)
    place = f"scale `{record.scale}`, corpus `{record.corpus}`"
    head = f"**{record.question}**\n\n    {record.command}\n\n{source}; {place}\n"
    whole = f"{head}\n{table}\n" if table else head
    if len(whole) <= TAG_LENGTH:
        return whole
    end = "\n\n(cut; whole in the artifact table.md)\n"
    kept = whole[: TAG_LENGTH - len(end)]
    return kept.rpartition("\n")[0] + end


def reused_table(rows: list[list[str]]) -> bytes:
    """The trials of a study whose runs live with another one."""
    return _csv(("trial", "name", "study", "run_id"), rows)


def tag_key(text: str) -> str:
    """A name that MLflow takes as (part of) a key of a tag, a param or a metric."""
    text = re.sub(r"\[(\d+)\]", r".\1", text).replace("@", ".")
    return re.sub(r"[^\w\-./ ]", "_", text)


def _home(record: StudyRecord, parent: str, journal: Journal, label: Label) -> dict[str, Any]:
    """The tags by which a study labels a trial."""
    return {
        PARENT_RUN: parent,
        RUN_NAME: label.name,
        HOME: record.key,
        "study": record.name,
        "scale": record.scale,
        "arm": label.arm,
        "stage": label.stage,
        "paper": record.paper,
        "table": ", ".join(record.tables),
        "seed_index": label.seed_index,
        "in_cell": label.final,
        **journal.trial.tags,
    }


def _facts(journal: Journal, status: str) -> dict[str, Any]:
    """The tags that are true of a trial in whichever study."""
    trial, outcome = journal.trial, journal.outcome or {}
    place = journal.attempts[-1] if journal.attempts else {}
    git, own = place.get("git") or {}, place.get("ablate_git") or {}
    versions = place.get("versions") or {}
    return {
        TRIAL: trial.id,
        "ablate.kind": "trial",
        "status": status,
        "reason": outcome.get("reason"),
        "seed": trial.seed,
        "corpus": (journal.config or trial.values).get("corpus.name"),
        "corpus_digest": trial.corpus_digest,
        "config_hash": digest(journals.without_nan(journal.config or dict(trial.values))),
        "result_digest": outcome.get("digest"),
        "parents": ", ".join(f"{parent.role}:{parent.id}" for parent in trial.parents),
        "device": trial.device,
        "precision": trial.precision,
        "threads": trial.threads,
        "reads_test": trial.reads_test,
        "runner": trial.runner,
        "attempts": len(journal.attempts),
        "epochs": len(journal.epochs),
        "host": place.get("host"),
        "hardware": place.get("hardware"),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "git_commit": git.get("commit"),
        "git_dirty": git.get("dirty"),
        "ablate_commit": own.get("commit"),
        "ablate_dirty": own.get("dirty"),
        "mlflow.source.git.commit": git.get("commit"),
        NOTE: _failure(status, outcome),
    }


def _failure(status: str, outcome: Mapping[str, Any]) -> str:
    reason = outcome.get("reason")
    return f"**{status}**: {reason}" if reason else ""


def _tags(facts: Mapping[str, Any]) -> dict[str, str]:
    """Tags as text, the empty ones left out."""
    return {key: str(value)[:TAG_LENGTH] for key, value in facts.items() if value not in (None, "")}


def _params(journal: Journal) -> dict[str, str]:
    config = journal.config or journal.trial.values
    return {tag_key(key): _short(_text(value)) for key, value in config.items()}


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= PARAM_LENGTH else text[: PARAM_LENGTH - len(CUT)] + CUT


def _points(journal: Journal, start: int) -> list[Point]:
    """Every number of every epoch, then those of the end.

    Their times come from the journal too, so that a point said twice is the same point.
    """
    points, step, at = [], 0, start
    for index, epoch in enumerate(journal.epochs, 1):
        step = int(epoch.get("epoch", index))
        seconds = _number(epoch.get("seconds"))
        at = start + (step if seconds is None else round(1000 * seconds))
        for key, value in epoch.items():
            number = _number(value)
            if key != "epoch" and number is not None:
                points.append(Point(tag_key(key), number, at, step))
    outcome = journal.outcome or {}
    final = {f"final_{key}": value for key, value in outcome.get("metrics", {}).items()}
    final["num_parameters"] = outcome.get("num_parameters")
    for key, value in final.items():
        number = _number(value)
        if number is not None:
            points.append(Point(tag_key(key), number, at, step))
    return points


def _number(value: Any) -> float | None:
    """The number that a journal means; it writes those that JSON has no word for as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return float(value) if value in ("nan", "inf", "-inf") else None


def _times(journal: Journal) -> tuple[int, int]:
    """When a trial began and ended, in milliseconds."""
    if not journal.attempts:
        return _now(), _now()
    first, last = journal.attempts[0], journal.attempts[-1]
    begun, resumed = _milliseconds(first["started"]), _milliseconds(last["started"])
    if "ended" in (journal.outcome or {}):
        return begun, max(begun, _milliseconds((journal.outcome or {})["ended"]))
    seconds = [_number(epoch.get("seconds")) or 0.0 for epoch in journal.epochs]
    from_epoch = int(last.get("from_epoch", 0))
    before = seconds[from_epoch - 1] if 0 < from_epoch <= len(seconds) else 0.0
    worked = (seconds[-1] - before) if seconds else 0.0
    return begun, resumed + max(0, math.ceil(1000 * worked))


def _milliseconds(text: str) -> int:
    return 1000 * calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def _now() -> int:
    return round(1000 * time.time())


def _artifacts(journal: Journal) -> dict[str, bytes]:
    files = {
        "config.toml": config_toml(journal).encode(),
        "environment.json": _json(journal.attempts),
    }
    if journal.epochs:
        names = list(dict.fromkeys(key for epoch in journal.epochs for key in epoch))
        rows = [[epoch.get(name, "") for name in names] for epoch in journal.epochs]
        files["curve.csv"] = _csv(names, rows)
    outcome = journal.outcome or {}
    if outcome.get("reason"):
        frames = outcome.get("frames") or []
        lines = [outcome["reason"], *([frames] if isinstance(frames, str) else map(str, frames))]
        files["error.txt"] = "\n".join(lines).encode()
    return files


def config_toml(journal: Journal) -> str:
    """The resolved config as flat TOML (`"backbone.units" = 960`); None is left out."""
    trial, config = journal.trial, journal.config or journal.trial.values
    lines = [f"# trial {trial.id}: seed {trial.seed}, {trial.device}, {trial.threads} threads"]
    for key in sorted(config):
        value = config[key]
        lines.append(f"# {key} is not set" if value is None else f'"{key}" = {_toml(value)}')
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)


def _csv(names: Any, rows: Any) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode()


def _json(data: Any) -> bytes:
    return json.dumps(journals.without_nan(data), indent=1, sort_keys=True).encode()
