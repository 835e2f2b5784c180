"""A finished trial's model, put together again from its journal and the weights it left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.assemble import Assembly, assemble, assemble_over
from ablate.config import Config, resolve
from ablate.data.corpus import Corpus
from ablate.errors import CombinationError
from ablate.identity import Trial
from ablate.journal import read as read_journal
from ablate.store import Store
from ablate.train.checkpoint import read_weights


def finished(
    store: Store, trial_id: str, corpus: Corpus, device: str, values: Mapping[str, Any]
) -> Assembly:
    """The model of a finished trial; `values` are those of one that left no journal."""
    journal = read_journal(store, trial_id)
    bases = []
    if journal is not None:
        values, bases = journal.trial.values, journal.trial.parent_ids("base")
    assembly = over_bases(store, bases, resolve(values), corpus, device, values)
    assembly.model.load_state_dict(read_weights(store, trial_id))
    assembly.model.eval()
    return assembly


def over_bases(
    store: Store,
    bases: Sequence[str],
    config: Config,
    corpus: Corpus,
    device: str,
    values: Mapping[str, Any],
) -> Assembly:
    """A config's model: its own, or its gate over the finished models it builds on."""
    if not bases:
        return assemble(config, corpus.num_words, device, text=corpus)
    members = [finished(store, base, corpus, device, values).model for base in bases]
    return assemble_over(members, config, device, text=corpus)


def check_parents(trial: Trial, config: Config) -> None:
    """A gate that is trained alone stands over something finished, and what is needs a gate."""
    bases = trial.parent_ids("base")
    if config.training.only_gate and not bases and not trial.parent_ids("start"):
        raise CombinationError(
            "training.only_gate = true freezes everything but the gate, and the trial starts "
            "from no other trial's weights: the rest would stay as it was drawn. Allowed: a stage "
            "after the one that trains the rest, or training.only_gate = false."
        )
    if bases and config["gate"].name == "none":
        raise CombinationError(
            f"training on {len(bases)} finished models together trains a gate for all of them, "
            "and gate = 'none' leaves nothing to train. Allowed: a gate, or a stage that only "
            "evaluates them."
        )
