"""Reading one text as a stream: windows of it, with the state carried from each to the next."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ablate.config.identity import Trial
from ablate.config.sections import TrainingConfig
from ablate.config.streams import Streams
from ablate.data.batches import (
    Window,
    batchify,
    rotated,
    spread,
    whole_windows,
    window_lengths,
)
from ablate.data.corpus import Corpus
from ablate.model.fast.precision import full
from ablate.model.flow import Pass, State
from ablate.model.language_model import LanguageModel
from ablate.trial.evaluation import rows_nll
from ablate.trial.updates import Part, Update


class Stream:
    """A `Reader` of a corpus, as rows side by side."""

    def __init__(self, trial: Trial, corpus: Corpus, streams: Streams) -> None:
        self.config: TrainingConfig = trial.config.sections["training"]
        self.corpus, self.streams, self.device = corpus, streams, trial.device
        self.train_rows = self._rows("train", self.config.batch_size)
        self.valid_rows = self._rows("valid", self.config.valid_batch_size)
        self.state: State = ()

    def _rows(self, split: str, rows: int) -> Tensor:
        """A split, cut into rows: a GPU gets all of it, once; a CPU maps the file, unless the rows
        are spread."""
        cut = spread if self.config.batching == "zaremba" else batchify
        return cut(self.corpus.stream(split), rows).to(self.device)

    @property
    def num_updates(self) -> int:
        return len(self.windows)

    @property
    def tokens_per_update(self) -> int:
        return self.config.batch_size * self.config.window

    def begin_epoch(self, epoch: int, model: LanguageModel) -> None:
        shuffles = self.config.partial_shuffle
        self.epoch_rows = self._shuffled(epoch) if shuffles else self.train_rows
        self.windows = self._cut_windows(epoch)
        self.state = model.initial_state(self.config.batch_size)

    def _shuffled(self, epoch: int) -> Tensor:
        """The training rows, each rotated by a number of steps of its own."""
        steps, rows = self.train_rows.shape
        generator = self.streams.generator("partial_shuffle", epoch)
        starts_B = torch.randint(steps, (rows,), generator=generator, device=generator.device)
        return rotated(self.train_rows, starts_B.to(self.train_rows.device))

    def _cut_windows(self, epoch: int) -> list[Window]:
        training = self.config
        if training.batching == "zaremba":
            return whole_windows(len(self.train_rows), training.window)
        rng = np.random.Generator(
            np.random.PCG64(self.streams.python("windows", epoch).getrandbits(63))
        )
        return window_lengths(
            rng,
            len(self.train_rows),
            training.window,
            training.variable_window,
            training.max_window_excess,
        )

    def update(self, number: int, model: LanguageModel) -> Update:
        """A window. The rate follows its drawn length."""
        training, window = self.config, self.windows[number]
        rows = self.epoch_rows[window.start : window.start + window.length + 1].to(torch.long)
        averaged = window.length if training.loss_reduction == "mean" else 1
        spans = torch.arange(rows.shape[1]).chunk(training.accumulate)
        return Update(
            parts=[self._part(rows, span, model) for span in spans],
            per_token=1 / averaged / training.batch_size,
            rate=window.drawn / training.window if training.variable_window else 1.0,
            ended=self._carry,
        )

    def _part(self, rows: Tensor, chosen: Tensor, model: LanguageModel) -> Part:
        span = slice(int(chosen[0]), int(chosen[-1]) + 1)
        inputs_TB, targets_TB = rows[:-1, span], rows[1:, span]
        state = tuple(tensor[:, span].contiguous() for tensor in self.state)
        return Part(
            share=len(chosen) / rows.shape[1],
            targets_N=targets_TB.reshape(-1),
            run=lambda masks: model(inputs_TB, state, masks),
        )

    def _carry(self, passes: list[Pass]) -> None:
        """The states after a window become those before the next."""
        after = zip(*(passed.state for passed in passes), strict=True)
        joined = (torch.cat(tensors, dim=1) for tensors in after)
        self.state = tuple(full(tensor.detach()) for tensor in joined)

    def valid_nll(self, model: LanguageModel) -> float:
        return rows_nll(model, self.valid_rows, self.config.valid_window)

    def saved(self) -> dict[str, Tensor]:
        return {f"state.{index}": tensor for index, tensor in enumerate(self.state)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.state = tuple(tensors[f"state.{index}"] for index in range(len(self.state)))
