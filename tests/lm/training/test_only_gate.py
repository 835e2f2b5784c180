"""A gate trained alone: over a frozen model, and over several as one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ablate.config.identity import Parent, Trial
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.config.tasks import EVALUATION
from ablate.errors import CombinationError
from ablate.lm.components.gate.iog import GateMatrix
from ablate.lm.model.assemble import assemble, assemble_over
from ablate.lm.model.ensemble import mean_mixture
from ablate.lm.model.flow import Mixture
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.model.mixture import log_probs
from ablate.lm.model.reading import stream_log_probs
from ablate.lm.model.regularizer import Regularizer
from ablate.lm.training.training import Training
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.checkpoint import read_weights
from ablate.trial.run import TrialRun
from ablate.trial.task import Place
from tests.support import places, small_studies, trials

BASE = {
    **small_studies.BASE,
    "corpus.train_tokens": 2000,
    "corpus.eval_tokens": 300,
    "optimizer": "adam",
    "optimizer.learning_rate": 0.01,
    "training.epochs": 2,
    "training.batch_size": 4,
    "training.window": 50,
    "regularizer.weight_drop.rate": 0.3,
    "regularizer.embedding_dropout.rate": 0.1,
    "regularizer.variational_dropout.input": 0.2,
    "regularizer.variational_dropout.output": 0.2,
    "regularizer.activation_regularization.alpha": 2.0,
}
GATE = {"gate": "iog", "gate.units": 6, "training.only_gate": True, "training.epochs": 3}
OTHER = {"head": "mos", "head.experts": 2, "backbone.units": 12}


def trial_of(data: str, changes=None, seed: int = 1, **more) -> Trial:
    return trials.made(merge(BASE, changes or {}), data, seed=seed, **more)


def finish(trial: Trial, store: Store, data: str, *, stop_after: int = -1) -> journals.Journal:
    """Run a trial to its end; after some slices of one window it restarts from its checkpoint."""
    run = TrialRun(trial, store, data)
    for _ in range(stop_after):
        run.advance(0)
    if stop_after > 0:
        run.save()
        run = TrialRun(trial, store, data)
    return trials.ended(run)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def base(store, data) -> Trial:
    trial = trial_of(data)
    assert finish(trial, store, data).status == Status.COMPLETED
    return trial


@pytest.fixture(scope="module")
def other(store, data) -> Trial:
    trial = trial_of(data, OTHER, seed=2)
    assert finish(trial, store, data).status == Status.COMPLETED
    return trial


def over(base: Trial, data: str, changes=None, **more) -> Trial:
    return trial_of(data, {**GATE, **(changes or {})}, parents=(Parent("start", base.id),), **more)


@pytest.fixture
def gate_training(base, store, data) -> Training:
    return Training(over(base, data), Place(store, data))


def test_the_base_stays_as_it_was_to_the_bit_and_the_gate_learns(base, store, data):
    trial = over(base, data)
    journal = finish(trial, store, data)
    before, after = read_weights(store, base.id), read_weights(store, trial.id)
    assert {name for name in after if name not in before} == {
        "gate.embedding.weight",
        "gate.output.weight",
        "gate.output.bias",
    }
    assert all(torch.equal(after[name], before[name]) for name in before)
    start = Training(trial, Place(store, data)).model.state_dict()
    assert all(not torch.equal(after[n], start[n]) for n in after if n not in before)
    history = [epoch.metrics["valid_nll"] for epoch in journal.epochs]
    assert history == sorted(history, reverse=True)
    assert history[-1] < history[0]


def test_the_base_runs_without_masks_and_the_gate_with_its_own(gate_training):
    model, rows = gate_training.model, gate_training.reader.train_rows[:20].long()
    state = model.initial_state(rows.shape[1])
    masks = Masks(gate_training.regularizers, Chance(gate_training.streams, 0))
    assert len(gate_training.regularizers) == 4
    trained, plain = model(rows, state, masks), model(rows, state)
    assert torch.equal(trained.mixture.vectors_NJE, plain.mixture.vectors_NJE)
    assert torch.equal(trained.features.raw[0], plain.features.raw[0])
    ours, theirs = trained.mixture.gate.vectors_NG, plain.mixture.gate.vectors_NG
    dropped = ours == 0
    assert 0.3 < dropped.float().mean() < 0.7
    torch.testing.assert_close(ours[~dropped], 2 * theirs[~dropped])


def test_only_the_gate_is_given_gradients_and_moved_by_projections(gate_training):
    class Halve(Regularizer):
        def project(self, model):
            for parameter in model.parameters():
                parameter.data.mul_(0.5)

    gate_training.regularizers = (*gate_training.regularizers[:-1], Halve())
    before = {n: p.detach().clone() for n, p in gate_training.model.named_parameters()}
    gate_training.model.zero_grad = lambda set_to_none=True: None
    gate_training.advance(0)
    for name, parameter in gate_training.model.named_parameters():
        of_gate = name.startswith("gate.")
        assert (parameter.grad is not None) == of_gate
        assert torch.equal(parameter, before[name]) != of_gate


@pytest.mark.parametrize("gate", ["iog_hidden", "iog_lstm"])
def test_it_goes_on_from_a_checkpoint_to_the_same_bits(base, store, data, gate, tmp_path):
    trial = over(base, data, {"gate": gate, "training.epochs": 2})
    copy = Store(tmp_path)
    for key in (f"trials/{base.id}/weights.safetensors", journals.key(base.id)):
        copy.write(key, store.read(key))
    undisturbed = finish(trial, store, data)
    interrupted = finish(trial, copy, data, stop_after=13)
    assert undisturbed.status == Status.COMPLETED
    assert len(interrupted.attempts) == 2
    assert interrupted.outcome == undisturbed.outcome


def test_a_gate_alone_needs_a_gate(data):
    with pytest.raises(CombinationError, match=r"gate = 'none'.*iog, iog_hidden, iog_lstm"):
        assemble(resolve({**BASE, "training.only_gate": True}), 50)


def test_a_gate_alone_needs_something_to_stand_over(data, store):
    journal = finish(trial_of(data, GATE), store, data)
    assert journal.status == Status.FAILED
    assert "does not start from another trial's weights" in journal.outcome.reason


# Several models under one gate.


def loaded(store, data, *trials):
    models = [Training(trial, Place(store, data)).model for trial in trials]
    for model, trial in zip(models, trials, strict=True):
        model.load_state_dict(read_weights(store, trial.id))
    return models


def test_several_models_under_no_gate_are_the_ensemble(store, data, base, other):
    """Of one component and of two, of 8 and of 12 units."""
    members = [model.double() for model in loaded(store, data, base, other)]
    stream = torch.arange(200) % 50
    each = [stream_log_probs(model, stream, 1, 30) for model in members]
    model = assemble_over(members, resolve(BASE)).model
    found = stream_log_probs(model, stream, 1, 30)
    np.testing.assert_allclose(found, np.logaddexp(*each) - math.log(2), rtol=1e-9, atol=1e-9)
    assert np.abs(each[0] - each[1]).max() > 0.1


def test_one_gate_for_all_is_the_reference(golden_iog):
    vectors = golden_iog
    identity = torch.eye(17, dtype=torch.float64)
    members = [
        Mixture(vectors_NJE=s[:, None], log_prior_NJ=None, weight_VE=identity, bias_V=None)
        for s in vectors["s"]
    ]
    gate = GateMatrix(17, 4, 0.1).double()
    gate.weight.data.copy_(vectors["W_g"])
    gate.bias.data.copy_(vectors["b_g"])
    mixture = mean_mixture(members)
    signal = gate(vectors["E_g"][vectors["x"]][:, None])
    p_NV = log_probs(Mixture(**{**mixture.__dict__, "gate": signal})).exp()
    torch.testing.assert_close(p_NV, vectors["prob_ensemble"], rtol=1e-9, atol=1e-12)


@pytest.fixture
def golden_iog():
    path = places.VECTORS / "iog_reference.npz"
    with np.load(path) as arrays:
        return {key: torch.from_numpy(np.array(arrays[key])) for key in arrays.files}


@pytest.mark.parametrize("gate", ["iog", "iog_hidden", "iog_lstm"])
def test_the_members_may_have_biases_and_widths_of_their_own(store, data, base, other, gate):
    """Each member's gated softmaxes, then their mean (Eq. 9)."""
    members = [model.double() for model in loaded(store, data, base, other)]
    together = assemble_over(members, resolve({**BASE, **GATE, "gate": gate})).model.double()
    together.initialize(Streams(1))
    for parameter in together.gate.parameters():
        parameter.data.mul_(10)
    members[0].head.decoder.bias.data.uniform_(-1, 1)
    ids_TB = torch.arange(24).view(12, 2)
    passed = together(ids_TB, together.initial_state(2))
    expected = 0
    for member in members:
        mixture = member(ids_TB, member.initial_state(2)).mixture
        gated = Mixture(**{**mixture.__dict__, "gate": passed.mixture.gate})
        expected = expected + log_probs(gated).exp() / 2
    torch.testing.assert_close(log_probs(passed.mixture).exp(), expected, rtol=1e-9, atol=1e-12)
    second = together(ids_TB[6:], together(ids_TB[:6], together.initial_state(2)).state)
    torch.testing.assert_close(log_probs(second.mixture).exp(), expected[12:])


