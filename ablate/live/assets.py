"""The stylesheets and scripts of the package, by name: no path from an address reaches the disk."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from ablate.compare.page import render
from ablate.compare.plots import interactive

FOLDER = Path(__file__).parent / "static"
STYLE, SCRIPT = "text/css", "text/javascript"
FOR_EVER = "max-age=31536000, immutable, private"
LARGE = 100_000  # bytes, from which an asset is sent compressed


def _of_package(name: str) -> Callable[[], str]:
    return lambda: (FOLDER / name).read_text(encoding="utf-8")


def _style() -> str:
    return render.stylesheet() + _of_package("page.css")() + interactive.stylesheet()


ASSETS: dict[str, tuple[str, Callable[[], str]]] = {
    "page.css": (STYLE, _style),
    "page.js": (SCRIPT, _of_package("page.js")),
    "ticks.js": (SCRIPT, _of_package("ticks.js")),
    "plotly.js": (SCRIPT, interactive.script),
}


@cache
def _text(name: str) -> bytes:
    return ASSETS[name][1]().encode()


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(_text(name), compresslevel=1)  # a first visit waits for it


@cache
def address(name: str) -> str:
    """The address of an asset, which changes with its text."""
    return f"/static/{name}?{hashlib.sha256(_text(name)).hexdigest()[:12]}"


def response(name: str, query: str = "", encodings: str = "") -> Response:
    """The asset of a name, or 404, for the query of its address and what the client can decode."""
    if name not in ASSETS:
        return PlainTextResponse("There is no such file.", 404)
    # plotly's script is 4 MB: a browser keeps it, and what it has compiled of it.
    is_its_own = address(name) == f"/static/{name}?{query}"
    headers = {"Cache-Control": FOR_EVER if is_its_own else "no-cache", "Vary": "Accept-Encoding"}
    body = _text(name)
    if len(body) > LARGE and "gzip" in encodings:
        body, headers["Content-Encoding"] = _compressed(name), "gzip"
    return Response(body, media_type=ASSETS[name][0], headers=headers)
