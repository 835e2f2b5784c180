"""Output layers: the mixture, the softmax and the augmented loss, forward and backward.

Ours is what training calls, against the usual way in `opponents/heads.py`: time and extra memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ablate.lm.model.fast.precision import products_in
from ablate.lm.model.fast.tempered import summed_augmented
from ablate.lm.model.fast.tempered_gradient import Terms
from ablate.lm.model.flow import Mixture
from ablate.lm.model.mixture import summed_nll
from benchmarks.measure import Figure, agree, race, share_of_products, weigh
from benchmarks.opponents.heads import (
    augmented_loss,
    mixture_loss,
    softmax_loss,
    softmax_loss_in_chunks,
)

TOKENS, WORDS, COMPONENTS = 840, 10_000, 20
PAPER_WIDTH, LAPTOP_WIDTH = 280, 28
IN_CHUNKS = ", linear_cross_entropy in chunks"
Step = Callable[[], tuple[Tensor, tuple[Tensor, ...]]]


def mixture(full: bool) -> list[Figure]:
    """J = 20 as in DOC; word vectors of the paper's width and of doc_layer_mix's laptop scale."""
    figures = []
    for width in (PAPER_WIDTH, LAPTOP_WIDTH):
        ours, theirs = mixture_sides(width)
        name, seconds = f"mixture of {COMPONENTS}, width {width}", 60 if full else 8
        _agree(ours, theirs, name, 1e-3)  # theirs takes log(p + 1e-8)
        time = race(f"{name}: time", ours, theirs, sense="share", limit=0.35, seconds=seconds)
        figures += [
            time,
            weigh(f"{name}: extra memory", ours, theirs, limit=0.1),
            share_of_products(name, time, _products(width)),
        ]
    return figures


def softmax(full: bool) -> list[Figure]:
    """Width 400 (AWD-LSTM's) on the vocabularies of PTB and WikiText-2, against whole logits and
    against torch's own loss in chunks, whose memory has no limit here."""
    figures = []
    for usual, way, memory in ((softmax_loss, "", 0.25), (softmax_loss_in_chunks, IN_CHUNKS, None)):
        for words in (10_000, 33_278):
            ours, theirs = softmax_sides(words, usual)
            name, seconds = f"softmax, V = {words:,}{way}", 40 if full else 8
            _agree(ours, theirs, name, 1e-4)
            figures += [
                race(f"{name}: time", ours, theirs, sense="share", limit=1.0, seconds=seconds),
                weigh(f"{name}: extra memory", ours, theirs, limit=memory),
            ]
    return figures


def augmented(full: bool) -> list[Figure]:
    """Zaremba's batch, 20 rows of 35 steps, at the widths of Inan's models."""
    figures = []
    for width, limit in ((200, 0.6), (650, 1.0), (1500, 1.0)):
        ours, theirs = augmented_sides(width)
        name, seconds = f"augmented loss, width {width}", 40 if full else 7
        _agree(ours, theirs, name, 1e-4)
        figures += [
            race(f"{name}: time", ours, theirs, sense="share", limit=limit, seconds=seconds),
            weigh(f"{name}: extra memory", ours, theirs, limit=0.25),
        ]
    return figures


def mixture_sides(
    width: int,
    words: int = WORDS,
    components: int = COMPONENTS,
    tokens: int = TOKENS,
    precision: str = "float32",
    usual: Callable[..., Tensor] = mixture_loss,
) -> tuple[Step, Step]:
    torch.manual_seed(1)
    latent = torch.randn(tokens, components, width).tanh_().requires_grad_()
    logits = torch.randn(tokens, components).requires_grad_()
    weight, bias = _matrix(words, width), _leaf(torch.zeros(words))
    targets, leaves = _targets(words, tokens), (latent, logits, weight, bias)
    in_precision = partial(products_in, precision, latent.device.type)

    def ours():
        mixed = Mixture(
            vectors_NJE=latent,
            log_prior_NJ=logits.log_softmax(-1),
            weight_VE=weight,
            bias_V=bias,
        )
        with in_precision():
            loss = summed_nll(mixed, targets) / tokens
        return _with_gradients(loss, leaves)

    def theirs():
        with in_precision():
            loss = usual(latent, logits, weight, bias, targets)
        return _with_gradients(loss, leaves)

    return ours, theirs


def softmax_sides(words: int, usual: Callable[..., Tensor] = softmax_loss) -> tuple[Step, Step]:
    torch.manual_seed(1)
    hidden = _leaf(torch.randn(TOKENS, 400).tanh_())
    weight, bias, targets = _matrix(words, 400), _leaf(torch.zeros(words)), _targets(words)
    leaves = (hidden, weight, bias)

    def ours():
        mixed = Mixture(
            vectors_NJE=hidden[:, None], log_prior_NJ=None, weight_VE=weight, bias_V=bias
        )
        return _with_gradients(summed_nll(mixed, targets) / TOKENS, leaves)

    def theirs():
        return _with_gradients(usual(hidden, weight, bias, targets), leaves)

    return ours, theirs


def augmented_sides(width: int, words: int = WORDS, tokens: int = 700) -> tuple[Step, Step]:
    torch.manual_seed(1)
    temperature, strength = 20.0, 10.0
    hidden = _leaf(torch.randn(tokens, width).tanh_())
    weight, bias = _matrix(words, width), _leaf(torch.zeros(words))
    targets = _targets(words)[:tokens]
    leaves = (hidden, weight, bias)
    terms = Terms(temperature=temperature, of_nll=1.0, of_divergence=strength, detach=True)

    def ours():
        mixed = Mixture(
            vectors_NJE=hidden[:, None], log_prior_NJ=None, weight_VE=weight, bias_V=bias
        )
        loss = summed_augmented(mixed, targets, weight, terms) / tokens
        return _with_gradients(loss, leaves)

    def theirs():
        loss = augmented_loss(hidden, weight, bias, weight, targets, temperature, strength)
        return _with_gradients(loss, leaves)

    return ours, theirs


def _products(width: int) -> list[tuple[float, tuple[int, int, int]]]:
    """A mixture's three, in chunks of rows of components that are scored together."""
    chunk = 400
    shapes = [(chunk, width, WORDS), (chunk, WORDS, width), (width, chunk, WORDS)]
    return [(TOKENS * COMPONENTS / chunk, shape) for shape in shapes]


def _leaf(x: Tensor) -> Tensor:
    return x.requires_grad_()


def _matrix(words: int, width: int) -> Tensor:
    return _leaf(torch.empty(words, width).uniform_(-0.1, 0.1))


def _targets(words: int, tokens: int = TOKENS) -> Tensor:
    """By Zipf's law, as in a text: the augmented loss shares what equal targets share."""
    share = 1 / torch.arange(1, words + 1, dtype=torch.float64)
    return torch.multinomial(share, tokens, replacement=True)


def _with_gradients(loss: Tensor, leaves: tuple[Tensor, ...]):
    return loss, torch.autograd.grad(loss, leaves)


def _agree(ours: Step, theirs: Step, name: str, relative: float) -> None:
    (loss, gradients), (other, others) = ours(), theirs()
    agree(loss, other, f"{name}: loss", relative)
    agree(gradients, others, f"{name}: gradients", relative)
