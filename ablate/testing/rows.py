"""The contract of whatever several processes may train, each with its own rows."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.model.masks import Chance, Masks
from ablate.model.regularizer import num_passes
from ablate.model.rows import Rows, share_of
from ablate.testing.subject import ROWS, STEPS, SmallModel, Subject, require

MASKED = {f"regularizer.variational_dropout.{site}": 0.3 for site in ("hidden", "recurrent")}
MASKED |= {f"regularizer.dropout.{site}": 0.3 for site in ("input", "output", "latent")}
WHOLE = Rows(0, ROWS, ROWS)


def rows_can_be_computed_apart(subject: Subject) -> None:
    """The losses and gradients of some rows and of the others add up to those of all rows, under
    the same masks. Losses and regularizers promise this with `by_rows`."""
    if subject.reads_pairs:
        return
    small = _small(subject)
    if not (small.loss.by_rows and all(each.by_rows for each in small.regularizers)):
        return
    whole = _gradients(small, [WHOLE])
    apart = _gradients(small, [share_of(ROWS, rank, 2) for rank in range(2)])
    require(whole.keys() == apart.keys(), "other parameters have gradients.")
    for name, gradient in whole.items():
        close = torch.allclose(gradient, apart[name])
        require(close, f"{name}: another sum than that of all rows.")


def _small(subject: Subject) -> SmallModel:
    if subject.slot == "regularizer":
        return SmallModel({"head": "mos"}, subject.switched_on)
    masked = Subject(subject.slot, subject.name, {**MASKED, **subject.values})
    if subject.slot == "loss":
        with contextlib.suppress(CombinationError):  # the head that most losses have something for
            return masked.small({"head": "pointer_sentinel"})
    return masked.small()


def _gradients(small: SmallModel, shares: list[Rows]) -> dict[str, Tensor]:
    """The gradients, and the loss, added up over shares of the rows."""
    small.model.zero_grad()
    loss = torch.stack([_backward(small, rows) for rows in shares]).sum()
    named = small.model.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None} | {"the loss": loss}


def _backward(small: SmallModel, rows: Rows) -> Tensor:
    """The loss of one update on some rows, as a training computes it."""
    model, passes, share = small.model, list[Any](), (rows.end - rows.first) / rows.total
    state = tuple(rows.of(each, 1) for each in model.initial_state(rows.total))
    chance = Chance(Streams(3), 0, rows=None if rows == WHOLE else rows)
    for twin in range(num_passes(small.regularizers)):
        masks = Masks(small.regularizers, Chance(Streams(3), 0, twin, rows=chance.rows))
        passes.append(model(rows.of(small.ids, 1), state, masks))
    targets_N = rows.of(small.targets.view(STEPS, ROWS), 1).flatten()
    total = small.loss(passes[0], targets_N, model.words_for(small.loss), chance)
    for regularizer in small.regularizers:
        terms = [regularizer.penalty(passes[0], model)]
        if regularizer.num_passes > 1:
            terms.append(regularizer.between(passes))
        total = sum((share * term for term in terms if term is not None), total)
    total.backward()
    return total.detach()
