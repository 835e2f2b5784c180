"""Query the mirror of all records, which is updated first and rebuilt if it is damaged.

A mirror that turns out to be damaged during a query is rebuilt, and the query runs once more. A
rebuild, or a server that did not respond, is reported on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ablate.store.workspace import Workspace


def ask(workspace: Workspace, query: Callable[[Any], Any]) -> Any:
    """Return the result of `query` on a mirror that is up to date and intact."""
    from ablate.record.mirror.syncing import duckdb

    try:
        return _ask(workspace, query)
    except duckdb().OutOfMemoryException as error:
        raise MemoryError from error  # the command line advises on it, whatever ran out


def _ask(workspace: Workspace, query: Callable[[Any], Any]) -> Any:
    from ablate.compare.across.query import MirrorDamaged
    from ablate.record.mirror.syncing import update_mirror

    mirror = update_mirror(workspace)
    warn(mirror.notes)
    try:
        return query(mirror)
    except MirrorDamaged as damage:
        warn([f"the mirror was damaged ({damage}) and has been rebuilt."])
    # Once only: a second failure is an error.
    return query(update_mirror(workspace, rebuild=True))


def warn(notes: Sequence[str]) -> None:
    """Print notes on standard error."""
    for note in notes:
        print(f"ablate: {note}", file=sys.stderr)
