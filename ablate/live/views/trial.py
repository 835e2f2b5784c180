"""One trial: its settings next to its base's, its curves, its lineage, what it printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ablate.compare.formats import Column, for_people
from ablate.compare.page.parts import Grid, Text
from ablate.compare.plots import figure as fig
from ablate.compare.text.figures import count, duration
from ablate.errors import ConfigError
from ablate.live.parts import Block, Facts, Link, Marked, Part, Plotted, State
from ablate.live.views import by_epoch
from ablate.live.views.index import address as of_study
from ablate.live.views.trials import seconds
from ablate.results.labels import labels_of
from ablate.store import journal as journals
from ablate.store import printed, study_record
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord, study_key


@dataclass
class Viewed:
    """A trial, the study that ran it, and the trial of the base arm to set it beside."""

    store: Store
    id: str
    journal: Journal
    record: StudyRecord | None = None
    base_id: str = ""
    base: Journal | None = None
    _stamps: Any = None

    @property
    def label(self) -> str:
        """The name that its study gives it."""
        known = labels_of(self.record).get(self.id) if self.record else None
        return known.name if known else ""

    @property
    def source(self) -> str:
        """Where it was imported from; empty if it was run here."""
        return self.record.imported if self.record else ""

    @property
    def is_running(self) -> bool:
        """Return whether the trial has no outcome yet."""
        return self.journal.status is None

    def refresh(self) -> bool:
        """Read the trial, its study and its base again if a file of theirs has changed."""
        stamps = self.store.stamps(self._files())
        if stamps == self._stamps:
            return False
        now = view(self.store, self.id, self.record.key if self.record else "")
        self.journal, self.record = now.journal, now.record
        self.base_id, self.base = now.base_id, now.base
        self._stamps = stamps
        return True

    def _files(self) -> list[str]:
        files = [journals.key(self.id), f"trials/{self.id}/printed.json"]
        files += [f"studies/{self.record.key}/study.json"] if self.record else []
        return [*files, *([journals.key(self.base_id)] if self.base_id else [])]


def view(store: Store, trial_id: str, study: str = "") -> Viewed:
    """Open a trial by its id or a unique prefix of it, as a study has it (default: the first)."""
    journal = journals.find(store, trial_id)
    trial = journal.trial
    try:
        record = study_record.read(store, study or study_key(trial.study, trial.scale))
    except ConfigError:  # a trial by itself
        return Viewed(store, trial.id, journal)
    base_id = _base(record, trial.id)
    base = journals.read(store, base_id) if base_id else None
    return Viewed(store, trial.id, journal, record, base_id, base)


def _base(record: StudyRecord, trial_id: str) -> str:
    """The base arm's trial of the same stage and seed; of a search, the arm's winner."""
    own = next((trial for trial in record.trials if trial.id == trial_id), None)
    of_base = record.trials_of(record.base_arm)
    if own is None:
        search = next((s for s in record.searches if trial_id in s.trials), None)
        chosen = (search.chosen if search else None) or ""
        return chosen if chosen != trial_id else ""
    same = [t for t in of_base if t.stage == own.stage and t.seed_index == own.seed_index]
    return same[0].id if same and same[0].id != trial_id else ""


def blocks(viewed: Viewed, params: Mapping[str, str]) -> list[Block]:
    """The blocks of a trial's page."""
    journal = viewed.journal
    drawing = _drawing(viewed)
    return [
        Block("facts", "", [Facts(_facts(viewed)), *_trouble(journal)]),
        Block("curves", "Curves" if drawing else "", drawing),
        Block("results", "Results" if journal.metrics else "", _results(viewed)),
        Block("settings", "Settings", _settings(viewed)),
        Block("lineage", "Lineage", _lineage(viewed)),
        Block("attempts", "Attempts", [Grid(_attempts(journal))]),
        Block("printed", "What it printed", _printed(viewed)),
        *([] if viewed.source else [_again(viewed)]),
    ]


def _again(viewed: Viewed) -> Block:
    return Block("again", "To repeat it", [Text(f"ablate trial rerun {viewed.id}", "command")])


def _facts(viewed: Viewed) -> list[tuple[str, Any]]:
    journal, trial = viewed.journal, viewed.journal.trial
    study = (
        [("study", Link(viewed.record.key, of_study(viewed.record.key)))] if viewed.record else []
    )
    outcome, source = journal.outcome, viewed.source
    parameters = outcome.num_parameters if outcome else None
    return [
        ("id", trial.id),
        ("state", State(journal.status or Status.RUNNING) if journal.status else "no outcome yet"),
        *study,
        *([("imported from", source)] if source else []),
        ("arm", trial.arm),
        ("stage", trial.stage),
        ("seed", trial.seed),
        ("epochs", len(journal.epochs)),
        # A task that only returns a result has no epochs, whose seconds these are.
        *([("trained for", duration(seconds(journal)))] if journal.epochs else []),
        *([("parameters", count(parameters))] if parameters else []),
        ("computed by", ", ".join(journal.last_attempt.computed_by or ()) or "not recorded"),
    ]


