"""The plain evaluation covers every token once, whatever the window."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.components.evaluator.standard import Standard, StandardConfig
from ablate.components.mixture import log_probs
from ablate.errors import CombinationError

STREAM = torch.randint(0, 23, (50,), generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("window", [1, 7, 49, 200])
def test_every_token_after_the_first_given_all_before(build, window):
    model = build({}).model
    found = Standard(StandardConfig(window=window)).token_log_probs([model], STREAM)
    with torch.no_grad():
        whole = log_probs(model(STREAM[:-1, None], model.initial_state(1)).mixture)
    expected = whole[range(49), STREAM[1:]].numpy()
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_start_afresh_and_the_rest_is_trimmed(build):
    model = build({}).model
    found = Standard(StandardConfig(batch_size=4, window=5)).token_log_probs([model], STREAM)
    single = Standard(StandardConfig())
    rows = [single.token_log_probs([model], STREAM[at : at + 12]) for at in range(0, 48, 12)]
    np.testing.assert_allclose(found, np.concatenate(rows), rtol=1e-12)


def test_several_models_are_for_the_ensemble(build):
    model = build({}).model
    with pytest.raises(CombinationError, match=r"was given 2\. Use the evaluator 'ensemble'"):
        Standard(StandardConfig()).token_log_probs([model, model], STREAM)
