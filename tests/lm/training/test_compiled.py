"""Compiled training computes what eager training computes, or is eager and says why.

No machine code is made here, as that takes a minute. One test lets torch follow the code, which is
where a compiler fails; the others take the function as it is.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ablate.config.merge import merge
from ablate.errors import TrialError
from ablate.lm.training import compiled
from ablate.lm.training.training import Training
from ablate.store import journal as journals
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.task import Place
from tests.support import trials

FOLLOWED, AS_IT_IS = {"backend": "eager"}, {"disable": True}
SMALL = {
    "corpus.name": "grammar",
    "corpus.train_tokens": 600,
    "corpus.eval_tokens": 200,
    "embedding.size": 8,
    "backbone": "transformer",
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "backbone.heads": 2,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 0.5,
    "training.epochs": 2,
    "training.batching": "zaremba",
    "training.batch_size": 4,
    "training.window": 20,
    "regularizer.dropout.output": 0.2,
}
MANY_MASKS = {
    "backbone": "lstm",
    "backbone.heads": None,
    "head": "doc",
    "head.experts": [1, 1],
    "corpus.train_tokens": 2000,
    "training.batching": "awd",
    "training.variable_window": True,
    "training.accumulate": 2,
    "regularizer.weight_drop.rate": 0.3,
    "regularizer.embedding_dropout.rate": 0.1,
    "regularizer.variational_dropout.hidden": 0.2,
    "regularizer.variational_dropout.latent": 0.2,
    "regularizer.temporal_activation_regularization.beta": 1.0,
}


@pytest.fixture(autouse=True)
def as_it_is(monkeypatch):
    monkeypatch.setattr(compiled, "BACKEND", AS_IT_IS)


def trial_of(data: str, changes=None, how="inductor"):
    values = {k: v for k, v in merge(SMALL, changes or {}).items() if v is not None}
    return trials.made(values, data, compile=how)


def trained(trial, tmp_path, data: str, updates: int = 5, prepare=None) -> Training:
    """After some updates; those of a short epoch come again."""
    training = Training(trial, Place(Store(tmp_path / "store"), data))
    if prepare is not None:
        prepare(training.model)
    for number in range(updates):
        number %= training.reader.num_updates
        training._train(training.reader.update(number, training.model))
    return training


def assert_same_bits(one: Training, other: Training) -> None:
    tensors, others = one.saved()[0], other.saved()[0]
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)


def test_torch_follows_the_code_and_a_killed_trial_goes_on_compiled(monkeypatch, tmp_path, data):
    trial = trial_of(data)
    eager = trials.finish(replace(trial, compile="off"), Store(tmp_path / "eager"), data)
    store = Store(tmp_path / "compiled")
    run = TrialRun(trial, store, data)
    for _ in range(3):
        run.advance(0)  # an update each
    run.save()
    monkeypatch.setattr(compiled, "BACKEND", FOLLOWED)
    trials.ended(TrialRun(trial, store, data))
    journal = journals.read(store, trial.id)
    by = f"compiled: inductor, torch {torch.__version__}"
    assert [attempt.computed_by[-1] for attempt in journal.attempts] == [by, by]
    assert journal.not_compiled is None and journal.trial.compile == "inductor"
    assert journal.computed_by == eager.computed_by | {journals.COMPILED}
    assert journal.metrics["test_nll"] == pytest.approx(eager.metrics["test_nll"], rel=1e-5)
    for mine, other in zip(journal.epochs, eager.epochs, strict=True):
        assert mine.metrics["train_nll"] == pytest.approx(other.metrics["train_nll"], rel=1e-5)


def test_masks_that_are_drawn_beforehand_are_the_same(tmp_path, data):
    training = trained(trial_of(data, MANY_MASKS), tmp_path, data, 12)
    assert training.not_compiled is None
    assert 0 < training.compiled.updates < 11  # but not the first of each length
    assert_same_bits(training, trained(trial_of(data, MANY_MASKS, "off"), tmp_path, data, 12))


def broken(self, run, targets_N, masks):
    state, nll, penalties = self._forward(
        compiled.Part(share=1.0, targets_N=targets_N, run=run),
        compiled.DrawnMasks(streams=None, update=None, masks=list(masks)),
    )
    return state, nll * 1.001, penalties


WHOLE = compiled.Compiled._whole


def breaks(self, *arguments):
    WHOLE(self, *arguments)  # which a module may count in a buffer
    torch.rand(1)  # what the eager code must not notice
    raise RuntimeError("no compiler\n at all")


NCE = {"loss": "nce", "loss.noise": 4}


@pytest.mark.parametrize(
    ("changes", "whole", "why"),
    [
        ({}, broken, "compiled and eager loss differ by 1.0e-03 of their size, and 0.0001"),
        ({}, breaks, "RuntimeError: no compiler"),
        ({}, None, "Invalid backend: 'none'"),
        (NCE, WHOLE, "'nce' is drawn inside the forward pass"),
    ],
)
def test_what_fails_is_eager_to_the_bit_and_says_why(
    monkeypatch, tmp_path, data, changes, whole, why
):
    if whole is None:
        monkeypatch.setattr(compiled, "BACKEND", {"backend": "none"})
    else:
        monkeypatch.setattr(compiled.Compiled, "_whole", whole)
    training = trained(trial_of(data, changes), tmp_path, data)
    assert why in training.not_compiled
    assert training.compiled.updates == 0
    assert all(way.startswith(("kernels: ", "torch: ")) for way in training.computed_by)
    assert_same_bits(training, trained(trial_of(data, changes, "off"), tmp_path, data))


def counts_windows(model) -> None:
    """Count them in two buffers, one changed in place and one replaced, as modules of users do."""
    model.register_buffer("in_place", torch.zeros(()))
    model.register_buffer("replaced", torch.zeros(()))

    def count(module, given) -> None:
        module.in_place += 1
        module.replaced = module.replaced + 1

    model.register_forward_pre_hook(count)


@pytest.mark.parametrize("whole", [WHOLE, broken, breaks])
def test_a_window_that_is_computed_twice_counts_once_in_buffers(monkeypatch, tmp_path, data, whole):
    monkeypatch.setattr(compiled.Compiled, "_whole", whole)
    model = trained(trial_of(data), tmp_path, data, prepare=counts_windows).model
    assert (model.in_place, model.replaced) == (5, 5)


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"training.batch_size": 1}, 1),
        ({"training.batch_size": 1, "training.window": 1}, 1),
        ({"training.batch_size": 3, "training.accumulate": 2}, 2),  # two rows, and one
    ],
    ids=["one row", "one token", "parts of two rows and one"],
)
def test_the_smallest_batches_are_compiled_once_for_each_shape(
    monkeypatch, tmp_path, data, changes, most
):
    made = []

    def noted(graph, inputs):
        made.append(graph)
        return graph.forward

    monkeypatch.setattr(compiled, "BACKEND", {"backend": noted})
    training = trained(trial_of(data, changes), tmp_path, data)
    assert (training.not_compiled, training.compiled.updates) == (None, 4)
    assert 0 < len(made) <= most
    assert_same_bits(training, trained(trial_of(data, changes, "off"), tmp_path, data))


def test_a_window_that_draws_other_masks_ends_the_trial_with_an_error(monkeypatch, tmp_path, data):
    training = trained(trial_of(data), tmp_path, data, 1)
    monkeypatch.setattr(training.regularizers[0], "rates", {"output": 0.3})
    with pytest.raises(TrialError, match=r"draw different masks.*Instead: compile=\"off\""):
        training._train(training.reader.update(1, training.model))
