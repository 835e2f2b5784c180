"""Steps of the Mogrifier by Triton's kernels against its plain steps in float64."""

from __future__ import annotations

import pytest
import torch

from ablate.components.backbone.mogrifier import plain_window
from ablate.model.fast.mogrifier_window import fast_window
from tests.support.mogrifier_cells import cast, parameters_of, random_cell

WIDE, ONE = (3, 5, 4, 53), (1, 1, 1, 1)  # 265 units, which are two programs, and one


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize(
    ("sizes", "rounds", "rank"),
    [(WIDE, 5, 3), (WIDE, 2, 0), (WIDE, 1, 7), (WIDE, 0, 0), ((2, 9, 61, 7), 6, 2), (ONE, 4, 0)],
)
def test_a_window_is_that_of_plain_steps(sizes, rounds, rank, capped, masked, ran):
    """Values and every gradient, with a mask on the state and one in each round, or with none."""
    num_steps, num_rows, width, units = sizes
    generator = torch.Generator().manual_seed(sum(sizes))

    def draw(*shape):
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn.mul_(shape[-1] ** -0.5).requires_grad_()

    cell = random_cell(draw, sizes, rounds, rank, masked=masked, capped=capped)
    inputs = [draw(num_steps, num_rows, width), draw(num_rows, units), draw(num_rows, units)]
    mask = draw(num_rows, units).detach() if masked else None
    goal, results = draw(num_steps, num_rows, units).detach(), []
    for run, dtype in ((fast_window, torch.float32), (plain_window, torch.float64)):
        x, h, c = (each.to(dtype) for each in inputs)
        on_h = None if mask is None else mask.to(dtype)
        outputs, c = run(x, h, c, on_h, cast(cell, dtype))
        loss = (outputs * goal.to(dtype)).sum() + c.square().sum()
        gradients = torch.autograd.grad(loss, [*inputs, *parameters_of(cell)])
        results.append((outputs, c, *gradients))
        assert ran() == (run is fast_window)
    for ours, wanted in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=1e-5)