@pytest.fixture(scope="module")
def joint(store, data, base, other) -> Trial:
    parents = (Parent("base", base.id), Parent("base", other.id))
    trial = trial_of(data, GATE, parents=parents)
    assert finish(trial, store, data).status == Status.COMPLETED
    return trial


def test_a_gate_over_several_learns_and_keeps_itself_alone(store, data, joint, base, other):
    journal = journals.read(store, joint.id)
    history = [epoch.metrics["valid_nll"] for epoch in journal.epochs]
    assert history[-1] < history[0]
    kept = read_weights(store, joint.id)
    assert set(kept) == {"gate.embedding.weight", "gate.output.weight", "gate.output.bias"}
    num_bases = [journals.read(store, t.id).outcome.num_parameters for t in (base, other)]
    num_gate = sum(tensor.numel() for tensor in kept.values())
    assert journal.outcome.num_parameters == sum(num_bases) + num_gate


def test_it_is_put_together_again_from_its_parents(store, data, joint):
    evaluation = trial_of(
        data,
        GATE,
        parents=(Parent("member", joint.id),),
        runner="evaluation",
    )
    journal = finish(evaluation, store, data)
    found = journals.read(store, joint.id)
    assert journal.status == Status.COMPLETED, journal.outcome
    assert journal.outcome.metrics == found.outcome.metrics
    assert journal.outcome.num_parameters == found.outcome.num_parameters


