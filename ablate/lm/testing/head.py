"""The contracts of bridges, heads and gates: shapes, and a loss equal to the distribution's."""

from __future__ import annotations

import torch

from ablate.config import registry
from ablate.lm.model.mixture import log_probs, summed_nll, summed_nll_plain, token_nll
from ablate.lm.testing.subject import (
    NUM_TOKENS,
    ROWS,
    STEPS,
    VOCABULARY,
    SmallModel,
    Subject,
    require,
)

# Kernels compute in float32 only; in float64 torch computes the same formulas, more exactly.
TOLERANCES = ((torch.float32, 1e-5), (torch.float64, 1e-10))


def width_of_a_bridge(subject: Subject) -> None:
    """Its output is `width` wide, and it changes nothing else."""
    small = subject.small()
    features, without = small.run().features, SmallModel({}).run().features
    shape = (STEPS, ROWS, small.model.bridge.width)
    require(features.output_TBH.shape == shape, f"an output of {tuple(features.output_TBH.shape)}.")
    # The streams draw the same model without the bridge, so all else must be equal bit by bit.
    same = [features.embedded_TBE.equal(without.embedded_TBE)]
    same += map(torch.equal, features.masked, without.masked)
    require(all(same), "the bridge changes the word vectors or the layers' outputs.")


def shapes_of_a_mixture(subject: Subject) -> None:
    """The tensors of its mixture have matching shapes, and its priors sum to 1 (together with the
    share of a pointer)."""
    small = subject.small()
    mixture, num = small.run().mixture, small.model.head.num_experts
    num_tokens, num_experts, width = mixture.vectors_NJE.shape
    require((num_tokens, num_experts) == (NUM_TOKENS, num), f"{num_experts} vectors, not {num}.")
    require(mixture.weight_VE.shape == (VOCABULARY, width), "weight_VE does not fit the vectors.")
    bias = mixture.bias_V is None or mixture.bias_V.shape == (VOCABULARY,)
    require(bias, "bias_V does not have one number per word.")
    if mixture.log_prior_NJ is None:
        require(num == 1, "a mixture of several experts has no priors.")
        require(mixture.pointer is None, "a pointer leaves the softmax no prior.")
    elif mixture.pointer is None:
        _sums_to_one(mixture.log_prior_NJ)
    else:
        _sums_to_one(torch.cat((mixture.log_prior_NJ, mixture.pointer.weights_NP.log()), 1))


def shapes_of_a_signal(subject: Subject) -> None:
    """Its signal is factored over tokens and words."""
    gate = subject.small().run().mixture.gate
    if gate is None:
        require(subject.name == "none", "no signal. Only the gate `none` has none.")
        return
    require(gate.vectors_NG.shape[0] == NUM_TOKENS, "vectors_NG does not have one row per token.")
    shape = (VOCABULARY, gate.vectors_NG.shape[1])
    require(gate.weight_VG.shape == shape, "weight_VG does not fit the vectors.")
    bias = gate.bias_V is None or gate.bias_V.shape == (VOCABULARY,)
    require(bias, "bias_V does not have one number per word.")


def probabilities_sum_to_one(subject: Subject) -> None:
    """The probabilities of a token sum to 1, under every gate and head."""
    for others in _partners(subject):
        _sums_to_one(log_probs(subject.small(others).run().mixture))


def loss_is_the_distributions(subject: Subject) -> None:
    """nll equals log_probs, and so do their gradients, under every gate and head."""
    for others in _partners(subject):
        for dtype, tolerance in TOLERANCES:
            _agree(subject.small(others, dtype=dtype), tolerance)


def _agree(small: SmallModel, tolerance: float) -> None:
    parameters = list(small.model.parameters())
    results = []
    # The closed form, and autograd through the definition.
    for loss in (summed_nll, summed_nll_plain):
        value = loss(small.run().mixture, small.targets)
        results.append((value, *torch.autograd.grad(value, parameters)))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    tokens = token_nll(small.run().mixture, small.targets)
    torch.testing.assert_close(tokens.sum(), results[0][0].detach())


def _partners(subject: Subject) -> list[dict[str, str]]:
    other = "head" if subject.slot == "gate" else "gate"
    return [{other: name} for name in registry.names(other)]


def _sums_to_one(log_probs_NX: torch.Tensor) -> None:
    total = log_probs_NX.logsumexp(1)
    torch.testing.assert_close(total, torch.zeros_like(total))
