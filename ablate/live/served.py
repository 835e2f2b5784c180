"""What one server has open: the overview, and the studies and trials that clients look at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ablate.live import deltas, figures, render
from ablate.live.followed import Followed
from ablate.live.overview import Overview
from ablate.live.parts import Block
from ablate.live.views import index, study, trial
from ablate.live.watched import BOOT, Source, Watched, position_of
from ablate.store.workspace import Workspace

MOST_OPEN = 8  # studies and trials in memory; the one least looked at is closed first
LISTS = ("trials", "studies", "table")  # blocks that show what a client asked for
Blocks = Mapping[str, Callable[[], Block]]


class Served:
    """The pages of one workspace that change, each read once for all clients."""

    def __init__(self, workspace: Workspace, awaited: str = "") -> None:
        self.awaited = awaited  # a study that may begin after the page was opened
        self.workspace, self.store = workspace, workspace.store
        self.overview = Watched(Overview(workspace))
        self._open: dict[tuple[str, str], Watched] = {}
        self._figures: dict[tuple[str, str], deltas.Versions] = {}
        self._lock = threading.Lock()
        self.is_closing = False  # clients that wait for news are let go

    def study(self, key: str) -> Watched:
        """A study by its name or `name@scale`, as its files are now."""
        return self._opened("study", key, lambda: Followed(self.workspace, key))

    def trial(self, id: str, key: str = "") -> Watched:
        """A trial of a study, or by itself, as its files are now."""
        return self._opened("trial", f"{id} {key}", lambda: trial.view(self.store, id, key))

    def _opened(self, kind: str, name: str, open_it: Callable[[], Source]) -> Watched:
        with self._lock:
            watched = self._open.get((kind, name))
            if watched is None:
                watched = self._open[kind, name] = Watched(open_it())
                self._close_least_used()
        watched.refresh()
        return watched

    def _close_least_used(self) -> None:
        while len(self._open) > MOST_OPEN:
            # The newest has not been used yet.
            oldest = min([*self._open][:-1], key=lambda name: self._open[name].used)
            del self._open[oldest]
            for name in [one for one in self._figures if one[0] == oldest[1]]:
                del self._figures[name]

    def figure_since(self, key: str, name: str, since: str) -> dict[str, Any]:
        """What of a study's figure is new since a cursor: nothing, a delta, or all of it."""
        watched = self.study(key)
        with watched.lock:
            followed: Any = watched.source
            figure = followed.figure(name)
            if figure is None:
                return {"position": since}  # what ran when the page asked has ended, say
            versions = self._figures.setdefault((key, name), deltas.Versions())
            versions.add(watched.position, figure, figures.plain)
            found = versions.since(position_of(since))
            return {**found, "position": f"{BOOT}.{found['position']}"}

    def blocks(self, watched: Watched, params: Mapping[str, str]) -> Blocks:
        """The blocks of a page that changes."""
        source: Any = watched.source
        if isinstance(source, Followed):
            return study.blocks(source, params)
        if isinstance(source, trial.Viewed):
            made = trial.blocks(source, params)
        else:
            made = index.blocks(source, params)
        return {one.name: (lambda one=one: one) for one in made}

    def fragments(
        self, watched: Watched, params: Mapping[str, str], since: str = ""
    ) -> dict[str, str]:
        """The HTML of the blocks that have changed since a cursor."""
        asked = "&".join(f"{name}={params[name]}" for name in sorted(params))
        with watched.lock:
            # What a client asked for makes a list its own; all else is the same for everybody.
            made = {
                f"{name}?{asked}" if name in LISTS else name: partial(_html, watched, make)
                for name, make in self.blocks(watched, params).items()
            }
            found = watched.fragments(made, since)
        return {name.partition("?")[0]: html for name, html in found.items()}


def _html(watched: Watched, make: Callable[[], Block]) -> str:
    """A block as HTML; one that is the very same as before is not written again."""
    block = make()
    before, html = watched.written.get(block.name, (None, ""))
    if before is not block:
        html = render.block(block)
        watched.written[block.name] = block, html
    return html
