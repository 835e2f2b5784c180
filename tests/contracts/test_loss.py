"""What every loss owes, with every head."""

from __future__ import annotations

import pytest
import torch

from ablate import registry


@pytest.mark.parametrize("head", registry.names("head"))
@pytest.mark.parametrize("name", registry.names("loss"))
def test_it_is_a_finite_scalar_that_trains_everything(small, name, head):
    given = small(loss=name, head=head)
    loss = given.summed_loss()
    assert loss.shape == ()
    assert torch.isfinite(loss)
    gradients = given.gradients()
    assert gradients.keys() == {name for name, _ in given.model.named_parameters()}
    assert all(torch.isfinite(g).all() for g in gradients.values())
