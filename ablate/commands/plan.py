"""Show what a study would run: arms, trials, cost."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from ablate.commands import _answers, _options
from ablate.commands._plan_cost import cost_left
from ablate.commands._plan_page import (
    PlannedPart,
    arms_planned,
    finds,
    looks_in_words,
    notes_of_record,
    page,
    searches_in_words,
    to_fetch,
)
from ablate.commands._searches_left import SearchLeft, searches_left
from ablate.compare.formats import json
from ablate.engine.analyses import check_analyses
from ablate.errors import StudyError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, make_folders
from ablate.study.file import load
from ablate.study.kept import kept_settings
from ablate.study.ladder import rung_notes
from ablate.study.looked import with_history, without
from ablate.study.overrides import Overrides, overridden
from ablate.study.plan import make_plan
from ablate.study.planned import Plan
from ablate.study.several import scales_of
from ablate.study.stated import plans_of, state
from ablate.study.study import Study

EXAMPLE = "ablate plan studies/x.py --scale paper"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate plan`."""
    _options.add_study(parser)
    parser.add_argument(
        "--local", action="store_true", help="give the time that `ablate study --local` takes"
    )
    parser.add_argument(
        "--register",
        action="store_true",
        help="state the plan now, before any result, and print its hash, to date it elsewhere",
    )
    _options.add_json(parser)
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return what a study would train, and its cost."""
    changes, workspace = _options.overrides(options), _options.workspace(options)
    if options.register:
        return register(options.file, options.scale, workspace, changes)
    if options.format == "json":
        return json.written(
            answer(options.file, options.scale, workspace, changes, local=options.local)
        )
    return show_plan(options.file, options.scale, workspace, changes, local=options.local)


def register(file: str, scale: str | None, workspace: Workspace, changes: Overrides) -> str:
    """State the plan of each part of a scale; return its hash."""
    study, name = overridden(load(file), scale, changes)
    make_folders(workspace)
    lines = []
    for each in scales_of(name, study.scale(name)[1]):
        plan = make_plan(study, each, data=workspace.data, stores=[workspace.store])
        plans = plans_of(plan, workspace.store)
        if (known := plans.read()) is not None and (known.registered or plans.arms()):
            raise StudyError(
                f"{plan.record.key}: its plan was stated on {known.time[:10]} (SHA-256 "
                f"{known.hash}), and is not stated again. `ablate study` says what has changed."
            )
        stated = state(plan, workspace.store, registered=True)
        plans.write(stated)
        lines.append(f"{plan.record.key}: planned on {stated.time}, SHA-256 {stated.hash}")
    return "\n".join(lines)


def show_plan(
    file: str,
    scale: str | None,
    workspace: Workspace,
    changes: Overrides | None = None,
    *,
    local: bool = False,
) -> str:
    """Return the plan as text: of a scale of several corpora or rungs, in one table.

    Reads the store, writes nothing, imports neither ray nor mlflow.
    """
    study, scale = overridden(load(file), scale, changes or Overrides())
    each = scales_of(scale, study.scale(scale)[1])
    return page([_planned(study, one, workspace, local) for one in each], workspace)


def answer(
    file: str,
    scale: str | None,
    workspace: Workspace,
    changes: Overrides | None = None,
    *,
    local: bool = False,
) -> _answers.Plan:
    """Return the same for programs."""
    study, scale = overridden(load(file), scale, changes or Overrides())
    part = _planned(study, scale, workspace, local)
    plan, record, cost = part.plan, part.record, part.cost
    notes = [
        *([f"Changed on the command line: {record.changed}."] if record.changed else []),
        *rung_notes(plan.scale),
        *to_fetch(plan, workspace),
        *kept_settings(plan),
        *looks_in_words(record),
        *searches_in_words(plan),
        *notes_of_record(plan),
        *finds(plan, workspace.store),
    ]
    return _answers.Plan(
        study=record.key,
        question=record.question,
        corpus=record.corpus,
        base_arm=record.base_arm,
        first_seed=record.first_seed,
        num_seeds=record.num_seeds,
        threads=plan.scale.threads,
        arms=tuple(arms_planned(part)),
        trials=cost.trials,
        done=cost.done,
        left=cost.trials - cost.done,
        left_is_at_most=cost.at_most,
        training_tokens_left=cost.tokens,
        seconds_left=cost.seconds,
        workers=cost.workers,
        notes=tuple(notes),
    )


def _planned(study: Study, scale: str, workspace: Workspace, local: bool) -> PlannedPart:
    """Return the plan of a scale, the journals that are done, and what the others cost."""
    check_analyses(study)
    plan = make_plan(study, scale, data=workspace.data, stores=[workspace.store])
    plan = _after_looks(plan, workspace.store)
    searches = searches_left(plan, workspace.store)
    plan = replace(plan, record=_so_far(plan, searches))
    known = journals.read_all(workspace.store, plan.record.trial_ids())
    known = journals.labelled(known, {trial.id: trial for trial in plan.trials})
    done = {trial_id: journal for trial_id, journal in known.items() if journal.is_done}
    return PlannedPart(plan, done, cost_left(plan, searches, done, workspace, local))


def _after_looks(plan: Plan, store: Store) -> Plan:
    """Return the plan with the looks on record, without what they have decided."""
    plan = with_history(plan, store)
    looks = plan.record.every_look
    if not (looks.are_several and looks.made):
        return plan
    before = {arm.name: arm.stopped_at for arm in study_record.read(store, plan.record.key).arms}
    for num in looks.made:
        plan = without(plan, {arm for arm, at in before.items() if at == num}, num)
    return plan


def _so_far(plan: Plan, searches: Sequence[SearchLeft]) -> StudyRecord:
    """Return the plan's record with the state of its searches, for counting its trials."""
    known = tuple(search.record for search in searches)
    confirming = (one for s in searches if s.record.ended for one in s.chains.planned)
    return replace(plan.record, searches=known, trials=(*plan.record.trials, *confirming))
