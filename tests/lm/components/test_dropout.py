"""Dropout of single elements: masks, sites and rate."""

from __future__ import annotations

import pytest
import torch

from ablate.config.streams import Streams
from ablate.lm.components.regularizer.dropout import Dropout, DropoutConfig
from ablate.lm.model.masks import Chance, Masks

SITES = ("input", "hidden/1", "hidden/2", "output", "latent", "gate_input")


@pytest.mark.parametrize("site", ["input", "hidden/2", "output", "latent"])
def test_every_element_is_dropped_by_itself_at_its_site_only(fixed_chance, site):
    x = torch.randn(5, 3, 4)
    mask = torch.tensor([0.0, 2.5]).repeat(30).view(5, 3, 4)
    kind = site.split("/")[0]
    chance = fixed_chance({f"dropout/{site}": mask})
    regularizer = Dropout(DropoutConfig(**{kind: 0.6}))
    assert torch.equal(regularizer.mask(site, x, chance), x * mask)
    assert chance.requested == {f"dropout/{site}": ((5, 3, 4), 0.6)}
    assert all(
        regularizer.mask(other, x, chance) is x for other in SITES if other.split("/")[0] != kind
    )


def test_masks_differ_by_step_row_layer_and_update_and_keep_the_mean():
    regularizer = Dropout(DropoutConfig(hidden=0.25))
    ones = torch.ones(8, 4, 500, dtype=torch.float64)

    def mask(site, update):
        return Masks((regularizer,), Chance(Streams(7), update))(site, ones)

    first = mask("hidden/1", 0)
    torch.testing.assert_close(first.unique(), torch.tensor([0, 4 / 3]).double())
    share = (first != 0).double().mean()
    deviation = (0.25 * 0.75 / ones.numel()) ** 0.5
    assert abs(share - 0.75) < 4 * deviation
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[:, 0], first[:, 1])
    assert torch.equal(first, mask("hidden/1", 0))
    assert not torch.equal(first, mask("hidden/2", 0))
    assert not torch.equal(first, mask("hidden/1", 1))
