"""All studies of the store: what runs, how far each has come."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.page.parts import Grid, Text
from ablate.live.overview import Overview, Progress
from ablate.live.parts import Bar, Block, Link, pages
from ablate.store.outcome import Status

MOST = 50  # studies on a page


def blocks(overview: Overview, params: Mapping[str, str]) -> list[Block]:
    """The studies that run now, and all of them by page."""
    studies = overview.studies
    running = {key: one for key, one in studies.items() if one.driver is not None}
    number = max(1, int(params.get("page", "1")))
    keys = sorted(studies)[(number - 1) * MOST : number * MOST]
    shown = {key: studies[key] for key in keys}
    warnings = [Text(f"{key}: {why}", "warning") for key, why in overview.unreadable.items()]
    if overview.num_unread:
        reading = f"{overview.num_unread} studies are still being read: their numbers grow."
        warnings.append(Text(reading, "small"))
    nothing = [Text("No study has been run here yet. `ablate study FILE` starts one.")]
    all_of_them = [Grid(_table(shown)), *pages(number, len(studies), "/")]
    listed = all_of_them if studies else nothing if not overview.num_unread else []
    title = f"All {len(studies)} studies" if running and len(studies) > 1 else ""
    return [
        Block("running", "Running now" if running else "", [Grid(_table(running))] * bool(running)),
        Block("studies", title, [*warnings, *listed]),
    ]


def _table(studies: Mapping[str, Progress]) -> Table:
    damaged = any(one.damaged for one in studies.values())
    columns = [
        Column("study", lambda one: Link(one.record.key, address(one.record.key)), left=True),
        Column("state", _state, left=True),
        Column("progress", lambda one: Bar(one.counts), left=True),
        *([Column("damaged", lambda one: one.damaged or None)] if damaged else []),
        Column("question", lambda one: one.record.question, left=True),
        Column("arms", lambda one: len(one.record.arms)),
        Column("trials", lambda one: one.counts.total()),
    ]
    return for_people(columns, studies.values(), title="studies")


def _state(study: Progress) -> str:
    if study.record.imported:
        return "imported"
    if study.driver is not None:
        return "running"
    return "stopped" if study.counts[Status.LEFT] else "ended"


def of_trial(id: str, key: str) -> str:
    """The address of a trial's page, as a study has the trial."""
    return f"/trial/{id}?{urlencode({'study': key})}"


def address(key: str) -> str:
    """The address of a study's page."""
    return f"/study/{quote(key)}"
