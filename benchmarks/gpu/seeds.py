"""Seeds of a small model trained as one batch of models (`Scale(fuse="seeds")`), or one by one.

Both sides train as a study does, on a made-up text. Only torch and numpy are needed: the packages
by which a study reads and writes files get stand-ins, since here no file is read or written.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from benchmarks.gpu import update
from benchmarks.gpu.case import CLOSE, Sides, checked

if TYPE_CHECKING:
    from ablate.trial.training.together import Together
    from ablate.trial.training.training import Training

OF_FILES = ("pyarrow", "pyarrow.compute", "safetensors", "safetensors.torch")
ROWS, STEPS, WINDOWS = 20, 35, 4
VALUES = {
    **update.SMALL,
    "training.batch_size": ROWS,
    "training.window": STEPS,
    "training.epochs": 1,
    "training.clip": update.CLIP,
}


def sides(device: str, num_seeds: int, words: int) -> Sides:
    """An update of every seed: of all in one batch, and of one after another."""
    ids = update.text_of(words, STEPS * WINDOWS, ROWS, "cpu").T.flatten().to(torch.int32)
    known = {"num_words": words, "num_source_words": None, "separators": ()}
    text = SimpleNamespace(**known, stream=lambda split: ids)
    _import_stand_ins()
    from ablate.trial.training.together import Together

    batch, alone = ([_training(device, seed, text) for seed in range(num_seeds)] for _ in range(2))
    ours, theirs = partial(at_once, Together(), batch), partial(in_turn, alone)
    checked(ours, theirs, CLOSE)
    agreed = f"the losses agree to {CLOSE:g}, and the gradients as a study's batch has to"
    return Sides(ours=ours, theirs=theirs, notes=(agreed,))


def at_once(together: Together, trainings: Sequence[Training]) -> torch.Tensor:
    """An update in one batch; the seeds' losses."""
    together.advance(trainings, 0.0)
    for each in trainings:
        if each.beside is not None and each.beside.error is not None:
            raise each.beside.error
        each.beside = None
    return _losses(trainings)


def in_turn(trainings: Sequence[Training]) -> torch.Tensor:
    """An update of one seed after another; their losses."""
    for each in trainings:
        each.train_next()
    return _losses(trainings)


def _losses(trainings: Sequence[Training]) -> torch.Tensor:
    """The losses of an update. Then each epoch begins again, so that it never ends."""
    losses = torch.stack([each.nll_sum / each.num_tokens for each in trainings])
    for each in trainings:
        each._begin_epoch()
    return losses


def _import_stand_ins() -> None:
    """Import the packages of files, and a stand-in for each that is not installed."""
    for name in OF_FILES:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            sys.modules[name] = mock.MagicMock()


def _training(device: str, seed: int, text: Any) -> Training:
    from ablate.trial.training import training

    config = resolve(VALUES)
    trial = make_trial(config, values=VALUES, seed=seed, corpus_digest="", device=device)
    with mock.patch.object(training, "open_corpus", lambda *given: text):
        return training.Training(trial, mock.MagicMock(processes=1))
