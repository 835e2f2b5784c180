"""L2 against sums over the parameters of each group, by gradient, and off the loss."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.regularizer.l2 import L2, L2Config

MODEL = {"head": "mos", "head.tied": False, "head.experts": 2}
GROUPS = {
    "embedding": ["embedding.weight"],
    "output": ["head.decoder.weight"],
    "recurrent_input": ["backbone.weight_ih_l0", "backbone.weight_ih_l1"],
    "recurrent": ["backbone.weight_hh_l0", "backbone.weight_hh_l1"],
    "head": ["head.prior.weight", "head.latent_0.weight"],
    "bias": ["backbone.bias_ih_l0", "backbone.bias_hh_l1", "head.decoder.bias"],  # and more
}


def gradients_of(build, values):
    """The penalty of a model, its gradients by name, and the model's weights."""
    assembly = build({**MODEL, **{f"regularizer.l2.{k}": v for k, v in values.items()}})
    (regularizer,) = assembly.regularizers
    for parameter in assembly.model.parameters():
        parameter.data.add_(0.1)  # biases start at 0
    penalty = regularizer.penalty(None, assembly.model)
    penalty.backward()
    named = dict(assembly.model.named_parameters())
    return penalty, {n: p.grad for n, p in named.items() if p.grad is not None}, named


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_is_penalized_alone(build, group):
    penalty, gradients, named = gradients_of(build, {group: 0.3})
    assert set(GROUPS[group]) <= set(gradients)
    if group == "bias":
        assert set(gradients) == {name for name in named if "bias" in name}
    else:
        assert set(gradients) == set(GROUPS[group])
    torch.testing.assert_close(penalty, 0.3 * sum((named[n] ** 2).sum() for n in gradients))
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, 0.6 * named[name].detach())


def test_every_parameter_is_in_a_group_that_has_a_weight(build):
    """A group's weight is added to `everything`; with `half`, the penalty is half as large."""
    values = {"everything": 0.1, "recurrent": 0.2, "half": True}
    _, gradients, named = gradients_of(build, values)
    assert gradients.keys() == named.keys()
    for name, gradient in gradients.items():
        weight = 0.3 if name in GROUPS["recurrent"] else 0.1
        torch.testing.assert_close(gradient, weight * named[name].detach())


def test_a_tied_matrix_is_counted_once(build):
    assembly = build({"embedding.size": 7, "head.tied": True, "regularizer.l2.embedding": 1.0})
    penalty = assembly.regularizers[0].penalty(None, assembly.model)
    expected = (assembly.model.embedding.weight.detach() ** 2).sum()
    torch.testing.assert_close(penalty.detach(), expected)


def test_decoupled_it_shrinks_the_weights_after_an_update(build):
    off = {"regularizer.l2.mode": "decoupled", "regularizer.l2.everything": 0.01}
    assembly = build({**MODEL, **off, "regularizer.l2.recurrent": 0.02})
    (regularizer,) = assembly.regularizers
    before = {n: p.detach().clone() for n, p in assembly.model.named_parameters()}
    assert regularizer.penalty(None, assembly.model) is None
    regularizer.project(assembly.model)
    for name, parameter in assembly.model.named_parameters():
        weight = 0.03 if name in GROUPS["recurrent"] else 0.01
        torch.testing.assert_close(parameter.detach(), before[name] - weight * before[name])


@pytest.mark.parametrize("mode", ["loss", "decoupled"])
def test_what_is_frozen_is_left_alone(build, mode):
    assembly = build({"regularizer.l2.everything": 0.5, "regularizer.l2.mode": mode})
    (regularizer,) = assembly.regularizers
    assembly.model.requires_grad_(False)
    before = [p.clone() for p in assembly.model.parameters()]
    regularizer.project(assembly.model)
    assert all(map(torch.equal, before, assembly.model.parameters()))
    assert regularizer.penalty(None, assembly.model) is None


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_a_group_that_the_model_lacks_is_refused_by_name(build, name):
    has = "Its groups: bias, embedding, output, recurrent, recurrent_input. Instead: set it to 0."
    with pytest.raises(CombinationError) as refused:
        build({f"regularizer.{name}.mogrifier": 1e-5, f"regularizer.{name}.bias": 1})
    assert str(refused.value).startswith(f"regularizer.{name}.mogrifier = 1e-05 has nothing to act")
    assert str(refused.value).endswith(has)


def test_half_of_nothing_is_refused():
    with pytest.raises(CombinationError, match="half = true halves a sum in the loss"):
        L2(L2Config(everything=1.0, half=True, mode="decoupled"))
