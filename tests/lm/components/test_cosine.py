"""The cosine against torch's, whose rate after each step is compared."""

from __future__ import annotations

import pytest
import torch

from tests.support.rates import rates_by_update


def test_it_is_torchs():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.1)
    rates = []
    for _ in range(51):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    ours = rates_by_update({"schedule": "cosine", "schedule.floor": 0.1}, 50)
    assert ours == pytest.approx(rates, abs=1e-12)
    assert rates_by_update({"schedule": "cosine"}, 50)[-1] == pytest.approx(0, abs=1e-12)
