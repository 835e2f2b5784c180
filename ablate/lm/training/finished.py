"""A finished trial's model, rebuilt from its journal and its saved weights."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.config.config import Config
from ablate.config.identity import Role, Trial
from ablate.errors import CombinationError
from ablate.lm.data.corpus import AnyCorpus
from ablate.lm.model.assemble import Assembly, assemble, assemble_over
from ablate.lm.model.language_model import LanguageModel
from ablate.store.journal import read as read_journal
from ablate.store.store import Store
from ablate.trial.checkpoint import read_weights


def finished(
    store: Store, trial_id: str, corpus: AnyCorpus, device: str, config: Config
) -> Assembly:
    """The model of a finished trial; `config` is used if it has no journal."""
    journal = read_journal(store, trial_id)
    bases = []
    if journal is not None:
        config, bases = journal.trial.config, journal.trial.parent_ids(Role.BASE)
    models = base_models(store, bases, corpus, device, config)
    assembly = assembled(config, models, corpus, device)
    # The saved weights have what only training uses: loaded first, and removed below.
    assembly.model.load_state_dict(read_weights(store, trial_id))
    if config.training.only_gate:  # what adapts and is masked in evaluation is what was trained
        assembly.model.train_only_gate()
    assembly.model.auxiliary.clear()
    assembly.model.eval()
    return assembly


def base_models(
    store: Store, bases: Sequence[str], corpus: AnyCorpus, device: str, config: Config
) -> list[LanguageModel]:
    """The finished models that a gate is trained over."""
    return [finished(store, base, corpus, device, config).model for base in bases]


def assembled(
    config: Config, bases: Sequence[LanguageModel], corpus: AnyCorpus, device: str
) -> Assembly:
    """A config's model: its own, or its gate over the finished models it builds on."""
    if not bases:
        words, read = corpus.num_words, corpus.num_source_words
        return assemble(config, words, device, text=corpus, source_vocabulary=read)
    return assemble_over(bases, config, device, text=corpus)


def check_parents(trial: Trial, config: Config) -> None:
    """Refuse to train only a gate over nothing trained, or finished models without a gate."""
    bases = trial.parent_ids(Role.BASE)
    if config.training.only_gate and not bases and not trial.parent_ids(Role.START):
        raise CombinationError(
            "training.only_gate = true freezes everything but the gate, and the trial does "
            "not start from another trial's weights: the rest would stay untrained. Instead: a "
            "stage after the one that trains the rest, or training.only_gate = false."
        )
    if bases and config["gate"].name == "none":
        raise CombinationError(
            f"training on {len(bases)} finished models together trains a gate for all of them, "
            "and gate = 'none' leaves nothing to train. Instead: a gate, or a stage that only "
            "evaluates them."
        )
