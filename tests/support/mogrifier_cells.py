"""Cells of a Mogrifier with random parameters, and masks in their rounds."""

from __future__ import annotations

from dataclasses import replace

import torch

from ablate.lm.model.fast.mogrifier_trace import Cell, Round


def random_cell(draw, sizes, rounds, rank, *, masked, capped):
    """A cell whose numbers `draw` makes, for windows of the sizes [T, B, I, H]."""
    _, B, num_in, units = sizes

    def one(number):
        out, read = (num_in, units) if number % 2 else (units, num_in)
        width = rank or read
        return Round(
            left=draw(out, width),
            right=draw(rank, read) if rank else None,
            bias=draw(out),
            mask=draw(B, width).detach() if masked else None,
        )

    return Cell(
        weight_ih=draw(4 * units, num_in),
        weight_hh=draw(4 * units, units),
        bias=draw(4 * units),
        rounds=tuple(one(number) for number in range(1, rounds + 1)),
        capped=capped,
    )


def cast(cell, dtype):
    """The same parameters in another precision, with gradients to them."""

    def parts(one):
        tensors = {name: x.to(dtype) for name, x in vars(one).items() if torch.is_tensor(x)}
        return replace(one, **tensors)

    return replace(parts(cell), rounds=tuple(map(parts, cell.rounds)))


def parameters_of(cell):
    """Every tensor that gets a gradient."""
    parts = [part for one in cell.rounds for part in (one.left, one.right, one.bias)]
    return [cell.weight_ih, cell.weight_hh, cell.bias, *(p for p in parts if p is not None)]
