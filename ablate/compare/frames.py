"""A table of values as a data frame of pandas or polars, whichever is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ablate.compare.formats import Table
from ablate.errors import ConfigError, MissingDependency, needs, unknown

LIBRARIES = ("pandas", "polars")


def frame(table: Table, library: str = "pandas") -> Any:
    """Return a data frame with a row for each row; a column without any value has missing ones."""
    if library not in LIBRARIES:
        raise ConfigError(unknown("library", library, LIBRARIES, "to_frame"))
    try:
        module = import_module(library)
    except ModuleNotFoundError:
        raise MissingDependency(needs("to_frame needs", library)) from None
    columns = dict(zip(table.headings, zip(*table.rows, strict=True), strict=False))
    values = {name: list(columns.get(name, ())) for name in table.headings}
    # By default, polars takes a column's type from its first hundred rows alone.
    more = {"infer_schema_length": None} if library == "polars" else {}
    return module.DataFrame(values, **more)
