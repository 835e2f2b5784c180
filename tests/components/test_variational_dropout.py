"""Locked dropout against the public code's numbers."""

from __future__ import annotations

import pytest
import torch

from ablate.components.regularizer import Chance, Masks
from ablate.components.regularizer.variational_dropout import (
    VariationalDropout,
    VariationalDropoutConfig,
)
from ablate.streams import Streams


@pytest.mark.parametrize("site", ["input", "hidden/2", "output", "latent"])
def test_it_is_the_public_code(golden, fixed_chance, site):
    vectors = golden("locked_dropout")
    config = VariationalDropoutConfig(**{site.split("/")[0]: 0.4})
    purpose = f"variational_dropout/{site}"
    chance = fixed_chance({purpose: vectors["mask"]})
    found = VariationalDropout(config).mask(site, vectors["x"], chance)
    torch.testing.assert_close(found, vectors["y_train"])
    assert chance.asked == {purpose: ((1, 4, 6), 0.4)}
    for other in ("input", "hidden/1", "output", "latent", "gate_input", "recurrent/1"):
        if other.split("/")[0] != site.split("/")[0]:
            masked = VariationalDropout(config).mask(other, vectors["x"], chance)
            assert masked is vectors["x"]


def test_a_mask_is_held_over_time_and_differs_by_row_layer_and_update():
    regularizer = VariationalDropout(VariationalDropoutConfig(hidden=0.5))
    ones = torch.ones(6, 2, 64)

    def mask(site, update):
        return Masks((regularizer,), Chance(Streams(7), update))(site, ones)

    first = mask("hidden/1", 0)
    assert torch.equal(first, first[:1].expand_as(first))
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(first[0, 0], first[0, 1])
    assert torch.equal(first, mask("hidden/1", 0))
    assert not torch.equal(first, mask("hidden/2", 0))
    assert not torch.equal(first, mask("hidden/1", 1))
