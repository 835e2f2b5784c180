"""The contracts of encoders and attentions: widths, and sentences that do not see their filling."""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.lm.model.encoder_decoder import EncoderDecoder
from ablate.lm.model.flow import State
from ablate.lm.model.mixture import token_nll
from ablate.lm.model.sentences import PairBatch, forced, pair_batch
from ablate.lm.testing.subject import ROWS, RandomPairs, SmallModel, Subject, require


def loss_of_a_sentence_alone(subject: Subject) -> None:
    """A pair's loss does not depend on longer ones in its batch."""
    small = subject.small()
    together = _nll_by_row(small, torch.arange(ROWS))
    for row in range(ROWS):
        alone = _nll_by_row(small, torch.tensor([row]))[0]
        torch.testing.assert_close(together[row], alone)


def width_of_the_layers(subject: Subject) -> None:
    """The output is as wide as it says, and the decoder's layers are as wide as heads expect."""
    small = subject.small()
    model, passed = _model(small), small.run()
    # In the state, the memory and its mask are the last before the gate's part.
    memory = _begun(small)[-2 - len(model.gate.initial_state(1))]
    require(memory.shape[2] == model.encoder.width, f"vectors of {memory.shape[2]} units.")
    widths = tuple(layer.shape[2] for layer in passed.features.masked)
    require(widths == model.shapes.layers, f"layers of {widths}, not {model.shapes.layers} units.")


def source_matters(subject: Subject) -> None:
    """The written sentences depend on the sentences that are read."""
    small = subject.small()
    before = token_nll(small.run().mixture, small.targets)
    model = _model(small)
    # Other vectors are another source: of two vocabularies, the target's words stay the same.
    words = model.embedding if model.source is None else model.source
    for parameter in words.parameters():
        parameter.data.mul_(-1)
    after = token_nll(small.run().mixture, small.targets)
    require(not torch.allclose(before, after), "the loss is the same after another source.")


def step_by_step_is_at_once(subject: Subject) -> None:
    """Writing word by word gives the same probabilities as one pass over the target."""
    small = subject.small()
    batch, state, parts = _batch(small), _begun(small), []
    for ids_1B in batch.inputs_TB.split(1):
        passed = small.model(ids_1B, state)
        state = passed.state
        parts.append(passed.mixture.vectors_NJE)
    whole = small.model(batch.inputs_TB, _begun(small)).mixture.vectors_NJE
    torch.testing.assert_close(torch.cat(parts), whole)


def _nll_by_row(small: SmallModel, chosen_B: Tensor) -> list[Tensor]:
    source, target = RandomPairs().sentences("valid")
    batch = pair_batch(source, target, chosen_B, RandomPairs.eos, "cpu")
    nll_N = token_nll(forced(small.model, batch).mixture, batch.targets_N)
    rows_N = batch.kept_N % len(chosen_B)  # of indices into steps times rows
    return [nll_N[rows_N == row] for row in range(len(chosen_B))]


def _model(small: SmallModel) -> EncoderDecoder:
    if not isinstance(small.model, EncoderDecoder):
        raise AssertionError(f"{type(small.model).__name__} is not an encoder-decoder.")
    return small.model


def _batch(small: SmallModel) -> PairBatch:
    if small.batch is None:
        raise AssertionError("the small model reads no pairs.")
    return small.batch


def _begun(small: SmallModel) -> State:
    source = _batch(small).source
    return _model(small).begin(source.ids_SB, source.real_SB1)
