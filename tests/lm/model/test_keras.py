"""Keras' initializations: their ranges and constants, and no effect unless they are chosen."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError

KERAS = {"backbone.initialization": "keras"}
WIDE = {"embedding.size": 40, "backbone.units": [50, 30]}
INPUTS, UNITS = (40, 50), (50, 30)


def started(build, values):
    model = build({**WIDE, **values}, dtype=torch.float32).model
    return {name: parameter.detach() for name, parameter in model.backbone.named_parameters()}


def fills(weight, num_in, num_out):
    """Return whether it is uniform in +- sqrt(6 / (in + out)), by its extremes and its variance."""
    bound = (6 / (num_in + num_out)) ** 0.5
    assert weight.max() <= bound and weight.min() >= -bound
    assert weight.max() > 0.99 * bound and weight.min() < -0.99 * bound
    assert weight.square().mean().item() == pytest.approx(bound**2 / 3, rel=0.1)
    return True


@pytest.mark.parametrize("backbone", ["lstm", "mogrifier"])
@pytest.mark.parametrize("biases", [1, 2])
def test_an_lstm_starts_as_keras_starts_it(build, backbone, biases):
    named = started(build, {**KERAS, "backbone": backbone, "backbone.biases": biases})
    for layer, (inputs, units) in enumerate(zip(INPUTS, UNITS, strict=True)):
        kernel_IK = named[f"weight_ih_l{layer}"].t()
        assert kernel_IK.shape == (inputs, 4 * units)
        assert fills(kernel_IK, inputs, 4 * units)
        recurrent_HK = named[f"weight_hh_l{layer}"].t().double()
        assert recurrent_HK.shape == (units, 4 * units)
        rows = recurrent_HK @ recurrent_HK.t()
        torch.testing.assert_close(rows, torch.eye(units).double(), rtol=0, atol=1e-5)
        # Orthogonal matrices drawn evenly favour no sign, as those that qr gives by itself do.
        assert 0.3 < (recurrent_HK.diagonal() > 0).double().mean() < 0.7
        i, f, g, o = named[f"bias_ih_l{layer}"].chunk(4)
        assert (f == 1).all() and not any(gate.any() for gate in (i, g, o))
        assert (f"bias_hh_l{layer}" in named) == (biases == 2)
        assert biases == 1 or not named[f"bias_hh_l{layer}"].any()


@pytest.mark.parametrize("rank", [0, 20])
def test_the_rounds_of_a_mogrifier_are_kernels_with_biases_at_zero(build, rank):
    values = {"backbone": "mogrifier", "backbone.rounds": 2, "backbone.rank": rank}
    named = started(build, {**KERAS, **values})
    for layer, (inputs, units) in enumerate(zip(INPUTS, UNITS, strict=True)):
        for number, (out, read) in enumerate(((inputs, units), (units, inputs)), 1):
            suffix = f"r{number}_l{layer}"
            assert fills(named[f"mogrifier_left_{suffix}"], rank or read, out)
            assert rank == 0 or fills(named[f"mogrifier_right_{suffix}"], read, rank)
            assert not named[f"mogrifier_bias_{suffix}"].any()


def test_the_dual_layer_is_one_kernel_over_word_and_state(build):
    values = {**WIDE, "bridge": "dual", "bridge.units": 60, "bridge.initialization": "keras"}
    bridge = build(values, dtype=torch.float32).model.bridge
    for weight_DI in (bridge.weight_e, bridge.weight_h):
        assert fills(weight_DI.detach(), 40 + 30, 60)
    assert not bridge.bias.any()


@pytest.mark.parametrize(
    ("slot", "values"),
    [
        ("backbone", {"backbone": "lstm"}),
        ("backbone", {"backbone": "mogrifier"}),
        ("bridge", {"bridge": "dual"}),
    ],
)
def test_a_range_that_nothing_is_drawn_from_is_refused(build, slot, values):
    both = {f"{slot}.initialization": "keras", f"{slot}.initial_range": 0.04}
    with pytest.raises(CombinationError, match=rf"{slot}\.initial_range = 0\.04 .* 'uniform'"):
        build({**values, **both})
