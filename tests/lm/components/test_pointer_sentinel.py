"""The pointer against a loop over positions, its limits, its memory, and its published size."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.loss import nce
from ablate.lm.components.loss.adversarial import Adversarial, AdversarialConfig, adversarial_nll
from ablate.lm.components.loss.guided_pointer import pointer_nll
from ablate.lm.model.ensemble import mean_mixture
from ablate.lm.model.fast.tempered import augmented_plain, summed_augmented
from ablate.lm.model.fast.tempered_gradient import Terms
from ablate.lm.model.mixture import (
    expert_logits,
    log_probs,
    selected,
    summed_nll,
    summed_nll_plain,
    token_nll,
)
from ablate.lm.model.pointer import copied_targets

V, LENGTH, ROWS = 7, 4, 2
VALUES = {"head": "pointer_sentinel", "head.length": LENGTH, "head.bias_range": 0.3}


@pytest.fixture
def model(build):
    def built(seed=1, **settings):
        values = {f"head.{name}": value for name, value in settings.items()}
        return build({**VALUES, **values}, vocabulary=V, seed=seed).model

    return built


def ids_of(steps, rows=ROWS, seed=2):
    return torch.randint(0, V, (steps, rows), generator=torch.Generator().manual_seed(seed))


def by_hand(model, ids):
    """p of every word after every token, by a loop over rows, steps and positions."""
    passed = model(ids, model.initial_state(ids.shape[1]))
    h_TBH = passed.features.output_TBH.detach().numpy()
    head = {name: p.detach().numpy() for name, p in model.head.named_parameters()}
    p = np.zeros((*ids.shape, V))
    for b in range(ids.shape[1]):
        for t in range(len(ids)):
            h = h_TBH[t, b]
            q = np.tanh(head["query.weight"] @ h + head["query.bias"])
            reach = range(max(0, t - LENGTH + 1), t + 1)
            scores = [q @ h_TBH[i, b] for i in reach] + [q @ head["sentinel.weight"]]
            *a, g = np.exp(scores) / np.exp(scores).sum()
            logits = head["decoder.weight"] @ h + head["decoder.bias"]
            p[t, b] = g * np.exp(logits) / np.exp(logits).sum()
            for i, weight in zip(reach, a, strict=True):
                p[t, b, ids[i, b]] += weight
    return p


def run(model, ids):
    return model(ids, model.initial_state(ids.shape[1]))


def test_it_is_the_formula(model):
    """In particular: at the start the missing words have no weight, and equal words add up."""
    built, ids = model(), ids_of(9)
    expected = by_hand(built, ids).reshape(-1, V)
    mixture = run(built, ids).mixture
    np.testing.assert_allclose(log_probs(mixture).exp().detach().numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(expected.sum(1), 1, rtol=1e-12)
    targets = ids_of(9, seed=3).flatten()
    of_targets = np.log(expected[np.arange(len(targets)), targets])
    np.testing.assert_allclose(token_nll(mixture, targets).numpy(), -of_targets, rtol=1e-10)
    summed = summed_nll(mixture, targets).item()
    assert summed == pytest.approx(-of_targets.sum(), rel=1e-12)
    rows = torch.tensor([3, 0, 11])
    chosen = selected(mixture, rows)
    torch.testing.assert_close(log_probs(chosen), log_probs(mixture)[rows])


@pytest.mark.parametrize("windows", [(9,), (1,) * 9, (2, 3, 4), (6, 3)])
def test_windows_of_text_follow_each_other(model, windows):
    """The last words stay in reach, also where a window is shorter than the reach."""
    built, ids = model(), ids_of(9)
    state, parts = built.initial_state(ROWS), []
    for window in ids.split(windows):
        passed = built(window, state)
        state = tuple(tensor.detach() for tensor in passed.state)
        parts.append(log_probs(passed.mixture))
    np.testing.assert_allclose(
        torch.cat(parts).exp().detach().numpy(), by_hand(built, ids).reshape(-1, V), rtol=1e-10
    )
    outputs, read = state[-2:]
    assert torch.equal(read, ids[-LENGTH + 1 :])
    assert outputs.shape[:2] == read.shape


def test_a_word_never_met_and_out_of_reach_has_finite_gradients(build):
    """In float32, with probabilities that are 0: no logarithm of 0, and none of its gradient."""
    built = build(VALUES, vocabulary=V, dtype=torch.float32).model
    with torch.no_grad():
        built.head.decoder.bias.copy_(torch.tensor([0.0] * (V - 1) + [-200.0]))
    mixture = run(built, torch.zeros(3, 1, dtype=torch.long)).mixture
    value = summed_nll(mixture, torch.full((3,), V - 1))
    value.backward()
    assert 500 < value.item() < math.inf
    assert all(torch.isfinite(p.grad).all() for p in built.parameters())


def test_the_guided_pointer_is_its_own_nll(model, build):
    built, ids = model(), ids_of(5, rows=1)
    targets = torch.cat((ids[1:, 0], ids[:1, 0]))
    mixture = run(built, ids).mixture
    expected = 0.0
    for t, target in enumerate(targets):
        found = mixture.log_prior_NJ[t, 0].exp()
        for i in range(max(0, t - LENGTH + 1), t + 1):
            position = LENGTH - 1 + i
            found = found + mixture.pointer.weights_NP[t, position] * (ids[i, 0] == target)
        expected = expected - found.log()
    torch.testing.assert_close(pointer_nll(mixture, targets), expected)
    loss = build({**VALUES, "loss": "guided_pointer", "loss.weight": 0.5}, vocabulary=V).loss
    whole = loss(run(built, ids), targets, built.embedding.weight, None)
    torch.testing.assert_close(whole, summed_nll(mixture, targets) + 0.5 * expected)


def test_a_pointer_to_guide_is_needed(build):
    with pytest.raises(CombinationError, match="Instead: head = 'pointer_sentinel'"):
        build({"loss": "guided_pointer"})


def test_several_models_have_the_mean_of_their_probabilities(model):
    ids = ids_of(6)
    mixtures = [run(model(seed), ids).mixture for seed in (1, 2, 3)]
    expected = torch.stack([log_probs(mixture).exp() for mixture in mixtures]).mean(0)
    torch.testing.assert_close(log_probs(mean_mixture(mixtures)).exp(), expected)


@pytest.fixture
def parts(model):
    built, ids = model(), ids_of(5)
    mixture, targets = run(built, ids).mixture, ids_of(5, seed=3).flatten()
    return built, mixture, targets


def test_the_divergence_of_the_augmented_loss_is_of_the_softmax_alone(parts):
    built, mixture, targets = parts
    terms = Terms(temperature=2.0, of_nll=0.7, of_divergence=1.5, detach=True)
    words = built.embedding.weight
    alone = replace(mixture, log_prior_NJ=None, pointer=None)
    expected = 0.7 * summed_nll_plain(mixture, targets)
    expected = expected + augmented_plain(alone, targets, words, replace(terms, of_nll=0.0))
    torch.testing.assert_close(summed_augmented(mixture, targets, words, terms), expected)


def test_without_noise_the_adversarial_loss_is_cross_entropy(parts):
    _, mixture, targets = parts
    nll = adversarial_nll(
        mixture, targets, AdversarialConfig(alpha=0), copied_N=copied_targets(mixture, targets)
    )
    torch.testing.assert_close(nll, summed_nll_plain(mixture, targets))
    loss = Adversarial(AdversarialConfig(alpha=1e-12), None)
    passed = SimpleNamespace(mixture=mixture)
    torch.testing.assert_close(loss(passed, targets, None, None), nll)


def test_noise_contrastive_scores_are_those_of_the_whole_distribution(parts):
    """The score of a word is log(g e^s + its probability of being copied)."""
    _, mixture, _ = parts
    every_word = torch.arange(V)
    logits = expert_logits(mixture, slice(None)).squeeze(1)
    actual = nce.scores(mixture, every_word[None])
    g, copied = mixture.log_prior_NJ.exp(), torch.zeros(len(logits), V).double()
    copied.scatter_add_(1, mixture.pointer.ids_NP.clamp_min(0), mixture.pointer.weights_NP)
    torch.testing.assert_close(actual.exp(), g * logits.exp() + copied)
