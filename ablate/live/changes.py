"""What changes of a page from a position on, as its script asks once a second.

No connection stays open between two questions: a browser has six for all its tabs of one server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ablate.errors import AblateError
from ablate.live.served import Served

LISTS = ("arm", "state", "page", "rows", "find", "show")  # parameters of lists
NUMBERS = ("page", "rows")


def list_params(given: Mapping[str, str]) -> dict[str, str]:
    """The parameters of lists in an address; without a valid number, it is the first page."""
    params = {name: given[name] for name in LISTS if given.get(name)}
    for name in NUMBERS:
        if not params.get(name, "1").isdecimal() or len(params.get(name, "")) > 6:
            params.pop(name)
    return params


def since(served: Served, given: Mapping[str, str]) -> dict[str, Any]:
    """The fragments that are new since a cursor, and the cursor from which to ask again."""
    served.asked = time.monotonic()
    is_last = served.is_over  # asked first: what a study wrote at its end is sent, too
    cursor = given.get("cursor", "")
    try:
        return {**_news(served, given, cursor), "is_last": is_last}
    except AblateError as error:
        return {"cursor": cursor, "fragments": {}, "trouble": str(error), "is_last": is_last}


def _news(served: Served, given: Mapping[str, str], cursor: str) -> dict[str, Any]:
    key, id = given.get("study", ""), given.get("trial", "")
    watched = served.trial(id, key) if id else served.study(key) if key else served.overview
    watched.refresh()
    with watched.lock:
        now, params = watched.cursor(), list_params(given)
        fragments = {} if now == cursor else served.fragments(watched, params, cursor)
        return {"cursor": now, "fragments": fragments, "state": watched.state}
