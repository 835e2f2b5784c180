"""DOC's balancing penalty, in both readings, against numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.regularizer.mixture_balance import MixtureBalance, MixtureBalanceConfig
from ablate.lm.model.flow import Mixture, Pass
from ablate.lm.model.mixture import selected
from ablate.lm.testing import SmallModel


def of_paper(prior_TBJ):
    use = [prior_TBJ[:, :, j].sum() for j in range(prior_TBJ.shape[2])]
    return (np.std(use) / np.mean(use)) ** 2


def of_code(prior_TBJ):
    T, B, J = prior_TBJ.shape
    use = np.array(
        [[sum(prior_TBJ[t, b, j] for t in range(T)) for j in range(J)] for b in range(B)]
    )
    mean = use.sum() / (B * J)
    variance = ((use - mean) ** 2).sum() / (B * J - 1)
    return variance * (J - 1) / mean**2


def passed_with(prior_TBJ, make_features):
    T, B, J = prior_TBJ.shape
    mixture = Mixture(
        vectors_NJE=torch.zeros(T * B, J, 1),
        log_prior_NJ=torch.tensor(prior_TBJ).log().flatten(0, 1),
        weight_VE=torch.zeros(1, 1),
        bias_V=None,
    )
    return Pass(features=make_features(T, B, 1, (1,)), mixture=mixture, state=())


@pytest.mark.parametrize(("mode", "reference"), [("code", of_code), ("paper", of_paper)])
def test_it_is_the_formula(make_features, mode, reference):
    prior_TBJ = np.random.default_rng(5).dirichlet(np.ones(4), size=(6, 3))
    passed = passed_with(prior_TBJ, make_features)
    regularizer = MixtureBalance(MixtureBalanceConfig(weight=0.5, mode=mode))
    expected = 0.5 * reference(prior_TBJ)
    np.testing.assert_allclose(regularizer.penalty(passed, None).item(), expected, rtol=1e-12)


@pytest.mark.parametrize("head", [{}, {"head": "mos", "head.experts": 1}])
def test_one_component_has_nothing_to_balance(build, head):
    off = r"or regularizer\.mixture_balance\.weight = 0\."
    message = rf"weight = 0.5 balances .* the head has one expert. .* {off}"
    with pytest.raises(CombinationError, match=message):
        build({**head, "regularizer.mixture_balance.weight": 0.5})
    assert build({**head, "regularizer.mixture_balance.weight": 0}).regularizers == ()


@pytest.mark.parametrize("mode", ["code", "paper"])
def test_sentences_of_equal_lengths_count_as_windows_do(mode):
    """What is left out of a batch does not count, and nothing else changes."""
    values = {"head.experts": 3, "regularizer.mixture_balance.weight": 0.1}
    small = SmallModel({"head": "mos"}, {**values, "regularizer.mixture_balance.mode": mode})
    [balance], passed = small.regularizers, small.run()
    whole = balance.penalty(passed, small.model)
    every = torch.arange(passed.features.ids_TB.numel())
    same = replace(passed, kept_N=every)
    torch.testing.assert_close(balance.penalty(same, small.model), whole)
    first = every[: 2 * passed.features.ids_TB.shape[1]]  # two steps of every row
    shorter = replace(passed, kept_N=first, mixture=selected(passed.mixture, first))
    window = replace(
        passed,
        mixture=selected(passed.mixture, first),
        features=replace(passed.features, ids_TB=passed.features.ids_TB[:2]),
    )
    expected = balance.penalty(window, small.model)
    torch.testing.assert_close(balance.penalty(shorter, small.model), expected)
