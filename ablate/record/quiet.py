"""MLflow configured: short timeouts, no telemetry, no pickles, and no output on the screen.

Call `load` before anything else imports MLflow. What a user has set stays, except that pickles are
always off. We do the retries (`background`), since a request that is sent twice may make two runs.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from ablate.errors import MissingDependency, needs

PREFERRED = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "8",  # seconds to connect, and again between bytes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",  # else a file that is replaced stays open
    "GIT_PYTHON_REFRESH": "quiet",
}
FORCED = {"MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false"}
LOGGERS = ("mlflow", "alembic", "sqlalchemy", "urllib3.connectionpool", "git")
_lock = threading.RLock()  # `load` is also called while warnings are silent


def load(name: str) -> Any:
    """Import a module of MLflow or SQLAlchemy without any output."""
    for variable, value in PREFERRED.items():
        os.environ.setdefault(variable, value)
    os.environ.update(FORCED)
    for logger in map(logging.getLogger, LOGGERS):
        if logger.level in (logging.NOTSET, logging.INFO):  # INFO is what `import mlflow` sets
            logger.setLevel(logging.CRITICAL)
    try:
        with silent_warnings():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("mlflow", "sqlalchemy"):
            raise
        raise MissingDependency(needs("records need", error.name)) from error


@contextlib.contextmanager
def silent_warnings() -> Iterator[None]:
    """Silence warnings: MLflow 3.17 uses what SQLAlchemy 2.1, pydantic and others deprecate.

    One thread at a time: `catch_warnings` undoes what another thread has set.
    """
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
