"""An ensemble's probability is its members' mean."""

from __future__ import annotations

import numpy as np
import torch

from ablate.components.evaluator.ensemble import Ensemble, EnsembleConfig, log_mean_exp
from ablate.components.evaluator.standard import Standard, StandardConfig

STREAM = torch.randint(0, 23, (50,), generator=torch.Generator().manual_seed(4))


def test_it_is_the_mean_probability(build):
    models = [build({}, seed=seed).model for seed in range(3)]
    models.append(build({"head": "mos", "head.experts": 2}).model)
    found = Ensemble(EnsembleConfig(window=7)).token_log_probs(models, STREAM)
    single = [Standard(StandardConfig()).token_log_probs([m], STREAM) for m in models]
    np.testing.assert_allclose(np.exp(found), np.exp(single).mean(0), rtol=1e-12)


def test_one_member_is_itself(build):
    model = build({}).model
    found = Ensemble(EnsembleConfig()).token_log_probs([model], STREAM)
    expected = Standard(StandardConfig()).token_log_probs([model], STREAM)
    np.testing.assert_array_equal(found, expected)


def test_it_does_not_underflow():
    np.testing.assert_allclose(log_mean_exp(np.array([[-2000.0], [-2000.0]])), [-2000.0])