def _trouble(journal: Journal) -> list[Text]:
    outcome = journal.outcome
    parts = [Text(outcome.reason, "warning")] if outcome and outcome.reason else []
    return [*parts, *([Text(outcome.frames, "command")] if outcome and outcome.frames else [])]


def _results(viewed: Viewed) -> list[Part]:
    ours, base = viewed.journal.metrics, viewed.base.metrics if viewed.base else {}
    columns = [
        Column("metric", str, left=True),
        Column("value", ours.get),
        *([Column(_name(viewed.base), base.get)] if viewed.base and base else []),
    ]
    return [Grid(for_people(columns, list(ours)))] if ours else []


def _name(journal: Journal | None) -> str:
    return journal.trial.name if journal else ""


def _settings(viewed: Viewed) -> list[Part]:
    """What differs from the base, marked; every setting below, folded up."""
    ours = viewed.journal.config or viewed.journal.trial.values
    if viewed.base is None:
        rows = [(name, json.dumps(value), "") for name, value in sorted(ours.items())]
        return [Grid(for_people(_pair(("value", 1)), rows))]
    theirs = viewed.base.config or viewed.base.trial.values
    names = sorted({*ours, *theirs})
    rows = [(name, _text(ours, name), _text(theirs, name)) for name in names]
    differing = [(name, Marked(one), other) for name, one, other in rows if one != other]
    shown = {name: row for row in differing for name in [row[0]]}
    columns = _pair(("this trial", 1), (_name(viewed.base), 2))
    whole = for_people(columns, [shown.get(row[0], row) for row in rows])
    none = Text(f"Every setting is that of {_name(viewed.base)}.")
    some = Grid(for_people(columns, differing), "What differs")
    return [some if differing else none, Grid(whole, folded=f"All {len(rows)} settings")]


def _pair(*named: tuple[str, int]) -> list[Column]:
    def value(at: int) -> Any:
        return lambda row: row[at]

    return [Column("setting", value(0), left=True),
            *(Column(heading, value(at), left=True) for heading, at in named)]  # fmt: skip


def _text(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "–"


def _lineage(viewed: Viewed) -> list[Part]:
    trial, record = viewed.journal.trial, viewed.record
    parents = [("builds on", p.role, p.id) for p in trial.parents]
    planned = record.trials if record else ()
    parents += [("is built on by", t.stage, t.id) for t in planned if viewed.id in t.parents]
    if not parents:
        return [Text("It builds on no trial, and none of its study builds on it.")]
    columns = [
        Column("", lambda row: row[0], left=True),
        Column("as", lambda row: row[1], left=True),
        Column("trial", lambda row: Link(row[2], f"/trial/{row[2]}"), left=True),
    ]
    return [Grid(for_people([columns[2], *columns[:2]], parents))]


def _attempts(journal: Journal) -> Any:
    columns = [
        Column("started", lambda a: a.started, left=True),
        Column("from epoch", lambda a: a.from_epoch),
        Column("host", lambda a: a.host, left=True),
        Column("process", lambda a: a.pid),
        Column("hardware", lambda a: a.hardware, left=True),
        Column("versions", lambda a: _versions(a.versions), left=True),
        Column("commit", lambda a: (a.git or {}).get("commit", "")[:10], left=True),
    ]
    return for_people(columns, journal.attempts)


def _versions(versions: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} {version}" for name, version in (versions or {}).items())


def _printed(viewed: Viewed) -> list[Part]:
    text = printed.read(viewed.store, viewed.id) or "\n".join(viewed.journal.output)
    return [Text(text, "command") if text else Text("It has printed nothing.")]


def _drawing(viewed: Viewed) -> list[Part]:
    figure = curves(viewed)
    if figure is None:
        return []
    query = f"?{urlencode({'study': viewed.record.key})}" if viewed.record else ""
    return [Plotted(f"/trial/{viewed.id}/curves", figure, query)]


def curves(viewed: Viewed) -> fig.Figure | None:
    """A panel for each number that the trial reports by epoch, its base's dashed behind it."""
    compared = [viewed.journal, *([viewed.base] if viewed.base else [])]
    return by_epoch.curves_of(compared, ["this trial", "base"])
