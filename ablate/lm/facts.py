"""What ablate asks of language models (`ablate.config.tasks.Facts`): sizes, costs, and checks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from ablate.config.config import Config
from ablate.lm.kinds import PAIRS
from ablate.lm.sections import TrainingConfig


def count_parameters(config: Config, *vocabulary: int) -> int:
    """Count the parameters of the model that a config describes."""
    from ablate.lm.model.assemble import count_parameters as counted

    return counted(config, *vocabulary)


def training_tokens(config: Config, num_train: int) -> int:
    """Count the training tokens of all epochs, as cut into batches."""
    if config.kind.reads == PAIRS:
        return config.training.epochs * num_train  # each target token once an epoch, in any batch
    training: TrainingConfig = config.sections["training"]
    rows = training.batch_size
    if training.batching == "circular":
        return training.epochs * training.circular_updates(num_train) * rows * training.window
    # A row of n tokens has n - 1 targets.
    return training.epochs * _steps(training, num_train // rows - 1) * rows


def _steps(training: TrainingConfig, targets: int) -> int:
    """Return the targets of a row that its windows train on."""
    if training.batching == "zaremba":  # whole windows only
        return max(0, targets // training.window * training.window)
    one_left = not training.variable_window and (targets - 1) % training.window == 0
    return max(0, targets - one_left)  # a window of a single target is left out


def operations(
    config: Config, vocabulary: int, source_vocabulary: int = 0, sentence: int = 0
) -> float:
    """Estimate the operations of a training token; of pairs, `sentence` is the mean length."""
    from ablate.lm.model.assemble import assemble
    from ablate.lm.model.operations import per_training_token

    # On the device "meta", the largest model takes no memory.
    assembly = assemble(config, vocabulary, "meta", source_vocabulary=source_vocabulary)
    training: Any = config.training
    steps = sentence or training.window
    own = assembly.loss, assembly.regularizers
    return per_training_token(assembly.model, *own, training, steps)


def check_stated(config: Config, stated: Collection[str]) -> None:
    """Refuse fields that an arm states for a part of its model that does not ask for them."""
    from ablate.lm.model.sites import check_stated as check

    check(config, stated)


def values_of_data(name: str, folder: str) -> dict[str, Any]:
    """Return the level of a corpus of trees; other texts are read as words."""
    from ablate.lm.data.texts import find_text

    return {"corpus.level": "tree"} if find_text(name, Path(folder)).level == "tree" else {}


def check_text(config: Config, folder: str, seed: int = 0) -> None:
    """Refuse a text or files that the config's evaluators cannot read, before anything trains."""
    from ablate.lm.data.corpus import open_corpus
    from ablate.lm.training.evaluation import check_text as check

    check(config, open_corpus(config.corpus, folder, seed))


def compiled() -> tuple[str, str, str]:
    """Compile the kernels; return whether they are used, by what they are built or why not, and
    what multiplies large matrices."""
    from ablate.lm.model.fast.product import multipliers
    from ablate.lm.model.native.library import library, load_library

    loaded, details = load_library()
    state = "yes" if library() else "off" if loaded else "no"
    return state, details, multipliers()
