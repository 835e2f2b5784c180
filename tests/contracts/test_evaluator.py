"""What every evaluator owes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate import registry

STREAM = torch.randint(0, 23, (40,), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", registry.names("evaluator"))
def test_it_gives_every_token_but_the_first_and_leaves_the_model_alone(small, name):
    technique = registry.get("evaluator", name)
    model = small(dtype=torch.float32).model
    before = {k: v.clone() for k, v in model.state_dict().items()}
    found, again = (
        technique.build(technique.config()).token_log_probs([model], STREAM) for _ in range(2)
    )
    assert found.dtype == np.float64
    assert found.shape == (39,)
    assert np.isfinite(found).all()
    assert (found <= 0).all()
    np.testing.assert_array_equal(found, again)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
