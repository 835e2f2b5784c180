"""The stored log-probability of every token of a trial, and the later reads of its test split.

trials/<id>/tokens/<split>.arrow   position in the split and log p of every token but the first; of
                                   pairs, of every token of the targets
trials/<id>/readings.json          every read of the test split after the study's own
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ablate.errors import TrialError
from ablate.store.arrow import as_arrow, read_column, write_columns
from ablate.store.store import Store, damaged, remake

TOKENS = 20  # of a sentence, about
FEWEST_RUNS, MOST_RUNS = 6, 100  # 100 take a kilobyte
DIGITS = 6  # of nats: single precision has no more


def write(store: Store, trial_id: str, split: str, log_probs: np.ndarray) -> None:
    """Store a split's log-probabilities, in single precision."""
    import pyarrow as pa

    positions = as_arrow(np.arange(1, len(log_probs) + 1, dtype=np.int32), pa.int32())
    values = as_arrow(np.ascontiguousarray(log_probs, np.float32), pa.float32())
    write_columns(store, _key(trial_id, split), {"position": positions, "log_prob": values})


def kept(store: Store, trial_id: str, split: str) -> bool:
    """Return whether a trial saved log-probabilities of a split."""
    return store.exists(_key(trial_id, split))


def read(store: Store, trial_id: str, split: str, num_tokens: int) -> np.ndarray:
    """log p of every judged token of a split; there must be `num_tokens` of them."""
    import pyarrow as pa

    column = read_column(store, _key(trial_id, split), "log_prob", pa.float32())
    if column is None:
        raise TrialError(
            f"the store {store.uri} has no log-probabilities of {split} of trial {trial_id}. "
            "Trials save those of the splits that they read token by token: valid, and test in an "
            f"arm's final trials. If they were lost: {remake(trial_id)}"
        )
    values = _array(column)
    if len(values) != num_tokens:
        raise TrialError(
            f"trial {trial_id} saved {len(values)} log-probabilities of {split}, which has "
            f"{num_tokens} evaluated tokens: they cannot be matched token by token."
        )
    return values


def deviations(log_probs: np.ndarray) -> tuple[float, ...] | None:
    """By how much the loss of each run of tokens is above that of all, for `Outcome.deviations`.

    Neighbours are alike, so there are as many runs as the square root of the number of sentences,
    at TOKENS a sentence. None of a text that is too short to say how texts differ.
    """
    num = min(MOST_RUNS, round(math.sqrt(len(log_probs) / TOKENS)))
    if num < FEWEST_RUNS:
        return None
    above = num / len(log_probs) * (log_probs.mean() - log_probs)
    return tuple(round(float(run.sum()), DIGITS) for run in np.array_split(above, num))


def _array(column: Any) -> np.ndarray:
    # to_numpy would import pandas
    values = np.frombuffer(column.buffers()[1], np.float32, len(column), 4 * column.offset)
    return values.astype(np.float64)


def remember_reading(store: Store, trial_id: str, by: str, others: Sequence[str] = ()) -> int:
    """Record another read of the test split; return the number of reads so far."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    entry = {"at": now, "split": "test", "by": by, "with": list(others)}
    with store.locked(f"trials/{trial_id}"):
        readings = [*_readings(store, trial_id), entry]
        store.write_json(_readings_key(trial_id), {"readings": readings})
    return len(readings)


def num_readings(store: Store, trial_id: str) -> int:
    """Return how often a trial's test split has been read."""
    return len(_readings(store, trial_id))


def _readings(store: Store, trial_id: str) -> list[dict]:
    plain = store.read_json(_readings_key(trial_id), bare="readings") or {"readings": []}
    readings = plain.get("readings")
    if not isinstance(readings, list):
        raise damaged(store, _readings_key(trial_id), "it has no list of readings")
    return readings


def _readings_key(trial_id: str) -> str:
    return f"trials/{trial_id}/readings.json"


def _key(trial_id: str, split: str) -> str:
    return f"trials/{trial_id}/tokens/{split}.arrow"
