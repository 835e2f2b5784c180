"""Optuna's storage on a database server that may restart, or be out of connections for a while.

Every call is a transaction of its own, so a call that failed is retried until the server answers.
Repeating one that succeeded without a reply is harmless: an attribute or a value is set to the
same again, and a trial that was created twice lacks the attribute `ablate.index` and is marked as
FAIL when the search is resumed.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

PATIENCE_SECONDS = 120.0
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
FOR_GOOD = ("authentication failed", "does not exist", "permission denied", "no pg_hba.conf entry")
# What Optuna's cache in front of a database calls, besides public methods.
CALLED_BY_CACHE = ("_create_new_trial", "_get_trials", "_set_trial_param")


def with_retries(call: Callable[[], Any], patience: float = PATIENCE_SECONDS) -> Any:
    """Return the call's result, retrying until the database answers."""
    end, tries = time.monotonic() + patience, 0
    while True:
        try:
            return call()
        except UpdateFinishedTrialError:
            if tries == 0:
                raise
            return True  # an earlier attempt succeeded, and only its reply was lost
        except (DBAPIError, PoolTimeout, StorageInternalError) as error:
            if not passing(error) or time.monotonic() > end:
                raise
        time.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
        tries += 1


def passing(error: BaseException) -> bool:
    """Return whether it is the connection that failed, and not the request."""
    cause = error if isinstance(error, DBAPIError) else (error.__cause__ or error)
    if any(word in str(cause) for word in FOR_GOOD):
        return False
    lost = isinstance(cause, DBAPIError) and cause.connection_invalidated
    return lost or isinstance(cause, OperationalError | InterfaceError | PoolTimeout)


def _retried(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: RDBStorage, *args: Any, **options: Any) -> Any:
        return with_retries(lambda: method(self, *args, **options))

    return call


class RetryingStorage(RDBStorage):
    """Optuna's database storage, which waits for a server that is away for a while."""


for _name, _method in inspect.getmembers(RDBStorage, inspect.isfunction):
    if not _name.startswith("_") or _name in CALLED_BY_CACHE:
        setattr(RetryingStorage, _name, _retried(_method))
