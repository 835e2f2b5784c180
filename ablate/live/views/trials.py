"""A study's trials: those in trouble, those that run, and all of them by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ablate.compare.formats import Column, for_people
from ablate.compare.page.parts import Grid, Text
from ablate.compare.text.figures import NONE, decimal, duration
from ablate.config.metrics import Metric
from ablate.live.followed import Followed
from ablate.live.parts import PAGE, Block, Filters, Link, Marked, Part, Printed, State, pages
from ablate.live.views.index import address as of_study
from ablate.live.views.index import of_trial
from ablate.results.labels import Label
from ablate.store import printed, states
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.replication import counted

MOST_IN_TROUBLE = 20  # that are shown with what they printed
SHOWN_SETTINGS = 6  # of a search's trial in the list
LAST_LINES = 40  # of what a trial printed


def address(key: str, **params: str) -> str:
    """The address of a study's list of trials."""
    return f"{of_study(key)}?{urlencode(params)}#trials"


def trouble(study: Followed, params: Mapping[str, str]) -> Block:
    """The trials that failed or diverged, with their reasons and what they printed."""
    lost = [j for j in study.journals.values() if j.status in (Status.FAILED, Status.DIVERGED)]
    shown, labels = lost[:MOST_IN_TROUBLE], study.labels
    columns = [
        Column(
            "trial", lambda j: Link(_name(j, labels), of_trial(j.trial.id, study.key)), left=True
        ),
        Column("state", lambda j: State(j.status), left=True),
        Column("epochs", lambda j: len(j.epochs)),
        Column("reason", lambda j: (j.outcome and j.outcome.reason) or "", left=True),
    ]
    parts: list[Part] = [Grid(for_people(columns, shown, title="trials in trouble"))]
    for journal in shown:
        parts += said(study, journal, f"What {_name(journal, labels)} printed")
    if len(lost) > len(shown):
        parts.append(Text(f"{len(lost) - len(shown)} more are in the list of trials.", "small"))
    titles = [f"{counted(len(lost), 'trial')} failed or diverged"] if lost else []
    titles += [f"{counted(len(study.damaged), 'journal')} damaged"] if study.damaged else []
    return Block("trouble", ", ".join(titles), [*_damage(study), *(parts if lost else [])])


def _damage(study: Followed) -> list[Part]:
    """The trials whose journals cannot be read, each with the remedy; the table lacks them."""
    labels, shown = study.labels, [*study.damaged.items()][:MOST_IN_TROUBLE]
    columns = [
        Column("trial", lambda pair: labels[pair[0]].name, left=True),
        Column("what is damaged, and the way out", lambda pair: pair[1], left=True),
    ]
    more = len(study.damaged) - len(shown)
    note = [Text(f"{counted(more, 'more journal')} damaged.", "small")] if more else []
    return [Grid(for_people(columns, shown, title="damaged journals")), *note] if shown else []


def said(study: Followed, journal: Journal, title: str) -> list[Part]:
    """A trial's traceback and the end of what it printed."""
    frames = (journal.outcome and journal.outcome.frames) or ""
    text = printed.read(study.store, journal.trial.id) or "\n".join(journal.output)
    lines = text.splitlines()
    more = f"[{len(lines) - LAST_LINES} earlier lines are on the trial's page]\n"
    last = (more if len(lines) > LAST_LINES else "") + "\n".join(lines[-LAST_LINES:])
    both = "\n".join(filter(None, [frames.rstrip(), last]))
    return [Printed(title, both)] if both else []


def workers(study: Followed, params: Mapping[str, str]) -> Block:
    """The trials that run now, and where."""
    metric, labels = study.record.metric, study.labels
    epochs = {trial.id: trial.epochs for trial in study.record.trials}
    columns = [
        Column(
            "trial", lambda j: Link(_name(j, labels), of_trial(j.trial.id, study.key)), left=True
        ),
        Column("host", lambda j: j.last_attempt.host, left=True),
        Column("process", lambda j: j.last_attempt.pid),
        Column("attempt", lambda j: len(j.attempts)),
        Column("epoch", lambda j: _epoch(j, epochs.get(j.trial.id))),
        Column(f"{metric.shown} of valid", lambda j: _latest(j, metric)),
        Column("trained for", lambda j: duration(seconds(j))),
    ]
    running = study.running
    parts = [Grid(for_people(columns, running[:PAGE], title="running trials"))] if running else []
    return Block("workers", "Workers" if running else "", parts)


