"""Server-sent events: what changes of a page, from a position on, while somebody looks at it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ablate.errors import AblateError
from ablate.live.served import Served

TICK_SECONDS, QUIET_TICKS = 1.0, 15  # between looks; looks without news before a sign of life
LISTS = ("arm", "state", "page", "rows")  # parameters of lists
NUMBERS = ("page", "rows")


def list_params(given: Mapping[str, str]) -> dict[str, str]:
    """The parameters of lists in an address; without a valid number, it is the first page."""
    params = {name: given[name] for name in LISTS if given.get(name)}
    for name in NUMBERS:
        if not params.get(name, "1").isdecimal() or len(params.get(name, "")) > 6:
            params.pop(name)
    return params


async def events(request: Request) -> Response:
    """What changes of a page from a cursor on, as server-sent events."""
    if request.method == "HEAD":  # there is no end to wait for
        return Response(media_type="text/event-stream")
    served: Served = request.app.state.served
    params = list_params(request.query_params)
    key, id = (request.query_params.get(name, "") for name in ("study", "trial"))
    since = request.headers.get("last-event-id") or request.query_params.get("cursor", "")

    def news(cursor: str) -> tuple[str, dict[str, str]]:
        watched = served.trial(id, key) if id else served.study(key) if key else served.overview
        watched.refresh()
        with watched.lock:
            now = watched.cursor()
            return now, {} if now == cursor else served.fragments(watched, params, cursor)

    stream = _stream(served, request, news, since)
    return StreamingResponse(stream, media_type="text/event-stream")


async def _stream(
    served: Served, request: Request, news: Callable[[str], Any], cursor: str
) -> AsyncIterator[str]:
    quiet, is_last = 0, False
    with contextlib.suppress(asyncio.CancelledError):
        while not (is_last or await request.is_disconnected()):
            is_last = served.is_closing  # what a study wrote at its end is sent, too
            try:
                now, fragments = await run_in_threadpool(news, cursor)
            except AblateError as error:
                yield f"event: trouble\ndata: {json.dumps(str(error))}\n\n"
                now, fragments = cursor, {}
            quiet += 1
            if now != cursor:
                data = json.dumps({"fragments": fragments})
                yield f"id: {now}\nevent: changes\ndata: {data}\n\n"
                cursor, quiet = now, 0
            elif quiet % QUIET_TICKS == 0:
                yield ": nothing new\n\n"
            if is_last:
                yield "event: closed\ndata: \n\n"
            else:
                await asyncio.sleep(TICK_SECONDS)