def test_a_member_with_a_gate_of_its_own_is_refused(store, data, base):
    gated = over(base, data)
    if journals.read(store, gated.id) is None:
        finish(gated, store, data)
    trial = trial_of(data, GATE, parents=(Parent("base", gated.id), Parent("base", base.id)))
    journal = finish(trial, store, data)
    assert journal.status == Status.FAILED
    assert "cannot be a member under another gate" in journal.outcome.reason


def test_several_models_without_a_gate_have_nothing_to_train(store, data, base, other):
    parents = (Parent("base", base.id), Parent("base", other.id))
    journal = finish(trial_of(data, {}, parents=parents), store, data)
    assert journal.status == Status.FAILED
    assert "leaves nothing to train" in journal.outcome.reason


def test_judged_again_it_has_the_numbers_of_its_own_trial(base, store, data):
    """Dynamic evaluation adapts the gate alone, and masks are the gate's alone."""
    judges = {
        "evaluator": "standard",
        "evaluator.dynamic.gradient_batch_size": 5,
        "evaluator.dynamic.learning_rate": 0.01,
        "evaluator.monte_carlo.samples": 2,
    }
    trial = over(base, data, judges)
    own = finish(trial, store, data)
    again = trial_of(
        data, {**GATE, **judges}, parents=(Parent("member", trial.id),), runner=EVALUATION
    )
    judged = finish(again, store, data)
    for key in ("test_nll", "dynamic.test_nll", "monte_carlo.test_nll"):
        assert judged.outcome.metrics[key] == pytest.approx(own.outcome.metrics[key], abs=1e-9)
    assert own.outcome.metrics["dynamic.test_nll"] != own.outcome.metrics["test_nll"]
