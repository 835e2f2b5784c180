"""Locked dropout against the public code's numbers."""

from __future__ import annotations

import pytest
import torch

from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.components.regularizer.variational_dropout import (
    VariationalDropout,
    VariationalDropoutConfig,
)
from ablate.lm.model.masks import Chance, Masks


@pytest.mark.parametrize("site", ["input", "hidden/2", "output", "latent"])
def test_it_is_the_public_code(golden, fixed_chance, site):
    vectors = golden("locked_dropout")
    config = VariationalDropoutConfig(**{site.split("/")[0]: 0.4})
    purpose = f"variational_dropout/{site}"
    chance = fixed_chance({purpose: vectors["mask"]})
    actual = VariationalDropout(config).mask(site, vectors["x"], chance)
    torch.testing.assert_close(actual, vectors["y_train"])
    assert chance.requested == {purpose: ((1, 4, 6), 0.4)}
    for other in ("input", "hidden/1", "output", "latent", "gate_input", "recurrent/1"):
        if other.split("/")[0] != site.split("/")[0]:
            masked = VariationalDropout(config).mask(other, vectors["x"], chance)
            assert masked is vectors["x"]


PLACE = "regularizer.variational_dropout"
TIED = {f"{PLACE}.{site}": 0.5 for site in ("hidden", "output", "recurrent")} | {
    f"{PLACE}.tied": True
}


def locked_mask(regularizer, site, shape=(4, 2, 64), update=0):
    return Masks((regularizer,), Chance(Streams(7), update)).locked(site, shape, torch.ones(1))


def test_gates_share_a_mask_or_have_their_own():
    shared = VariationalDropout(VariationalDropoutConfig(recurrent=0.5))
    mask = locked_mask(shared, "recurrent/1")
    assert mask.shape == (1, 2, 64)
    assert not torch.equal(mask[:, 0], mask[:, 1])
    assert not torch.equal(mask, locked_mask(shared, "recurrent/2"))
    assert not torch.equal(mask, locked_mask(shared, "recurrent/1", update=1))
    assert torch.equal(mask[0], locked_mask(shared, "recurrent/1", (2, 64)))
    assert locked_mask(shared, "gates/input") is None
    config = VariationalDropoutConfig(input=0.5, recurrent=0.5, gate_masks="per_gate")
    for site in ("recurrent/1", "gates/input"):
        mask = locked_mask(VariationalDropout(config), site)
        assert mask.shape == (4, 2, 64)
        assert set(mask.unique().tolist()) == {0.0, 2.0}
        assert not any(torch.equal(mask[0], other) for other in mask[1:])
    assert locked_mask(VariationalDropout(config), "gates/hidden/1") is None


def test_what_gates_mask_is_not_masked_before_them(fixed_chance):
    config = VariationalDropoutConfig(input=0.4, hidden=0.3, output=0.2, gate_masks="per_gate")
    regularizer, x = VariationalDropout(config), torch.randn(3, 2, 5)
    one = torch.ones(4, 2, 5)
    purposes = ("gates/input", "gates/hidden/1", "output")
    chance = fixed_chance(
        {f"variational_dropout/{p}": one[: 1 + 3 * (p != "output")] for p in purposes}
    )
    assert regularizer.mask("input", x, chance) is x
    assert regularizer.mask("hidden/1", x, chance) is x
    regularizer.mask("output", x, chance)
    for site in ("gates/input", "gates/hidden/1"):
        regularizer.locked(site, (4, 2, 5), x, chance)
    assert [rate for _, rate in chance.requested.values()] == [0.2, 0.4, 0.3]


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_a_tied_mask_is_the_one_on_the_layers_output(build, num_layers):
    (regularizer,) = build({**TIED, "backbone.num_layers": num_layers}).regularizers
    ones = torch.ones(6, 2, 64)
    for layer in range(1, num_layers + 1):
        site = "output" if layer == num_layers else f"hidden/{layer}"
        outside = Masks((regularizer,), Chance(Streams(7), 0))(site, ones)
        assert torch.equal(outside, locked_mask(regularizer, f"recurrent/{layer}").expand(6, 2, 64))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({f"{PLACE}.hidden": 0.4}, r"recurrent = 0\.5, hidden = 0\.4, output = 0\.5\. Instead"),
        ({f"{PLACE}.gate_masks": "per_gate"}, r"gate_masks = 'per_gate' several\. Instead"),
    ],
)
def test_a_tied_mask_of_several_kinds_is_refused(build, values, message):
    with pytest.raises(CombinationError, match=message):
        build({**TIED, **values})


def test_a_backbone_without_gates_has_no_mask_for_each(build, monkeypatch):
    values = {f"{PLACE}.recurrent": 0.5, f"{PLACE}.gate_masks": "per_gate"}
    model = build(values).model
    monkeypatch.setattr(type(model.backbone), "num_gates", 1)
    with pytest.raises(CombinationError, match=r"'per_gate' masks each gate's input .*Lstm"):
        VariationalDropout(VariationalDropoutConfig(recurrent=0.5, gate_masks="per_gate")).check(
            model
        )
