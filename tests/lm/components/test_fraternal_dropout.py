"""Fraternal dropout against plain autograd over whole logits, and in a whole loss of two passes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ablate.config.resolve import resolve
from ablate.lm.components.regularizer.fraternal_dropout import (
    FraternalDropout,
    FraternalDropoutConfig,
)
from ablate.lm.model.fast import mixture_gradient
from ablate.lm.model.flow import GateSignal, Mixture, Pass

N, V, E, G = 13, 29, 5, 3


class Two:
    """Two mixtures over one matrix, and the leaves they are made of."""

    def __init__(self, num_components, *, gate=False, bias=True):
        generator = torch.Generator().manual_seed(num_components)

        def leaf(*shape):
            x = torch.randn(*shape, generator=generator, dtype=torch.float64)
            return x.requires_grad_()

        self.vectors = [leaf(N, num_components, E) for _ in range(2)]
        self.weight, self.bias = leaf(V, E), leaf(V) if bias else None
        self.signals = [leaf(N, G) for _ in range(2)] if gate else None
        self.gate_weight, self.gate_bias = (leaf(V, G), leaf(V)) if gate else (None, None)
        self.log_prior = torch.randn(N, num_components, generator=generator).log_softmax(-1)

    @property
    def leaves(self):
        shared = [self.weight, self.gate_weight, self.gate_bias]
        return [x for x in (*self.vectors, *(self.signals or ()), *shared) if x is not None]

    def mixture(self, number) -> Mixture:
        gate = self.signals and GateSignal(
            vectors_NG=self.signals[number], weight_VG=self.gate_weight, bias_V=self.gate_bias
        )
        return Mixture(
            vectors_NJE=self.vectors[number],
            log_prior_NJ=self.log_prior,
            weight_VE=self.weight,
            bias_V=self.bias,
            gate=gate,
        )

    def logits(self, number):
        """Written out, with a loop over the components."""
        parts = []
        for j in range(self.vectors[number].shape[1]):
            part = self.vectors[number][:, j] @ self.weight.t()
            part = part if self.bias is None else part + self.bias
            if self.signals:
                inner = self.signals[number] @ self.gate_weight.t() + self.gate_bias
                part = part / (1 + (-inner).exp())
            parts.append(part)
        return torch.stack(parts, 1)

    def passes(self):
        return [Pass(features=None, mixture=self.mixture(n), state=()) for n in range(2)]


def between(passes, **config):
    return FraternalDropout(FraternalDropoutConfig(**config)).between(passes)


def gradients(value, leaves):
    """Through something after the term, so that its incoming gradient is not 1."""
    return torch.autograd.grad((value * 0.3).sin(), leaves)


@pytest.mark.parametrize(
    ("num_components", "gate", "bias", "chunked"),
    [
        (1, False, True, False),
        (1, True, False, True),
        (3, False, False, True),
        (3, True, True, False),
        (3, True, True, True),
    ],
)
def test_it_is_the_mean_square_over_whole_logits(num_components, gate, bias, chunked, monkeypatch):
    if chunked:
        for name in ("SINGLE", "MIXTURE"):
            size = mixture_gradient.ChunkSize(3 * 29 * 3 * 8, 0)
            monkeypatch.setattr(mixture_gradient, name, size)
    two, tolerance = Two(num_components, gate=gate, bias=bias), 1e-12
    actual = between(two.passes(), kappa=0.7)
    expected = 0.7 * ((two.logits(0) - two.logits(1)) ** 2).mean()
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=0)
    pairs = zip(gradients(actual, two.leaves), gradients(expected, two.leaves), strict=True)
    for result, reference in pairs:
        torch.testing.assert_close(result, reference, rtol=tolerance, atol=tolerance)


def test_it_may_compare_the_last_layers_masked_outputs(make_features):
    one, other = (make_features(4, 2, 3, (5, 6), seed=seed) for seed in (1, 2))
    passes = [Pass(features=f, mixture=None, state=()) for f in (one, other)]
    expected = 0.7 * ((one.masked[-1] - other.masked[-1]) ** 2).mean()
    torch.testing.assert_close(between(passes, kappa=0.7, on="output"), expected)


def test_off_costs_no_second_pass():
    off = FraternalDropout(FraternalDropoutConfig(on="output"))
    assert off.num_passes == 1 and off.between([]) is None
    assert FraternalDropout(FraternalDropoutConfig(kappa=0.1)).num_passes == 2
    values = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}
    explicit = {**values, "regularizer.fraternal_dropout.on": "output"}
    assert resolve(explicit).identity == resolve(values).identity


def test_outputs_that_fill_up_shorter_sentences_are_not_compared(make_features):
    generator = torch.Generator().manual_seed(1)
    kept = torch.tensor([0, 1, 3, 5])  # row 0 has one real step of three
    passes = [
        Pass(features=make_features(3, 2, 4, (7,)), mixture=None, state=(), kept_N=kept)
        for _ in range(2)
    ]
    noise = torch.randn(3, 2, 7, generator=generator, dtype=torch.float64)
    features = passes[1].features
    moved = replace(features, masked=(features.masked[-1] + noise,))
    passes[1] = replace(passes[1], features=moved)
    differences = passes[0].features.masked[-1] - passes[1].features.masked[-1]
    expected = torch.cat([differences[:1, 0], differences[:, 1]]).square().mean()
    actual = between(passes, kappa=1.0, on="output")
    assert actual.item() == pytest.approx(expected.item(), rel=1e-6)
