"""A figure as a file: SVG, PNG and PDF by matplotlib, its numbers as CSV; or as plotly's JSON."""

from __future__ import annotations

import threading

from starlette.responses import JSONResponse, Response

from ablate.compare.formats import csv
from ablate.compare.plots import figure as fig
from ablate.compare.plots import static
from ablate.errors import ConfigError, unknown
from ablate.live import figures

TYPES = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
    "csv": "text/csv",
    "json": "application/json",
}
_drawing = threading.Lock()  # matplotlib's settings are of the whole process


def written(figure: fig.Figure | None, kind: str, name: str) -> Response:
    """The response with a figure as a file of this kind."""
    if kind not in TYPES:
        raise ConfigError(unknown("kind of file", kind, TYPES))
    if figure is None:
        raise ConfigError("there is nothing to draw yet.")
    if kind == "json":
        return JSONResponse({"position": 0, "whole": figures.plain(figure)})
    if kind == "csv":
        data = csv.write(figure.table).encode()
    else:
        with _drawing:
            data = static.written(static.drawn(figure), kind)
    safe = "".join(char if char.isalnum() or char in "-_@" else "-" for char in name)
    headers = {"Content-Disposition": f'inline; filename="{safe}.{kind}"'}
    return Response(data, media_type=TYPES[kind], headers=headers)
