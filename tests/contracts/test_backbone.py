"""What every backbone owes."""

from __future__ import annotations

import pytest
import torch

from ablate import registry
from ablate.components.regularizer import OFF, Chance, Masks, Regularizer
from ablate.streams import Streams

pytestmark = pytest.mark.parametrize("name", registry.names("backbone"))


def run(small, name, masks=OFF):
    given = small(backbone=name)
    backbone = given.model.backbone
    inputs_TBE = given.model.embedding(given.ids).detach() * 10
    state = tuple(torch.randn_like(s) for s in backbone.initial_state(3))
    return backbone, inputs_TBE, given.ids, state, backbone(inputs_TBE, given.ids, state, masks)


def close(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_layers_have_the_widths_it_says(small, name):
    backbone, _, _, state, (raw, masked, after) = run(small, name)
    assert tuple(x.shape for x in raw) == tuple((6, 3, width) for width in backbone.widths)
    assert all(torch.equal(a, b) for a, b in zip(raw, masked, strict=True))
    assert tuple(s.shape for s in after) == tuple(s.shape for s in state)
    assert all(s.shape[1] == 3 for s in state)


def test_the_state_starts_at_zero(small, name):
    backbone = small(backbone=name).model.backbone
    assert not any(s.any() for s in backbone.initial_state(2))


def test_a_window_cut_in_two_is_the_window(small, name):
    backbone, inputs, ids, state, (raw, _, after) = run(small, name)
    first, _, between = backbone(inputs[:2], ids[:2], state, OFF)
    second, _, last = backbone(inputs[2:], ids[2:], between, OFF)
    close([torch.cat(pair) for pair in zip(first, second, strict=True)], raw)
    close(last, after)


def test_rows_do_not_meet(small, name):
    backbone, inputs, ids, state, (raw, _, after) = run(small, name)
    order = [2, 0, 1]
    turned_state = tuple(s[:, order] for s in state)
    turned, _, turned_after = backbone(inputs[:, order], ids[:, order], turned_state, OFF)
    close(turned, [x[:, order] for x in raw])
    close(turned_after, [s[:, order] for s in after])


def test_nothing_is_known_before_it_is_read(small, name):
    backbone, inputs, ids, state, (raw, _, _) = run(small, name)
    later = inputs.clone()
    later[4:] += 1
    other_ids = ids.clone()
    other_ids[4:] = 0
    changed, _, _ = backbone(later, other_ids, state, OFF)
    close([x[:4] for x in changed], [x[:4] for x in raw])
    assert not torch.allclose(changed[-1][4:], raw[-1][4:])


def test_masks_stand_between_layers_and_after_the_last(small, name):
    class Double(Regularizer):
        sites: tuple[str, ...] = ()

        def mask(self, site, x_TBH, chance):
            self.sites += (site,)
            return 2 * x_TBH

    double = Double()
    backbone, _, _, _, (raw, masked, _) = run(small, name, Masks((double,), Chance(Streams(1), 0)))
    close(masked, [2 * x for x in raw])
    between = tuple(f"hidden/{layer}" for layer in range(1, len(backbone.widths)))
    found = [site for site in double.sites if site.partition("/")[0] in ("hidden", "output")]
    assert tuple(found) == (*between, "output")
