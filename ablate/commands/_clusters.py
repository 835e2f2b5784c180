"""Clusters by name, for `ablate study FILE --cluster NAME`: `clusters.toml` in the workspace.

[lab]
address = "10.0.0.5:6379"
store = "s3://bucket/folder"      # locations, unless the command names others
mlflow = "http://mlflow:5000"
searches = "postgresql+psycopg://searches@postgres/searches"
workers = 16

Keep secrets out of it: MLflow's login, the bucket's keys and Ray's token come from the environment,
a database's password from PGPASSWORD.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, unknown, wrong_value

FILE = "clusters.toml"
FIELDS = {"address": str, "store": str, "mlflow": str, "searches": str, "workers": int}
ADDRESSES = ("auto", "local")


def is_address(text: str) -> bool:
    """Return whether a text is an address of Ray, and not a cluster's name."""
    return text in ADDRESSES or ":" in text


def named(name: str, folder: Path) -> dict[str, Any]:
    """Return the settings of a cluster, at least its address."""
    if is_address(name):
        return {"address": name}
    file = folder / FILE
    known = _read(file)
    if name not in known:
        here = [*known, "HOST:PORT", *ADDRESSES]
        raise ConfigError(unknown("cluster", name, here, f"--cluster; names are in {file}"))
    return _checked(known[name], f"{file}, [{name}]")


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}  # the error names the file that may be written
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of too many brackets
        raise ConfigError(f"{file}: {error}.") from error


def _checked(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict) or "address" not in values:
        raise ConfigError(f"{where}: a cluster needs an address (HOST:PORT).")
    for field, value in values.items():
        if field not in FIELDS:
            raise ConfigError(unknown("field", field, list(FIELDS), where))
        if type(value) is not FIELDS[field]:  # `true` is an int to `isinstance`
            raise ConfigError(wrong_value(field, value, f"a {FIELDS[field].__name__}", where))
    return dict(values)
