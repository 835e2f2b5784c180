"""Noise-contrastive estimation against its formula, and the optimum that it promises."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import ConfigError
from ablate.lm.components.loss.nce import Nce, NceConfig, UnigramNoise
from ablate.lm.model.assemble import assemble
from ablate.lm.model.flow import GateSignal, Mixture, Pass
from ablate.lm.model.masks import Chance

V, N, J, E = 11, 6, 3, 4


def random_mixture(*, components=J, gate=False, bias=True) -> tuple[Mixture, list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)

    def leaf(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    vectors, weight, prior = leaf(N, components, E), leaf(V, E), leaf(N, components)
    leaves = [vectors, weight]
    if components > 1:
        leaves.append(prior)
    bias_V = leaf(V) if bias else None
    signal = None
    if gate:
        z, gate_weight, gate_bias = leaf(N, 2), leaf(V, 2), leaf(V)
        signal = GateSignal(vectors_NG=z, weight_VG=gate_weight, bias_V=gate_bias)
        leaves += [z, gate_weight, gate_bias]
    mixture = Mixture(
        vectors_NJE=vectors,
        log_prior_NJ=prior.log_softmax(1) if components > 1 else None,
        weight_VE=weight,
        bias_V=bias_V,
        gate=signal,
    )
    return mixture, [*leaves, *([] if bias_V is None else [bias_V])]


def score(mixture: Mixture, n: int, word: int) -> torch.Tensor:
    """log sum_j prior_j exp(gate * (vectors_j . W_w + b_w)), for one token and word."""
    total = 0
    for j in range(mixture.vectors_NJE.shape[1]):
        logit = mixture.vectors_NJE[n, j] @ mixture.weight_VE[word]
        logit = logit if mixture.bias_V is None else logit + mixture.bias_V[word]
        if mixture.gate is not None:
            inner = mixture.gate.vectors_NG[n] @ mixture.gate.weight_VG[word]
            logit = logit / (1 + (-inner - mixture.gate.bias_V[word]).exp())
        prior = 1 if mixture.log_prior_NJ is None else mixture.log_prior_NJ[n, j].exp()
        total = total + prior * logit.exp()
    return total.log()


def by_hand(mixture, targets, noise_nK, p_V, log_z):
    k, total = noise_nK.shape[1], 0
    for n, target in enumerate(targets.tolist()):
        delta = score(mixture, n, target) - log_z - math.log(k * p_V[target])
        total = total - (1 / (1 + (-delta).exp())).log()
        for word in noise_nK[n % len(noise_nK)].tolist():
            delta = score(mixture, n, word) - log_z - math.log(k * p_V[word])
            total = total - (1 - 1 / (1 + (-delta).exp())).log()
    return total


MODELS = [(1, False, False), (1, True, True), (J, False, True), (J, True, True)]


@pytest.mark.parametrize(("components", "gate", "bias"), MODELS)
@pytest.mark.parametrize("shared", [False, True])
def test_it_is_the_formula(text, components, gate, bias, shared):
    mixture, leaves = random_mixture(components=components, gate=gate, bias=bias)
    stream = torch.arange(66) % V  # every word, and 0 twice
    stream[-1] = 0
    loss = Nce(NceConfig(noise=5, shared=shared, log_normalizer=1.5), text(stream, V))
    targets, chance = torch.tensor([0, 4, 4, 10, 2, 7]), Chance(Streams(5), 2)
    actual = loss(
        Pass(features=None, mixture=mixture, state=()), targets, mixture.weight_VE, chance
    )
    p_V = (torch.bincount(stream, minlength=V).double() / 66).tolist()
    rows = 1 if shared else N
    noise_nK = UnigramNoise(torch.bincount(stream)).draw((rows, 5), chance.generator("nce"))
    expected = by_hand(mixture, targets, noise_nK, p_V, 1.5)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    pairs = (torch.autograd.grad(x, leaves, retain_graph=True) for x in (actual, expected))
    for result, reference in zip(*pairs, strict=True):
        torch.testing.assert_close(result, reference, rtol=1e-9, atol=1e-9)


def test_noise_comes_as_often_as_words_do():
    counts_V = torch.tensor([5, 0, 3, 0, 2, 0])
    noise = UnigramNoise(counts_V)
    words = noise.draw((400, 500), torch.Generator().manual_seed(1))
    found_V = torch.bincount(words.flatten(), minlength=6) / words.numel()
    torch.testing.assert_close(found_V, counts_V / 10, rtol=0, atol=0.005)
    assert not found_V[[1, 3, 5]].any()


def test_without_a_text_there_is_no_noise():
    values = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd", "loss": "nce"}
    assembly = assemble(resolve(values), V, "meta")
    mixture, _ = random_mixture()
    passed = Pass(features=None, mixture=mixture, state=())
    with pytest.raises(ConfigError, match="training text"):
        assembly.loss(passed, torch.arange(N), mixture.weight_VE, Chance(Streams(1), 0))
