"""What every gate owes."""

from __future__ import annotations

import pytest

from ablate import registry


@pytest.mark.parametrize("name", registry.names("gate"))
def test_its_signal_is_factored_over_tokens_and_words(small, name):
    gate = small(gate=name).run().mixture.gate
    if gate is None:
        assert name == "none"
        return
    assert gate.vectors_NG.shape[0] == 18
    assert gate.weight_VG.shape == (23, gate.vectors_NG.shape[1])
    assert gate.bias_V is None or gate.bias_V.shape == (23,)
