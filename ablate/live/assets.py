"""The stylesheets and scripts of the package, by name: no path from an address reaches the disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from ablate.compare.plots import interactive

FOLDER = Path(__file__).parent / "static"
STYLE, SCRIPT = "text/css", "text/javascript"
DAY = "max-age=86400, private"


def _of_package(name: str) -> Callable[[], str]:
    return lambda: (FOLDER / name).read_text(encoding="utf-8")


ASSETS: dict[str, tuple[str, Callable[[], str]]] = {
    "page.css": (STYLE, lambda: _of_package("page.css")() + interactive.stylesheet()),
    "page.js": (SCRIPT, _of_package("page.js")),
    "plotly.js": (SCRIPT, interactive.script),
}


@cache
def _text(name: str) -> bytes:
    return ASSETS[name][1]().encode()


def response(name: str) -> Response:
    """The asset of a name, or 404."""
    if name not in ASSETS:
        return PlainTextResponse("There is no such file.", 404)
    # plotly's script is 4 MB and changes with its package alone.
    headers = {"Cache-Control": DAY if name == "plotly.js" else "no-cache"}
    return Response(_text(name), media_type=ASSETS[name][0], headers=headers)
