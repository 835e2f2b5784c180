"""Addresses -> pages, fragments, figures and changes. Nothing here changes anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from ablate.errors import AblateError
from ablate.live import assets, changes, export, render
from ablate.live.gate import Gate
from ablate.live.mlflow import MLflow
from ablate.live.parts import Block, Link, Page
from ablate.live.served import Served
from ablate.live.views import trial
from ablate.live.views.index import address
from ablate.live.watched import Watched
from ablate.store import study_record

MOST_ASKING = 20  # requests for changes at one time, of the 40 threads for all requests
CONTENTS = {  # what leads to a study's blocks
    "curves": "Curves",
    "searches": "Searches",
    "costs": "Costs",
    "trouble": "Trouble",
    "workers": "Workers",
    "trials": "Trials",
}


class Pages:
    """The endpoints, each a method from a request to a response."""

    def __init__(self, served: Served, mlflow: MLflow) -> None:
        self.served, self.mlflow = served, mlflow

    def index(self, request: Request) -> Response:
        """All studies."""
        self.served.overview.refresh()
        return self._live("Studies", self.served.overview, request, "")

    def study(self, request: Request) -> Response:
        """A study."""
        key = request.path_params["key"]
        if key == self.served.awaited and not study_record.exists(self.served.store, key):
            return self._again(f"{key} is being planned")
        watched = self.served.study(key)
        source: Any = watched.source
        title, what = source.record.question or source.key, urlencode({"study": source.key})
        where, is_shown = address(source.key), bool(request.query_params.get("show"))
        other = (
            Link("the whole page", where) if is_shown else Link("on one screen", f"{where}?show=1")
        )
        return self._live(title, watched, request, what, above=source.key, other=other)

    def trial(self, request: Request) -> Response:
        """A trial."""
        id = _full_id(self.served, request.path_params["id"])
        key = request.query_params.get("study", "")
        watched = self.served.trial(id, key)
        source: Any = watched.source
        name = source.label or source.journal.trial.name
        return self._live(name, watched, request, urlencode({"trial": id, "study": key}))

    def figure(self, request: Request) -> Response:
        """A study's figure: its data as a page draws it, or a file."""
        key, name, kind = (request.path_params[part] for part in ("key", "name", "kind"))
        if kind == "json":
            since = request.query_params.get("since", "")
            return JSONResponse(self.served.figure_since(key, name, since))
        watched = self.served.study(key)
        followed: Any = watched.source
        with watched.lock:  # another client's question may make the table again meanwhile
            figure = followed.figure(name)
        return export.written(figure, kind, f"{followed.key}-{name}")

    def curves(self, request: Request) -> Response:
        """The curves of a trial."""
        id = _full_id(self.served, request.path_params["id"])
        watched = self.served.trial(id, request.query_params.get("study", ""))
        viewed: Any = watched.source
        with watched.lock:
            figure = trial.curves(viewed)
        return export.written(figure, request.path_params["kind"], f"{id}-curves")

    def to_mlflow(self, request: Request) -> Response:
        """MLflow's own page, which is started when it is first wanted."""
        address, why = self.mlflow.address(), self.mlflow.trouble
        if address is not None:
            return RedirectResponse(address, 303)
        if why:
            return self._page("MLflow", [Block("error", "", [], why)], status=503)
        return self._again("MLflow is starting")

    def changes(self, request: Request) -> Response:
        """What of a page is new."""
        return JSONResponse(changes.since(self.served, request.query_params))

    def asset(self, request: Request) -> Response:
        """A stylesheet or a script of the package."""
        encodings = request.headers.get("accept-encoding", "")
        return assets.response(request.path_params["name"], request.url.query, encodings)

    def _around(
        self,
        fragments: Mapping[str, str],
        cursor: str = "",
        titles: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        return {
            "fragments": fragments,
            "titles": CONTENTS if titles is None else titles,
            "cursor": cursor,
            "mlflow": self.mlflow.is_offered,
            "asset": assets.address,
        }

    def _page(self, title: str, blocks: list[Block], status: int = 200, **more: Any) -> Response:
        fragments = {one.name: render.block(one) for one in blocks}
        around = self._around(fragments, titles={one.name: one.title for one in blocks})
        return HTMLResponse(render.page(Page(title, blocks, **more), **around), status)

    def _again(self, title: str) -> Response:
        """A page that a browser loads again until there is more."""
        waiting = HTMLResponse(render.page(Page(title, []), **self._around({})))
        waiting.headers["Refresh"] = "1"
        return waiting

    def _live(
        self, title: str, watched: Watched, request: Request, what: str, **more: Any
    ) -> Response:
        params = changes.list_params(request.query_params)
        with watched.lock:
            fragments = self.served.fragments(watched, params)
            changed = f"/changes?{what}{'&' if what and params else ''}{urlencode(params)}"
            around = self._around(fragments, watched.cursor())
            shown = Page(title, [], changes=changed, state=watched.state, **more)
        return HTMLResponse(render.page(shown, **around))


def _full_id(served: Served, given: str) -> str:
    """The whole id of a trial; reads its journal only once it is opened."""
    from ablate.store import journal

    return given if len(given) == 16 else journal.find(served.store, given).trial.id


def make_app(served: Served, mlflow: MLflow, token: str, once: str = "") -> Any:
    """The whole application, behind its gate: a token, and one that works once."""
    pages = Pages(served, mlflow)

    asking = asyncio.Semaphore(MOST_ASKING)

    def route(path: str, endpoint: Callable[[Request], Response], turns: Any = None) -> Route:
        async def answer(request: Request) -> Response:
            try:
                async with turns or contextlib.nullcontext():
                    return await run_in_threadpool(endpoint, request)
            except AblateError as error:
                # A name in the address that leads nowhere, or a damaged file.
                status = 404 if error.exit_code in (2, 5) else 500
                return pages._page("Not here", [Block("error", "", [], str(error))], status=status)

        return Route(path, answer, methods=["GET"])

    kinds = "{kind:str}"
    routes = [
        route("/", pages.index),
        route("/study/{key:str}", pages.study),
        route("/trial/{id:str}", pages.trial),
        route(f"/trial/{{id:str}}/curves.{kinds}", pages.curves),
        route(f"/figure/{{key:str}}/{{name:str}}.{kinds}", pages.figure),
        route("/mlflow", pages.to_mlflow),
        route("/static/{name:str}", pages.asset),
        route("/changes", pages.changes, asking),
    ]
    return Gate(Starlette(routes=routes), token, once)
