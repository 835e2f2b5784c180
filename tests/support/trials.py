"""Trials of plain values, trained to their end in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablate.config.identity import Trial, make_trial
from ablate.config.resolve import resolve
from ablate.lm.data.corpus import corpus_digest
from ablate.store.journal import Journal
from ablate.store.store import Store
from ablate.trial.run import TrialRun


def made(values: Mapping[str, Any], data: str, *, seed: int = 1, **more: Any) -> Trial:
    """The trial of these values, on the text that is encoded in `data`."""
    config = resolve(values)
    digest = corpus_digest(config.corpus, data)
    return make_trial(config, values=values, seed=seed, corpus_digest=digest, **more)


def finish(trial: Trial, store: Store, data: str) -> Journal:
    """Train a trial, or go on with it, to its end."""
    return ended(TrialRun(trial, store, data))


def ended(run: TrialRun) -> Journal:
    while not run.advance(60):
        pass
    return run.journal
