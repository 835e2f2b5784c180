"""Ask the records in a process of its own, which ends with its query.

    python -m ablate.live.asked     standard input: a workspace, a SELECT and its limits as JSON

DuckDB stops between rows, so one function of one row may go on for minutes, and its memory limit
leaves out what is not its own. A process can be ended, and the system limits its memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ablate.compare.across import query as queries
from ablate.compare.formats import Table, table_of_values
from ablate.errors import AblateError, ConfigError
from ablate.record.mirror.syncing import update_mirror
from ablate.store.workspace import Workspace

MOST_BYTES = 8 << 30  # of addresses, of which a process reserves more than it uses
START_SECONDS = 30.0  # for the process to start and to open the records
PLAIN = (bool, int, float, type(None))


def ask(workspace: Workspace, sql: str, limits: queries.Limits) -> Table:
    """The result of one SELECT over records that are up to date."""
    asked = {"workspace": {**asdict(workspace), "folder": str(workspace.folder)}, "sql": sql}
    given = json.dumps({**asked, "limits": asdict(limits)})
    words = [sys.executable, "-m", __name__]
    seconds = limits.seconds + queries.GRACE_SECONDS + START_SECONDS
    try:
        ended = subprocess.run(
            words, input=given, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        why = f"query: stopped after {seconds:g} seconds. {queries.FEWER}"
        raise ConfigError(why) from error
    if ended.returncode:
        why = f"its process ended with status {ended.returncode}, perhaps for want of memory"
        raise ConfigError(f"query: {why}. {queries.FEWER}")
    found = json.loads(ended.stdout)
    if "error" in found:
        raise {"damaged": queries.MirrorDamaged}.get(found["kind"], ConfigError)(found["error"])
    return table_of_values(found["names"], found["rows"])


def _answer(given: Any) -> dict[str, Any]:
    place = given["workspace"]
    workspace = Workspace(**{**place, "folder": Path(place["folder"])})
    try:
        found = queries.ask(
            update_mirror(workspace), given["sql"], queries.Limits(**given["limits"])
        )
    except queries.MirrorDamaged as error:
        return {"kind": "damaged", "error": str(error)}
    except AblateError as error:
        return {"kind": "", "error": str(error)}
    except MemoryError:
        return {"kind": "", "error": f"query: it needs more memory than it may. {queries.FEWER}"}
    rows = [[cell if isinstance(cell, PLAIN) else str(cell) for cell in row] for row in found.rows]
    return {"names": [column.heading for column in found.columns], "rows": rows}


def main() -> None:
    """Answer one question, then end at once: a thread of DuckDB may not have ended."""
    with contextlib.suppress(ValueError, OSError):  # a lower limit is set already
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    print(json.dumps(_answer(json.load(sys.stdin))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
