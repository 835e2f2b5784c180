"""Reading one text as a stream: windows of it, with the state carried from each to the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ablate.config.identity import Trial
from ablate.config.streams import Streams
from ablate.errors import CorpusError
from ablate.lm.data.batches import (
    Window,
    batchify,
    circular_starts,
    circular_window,
    rotated,
    spread,
    whole_windows,
    window_lengths,
)
from ablate.lm.data.corpus import Corpus
from ablate.lm.model.fast.precision import full
from ablate.lm.model.flow import State
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.sections import TrainingConfig
from ablate.lm.training.evaluation import rows_nll
from ablate.lm.training.updates import Part, Update


class Stream:
    """A `Reader` of a corpus, as rows side by side."""

    def __init__(self, trial: Trial, corpus: Corpus, streams: Streams) -> None:
        self.config: TrainingConfig = trial.config.sections["training"]
        self.corpus, self.streams, self.device = corpus, streams, trial.device
        self.train_rows = self._rows("train", self.config.batch_size)
        self.valid_rows = self._rows("valid", self.config.valid_batch_size)
        self.state: State = ()

    def _rows(self, split: str, rows: int) -> Tensor:
        """A split, cut into rows: a GPU gets the whole split, once; a CPU maps the file, unless the
        rows are spread."""
        cut = spread if self.config.batching == "zaremba" else batchify
        return cut(self.corpus.stream(split), rows).to(self.device)

    @property
    def num_updates(self) -> int:
        """The number of windows in the epoch."""
        return len(self.windows)

    def updates_in(self, epoch: int) -> int:
        """Return the number of windows in an epoch; where lengths are drawn, epochs differ."""
        return len(self._cut_windows(epoch))

    @property
    def steps(self) -> int:
        """The tokens of a window."""
        return self.config.window

    @property
    def tokens_per_update(self) -> int:
        """The tokens of a window of the usual length."""
        return self.config.batch_size * self.config.window

    def begin_epoch(self, epoch: int, model: LanguageModel) -> None:
        """Cut the epoch's windows, and start from the initial state."""
        shuffles = self.config.partial_shuffle
        self.epoch, self.epoch_rows = epoch, self._shuffled(epoch) if shuffles else self.train_rows
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
        cut = window_lengths(
            rng,
            len(self.train_rows),
            training.window,
            training.variable_window,
            training.max_window_excess,
        )
        # AWD's loop stops two steps before the end: rows of two tokens have no window.
        if not cut:
            raise CorpusError(
                f"rows of {len(self.train_rows)} tokens are too short to train on: they need at "
                "least 3. Instead: a smaller training.batch_size, or more text."
            )
        return cut

    def update(self, number: int, model: LanguageModel) -> Update:
        """A window. The rate follows its drawn length."""
        training, window = self.config, self.windows[number]
        rows = self._tokens(window)
        self._reset(number, model)
        averaged = window.length if training.loss_reduction == "mean" else 1  # rows: always a mean
        return Update(
            parts=[self._part(rows, span, model) for span in self._spans()],
            per_token=1 / averaged / training.batch_size,
            rate=window.drawn / training.window if training.variable_window else 1.0,
            ended=self._carry,
            num_tokens=window.length * training.batch_size,
        )

    def _tokens(self, window: Window) -> Tensor:
        """The inputs of a window and the last target, [T + 1, B]."""
        return self.epoch_rows[window.start : window.start + window.length + 1].to(torch.long)

    def _reset(self, number: int, model: LanguageModel) -> None:
        """Reset the states of random rows: whole rows, in all layers (Melis et al. 2018, lamb)."""
        if not self.config.state_reset:
            return
        rows = self.config.batch_size
        generator = self.streams.generator(f"state_reset/{self.epoch}", number)
        reset_B = torch.rand(rows, generator=generator, device=generator.device)
        reset_1B = (reset_B < self.config.state_reset)[None].to(self.device)
        self.state = tuple(
            torch.where(reset_1B.view(1, rows, *[1] * (old.dim() - 2)), initial, old)
            for initial, old in zip(model.initial_state(rows), self.state, strict=True)
        )

    def _spans(self) -> list[slice]:
        """The columns of each part of a window."""
        parts = torch.arange(self.config.batch_size).chunk(self.config.accumulate)
        return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]

    def _part(self, rows: Tensor, span: slice, model: LanguageModel) -> Part:
        inputs_TB, targets_TB = rows[:-1, span], rows[1:, span]
        state = tuple(tensor[:, span].contiguous() for tensor in self.state)
        return Part(
            share=(span.stop - span.start) / rows.shape[1],
            targets_N=targets_TB.reshape(-1),
            run=partial(model, inputs_TB, state),
            read=(inputs_TB, *state),
        )

    def _carry(self, states: list[State]) -> None:
        """The states after a window become those before the next."""
        after = zip(*states, strict=True)
        joined = (torch.cat(tensors, dim=1) for tensors in after)
        # Detached: gradients end at a window's border. In float32, also under bfloat16 products.
        self.state = tuple(full(tensor.detach()) for tensor in joined)

    def valid_nll(self, model: LanguageModel) -> float:
        """Return the model's loss on valid, in nats per token."""
        own = self.config
        return rows_nll(model, self.valid_rows, own.valid_window, own.valid_stride)

    def saved(self) -> dict[str, Tensor]:
        """Return the state that the next window starts from."""
        return {f"state.{index}": tensor for index, tensor in enumerate(self.state)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Start the next window from a saved state."""
        self.state = tuple(tensors[f"state.{index}"] for index in range(len(self.state)))


class CircularStream(Stream):
    """A stream each of whose rows reads the whole text in a circle, through all epochs."""

    def __init__(self, trial: Trial, corpus: Corpus, streams: Streams) -> None:
        super().__init__(trial, corpus, streams)
        text_S, rows = corpus.stream("train"), self.config.batch_size
        shift = streams.python("circular").random()
        self.starts_B = circular_starts(text_S, rows, corpus.eos, shift).to(self.device)
        self.text_S = text_S.to(self.device)

    def begin_epoch(self, epoch: int, model: LanguageModel) -> None:
        """Go on where the epoch before ended, with the states carried over."""
        updates = self.updates_in(epoch)
        steps, self.epoch = self.config.window, epoch
        starts = (steps * (epoch * updates + number) for number in range(updates))
        self.windows = [Window(start, steps, steps) for start in starts]
        # A restored trial has its states already, and later epochs those of the epoch before.
        self.state = self.state or model.initial_state(self.config.batch_size)

    def updates_in(self, epoch: int) -> int:
        """Return the number of windows in an epoch, which is the same for all."""
        return self.config.circular_updates(len(self.text_S))

    def _tokens(self, window: Window) -> Tensor:
        return circular_window(self.text_S, self.starts_B, window.start, window.length)