def listed(study: Followed, params: Mapping[str, str]) -> Block:
    """All trials by page, of an arm or in a state if the address says so."""
    record, ends, alive = study.record, study.ends, study.driver is not None
    arm, wanted = params.get("arm", ""), params.get("state", "")
    ids = record.trial_ids(arm or None)
    ids = [one for one in ids if not wanted or states.state(one, ends, alive) == wanted]
    number = max(1, int(params.get("page", "1")))
    labels, metric = study.labels, record.metric
    splits = ["valid", *(["test"] if study.judged.split == "test" else [])]
    rows = [(one, study.journals.get(one)) for one in ids[(number - 1) * PAGE : number * PAGE]]
    varied = _varied([journal for _, journal in rows if journal is not None])
    columns: list[Column] = [
        Column("trial", lambda row: _link(row[0], labels, study.key), left=True),
        Column("state", lambda row: _state(row[0], study, ends), left=True),
        Column("epochs", lambda row: len(row[1].epochs) if row[1] else 0),
        *(_result(metric, split) for split in splits),
        *(_setting(name) for name in varied),
    ]  # fmt: skip
    filters = Filters(
        of_study(study.key),
        {
            "arm": (arm, [a.name for a in record.arms]),
            "state": (wanted, [*map(str, states.STATES)]),
        },
    )
    where = of_study(study.key) + "?" + urlencode({"arm": arm, "state": wanted})
    table = for_people(columns, rows, title="trials")
    links = pages(number, len(ids), where)
    title = f"Trials: {len(ids)}{' of ' + str(len(record.trial_ids())) if arm or wanted else ''}"
    return Block("trials", title, [filters, *links, Grid(table), *links])


def seconds(journal: Journal) -> float:
    """How long a trial has trained, by its own clock."""
    return max((epoch.seconds or 0.0 for epoch in journal.epochs), default=0.0)


def _link(id: str, labels: Mapping[str, Label], key: str) -> Link:
    return Link(labels[id].name, of_trial(id, key))


def _state(id: str, study: Followed, ends: states.Ends) -> State | Marked:
    if id in study.damaged:
        return Marked("damaged")
    return State(states.state(id, ends, study.driver is not None))


def _name(journal: Journal, labels: Mapping[str, Label]) -> str:
    label = labels.get(journal.trial.id)
    return label.name if label else journal.trial.name


def _epoch(journal: Journal, planned: int | None) -> str:
    return f"{len(journal.epochs)}{f' of {planned}' if planned else ''}"


def _latest(journal: Journal, metric: Metric) -> str:
    losses = (metric.loss_of(epoch.metrics, "valid") for epoch in reversed(journal.epochs))
    loss = next((loss for loss in losses if loss is not None), None)
    return NONE if loss is None else decimal(metric.show(loss), metric.digits)


def _result(metric: Metric, split: str) -> Column:
    return Column(f"{metric.shown}, {split}", lambda row: _value(row[1], metric, split))


def _value(journal: Journal | None, metric: Metric, split: str) -> str:
    loss = None if journal is None else metric.loss_of(journal.metrics, split)
    return "" if loss is None else decimal(metric.show(loss), metric.digits)


def _varied(journals: list[Journal]) -> list[str]:
    """The first settings in which the trials of a page differ."""
    names: dict[str, set[str]] = {}
    for journal in journals:
        for name, value in journal.config.items():
            names.setdefault(name, set()).add(repr(value))
    return [name for name, values in names.items() if len(values) > 1][:SHOWN_SETTINGS]


def _setting(name: str) -> Column:
    def value(row: Any) -> Any:
        return row[1].config.get(name) if row[1] else None

    return Column(name, value, left=False)
