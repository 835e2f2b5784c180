"""What every bridge owes."""

from __future__ import annotations

import pytest

from ablate import registry


@pytest.mark.parametrize("name", registry.names("bridge"))
def test_it_hands_on_the_width_it_says_and_leaves_the_rest(small, name):
    given = small(bridge=name)
    features = given.run().features
    assert features.output_TBH.shape == (6, 3, given.model.bridge.width)
    without = small().run().features
    assert features.embedded_TBE.equal(without.embedded_TBE)
    assert all(a.equal(b) for a, b in zip(features.masked, without.masked, strict=True))
