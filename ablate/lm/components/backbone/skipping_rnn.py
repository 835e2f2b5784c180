"""The skipping RNN over letters (Pachitariu & Sahani 2013, Table 1a).

    x_t = f(W y_t + R x_{t-1} + R_skip x_{t'})    at a word's first letter,
    x_t = f(W y_t + R x_{t-1})                    at the others

t' is the position of the previous word's first letter. A letter is the first of its word if it
follows a separator (`Shapes.separators`); separators themselves belong to no word. The state
carries x_{t'} and whether the last token was inside a word, so windows may be cut anywhere. A text
begins with a word, for whose first letter x_{t'} = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ablate.errors import CombinationError
from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.components.backbone import _simple as simple
from ablate.lm.model.activation import Activation
from ablate.lm.model.fast.precision import in_full
from ablate.lm.model.fast.recurrence import masked, summed_outer


@dataclass(frozen=True, kw_only=True)
class SkippingRnnConfig(simple.RecurrenceConfig):
    """Layers; each has both recurrent matrices."""

    skip_rate: float = setting(1.0, doc="share of the learning rate for R_skip; 0: fixed", low=0)


@dataclass(frozen=True)
class Recurrent:
    """R and R_skip, and the mask on the states that both of them read."""

    weight_HH: Tensor
    skip_HH: Tensor
    mask_BH: Tensor | None = None


def first_letters(
    ids_TB: Tensor, inside_1B: Tensor, separators: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return which tokens begin a word, [T, B], and whether the last is inside one, [1, B]."""
    separator_TB = torch.isin(ids_TB, torch.tensor(separators, device=ids_TB.device))
    after_inside_TB = torch.cat((inside_1B, ~separator_TB))
    return ~after_inside_TB[:-1] & ~separator_TB, after_inside_TB[-1:]


def skipping_recurrence(
    u_TBH: Tensor, x_BH: Tensor, skip_BH: Tensor, first_TB1: Tensor, r: Recurrent, f: Activation
) -> tuple[Tensor, Tensor]:
    """Every x_t, [T, B, H], and the x of the last first letter, [B, H]; `first_TB1` is 0 or 1."""
    parts = (r.weight_HH, r.skip_HH, r.mask_BH)
    return in_full(_SkippingRecurrence, u_TBH, x_BH, skip_BH, first_TB1, *parts, f)


class _SkippingRecurrence(torch.autograd.Function):
    """Where a word begins, d_t also flows to x_{t'} through R_skip."""

    @staticmethod
    def forward(ctx, u_TBH, x_BH, skip_BH, first_TB1, weight_HH, skip_HH, mask_BH, f):
        x_TBH = u_TBH.clone(memory_format=torch.contiguous_format)
        reads_TBH = torch.empty_like(x_TBH)
        bend_TBH = torch.empty_like(x_TBH) if f.keeps_bend else None
        last_BH = x_BH
        for step, out_BH in enumerate(x_TBH.unbind(0)):
            torch.mul(masked(skip_BH, mask_BH), first_TB1[step], out=reads_TBH[step])
            out_BH.addmm_(masked(last_BH, mask_BH), weight_HH.t())
            out_BH.addmm_(reads_TBH[step], skip_HH.t())
            last_BH = f.apply_(out_BH, None if bend_TBH is None else bend_TBH[step])
            skip_BH = torch.where(first_TB1[step] > 0, last_BH, skip_BH)
        ctx.f = f
        ctx.save_for_backward(
            bend_TBH, x_TBH, x_BH, reads_TBH, first_TB1, weight_HH, skip_HH, mask_BH
        )
        return x_TBH, skip_BH

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_TBH, grad_skip_BH):  # type: ignore[override]
        bend, x_TBH, x_BH, reads_TBH, first_TB1, weight_HH, skip_HH, mask = ctx.saved_tensors
        delta_TBH = grad_TBH.clone(memory_format=torch.contiguous_format)
        slope_TBH = ctx.f.slope(x_TBH, bend)
        grad_x_BH = torch.zeros_like(x_BH)
        for step in reversed(range(len(x_TBH))):
            first_B1, delta_BH = first_TB1[step], delta_TBH[step]
            delta_BH.add_(grad_x_BH).addcmul_(first_B1, grad_skip_BH)
            if slope_TBH is not None:
                delta_BH.mul_(slope_TBH[step])
            grad_x_BH = masked(delta_BH @ weight_HH, mask)
            through_BH = masked(delta_BH @ skip_HH, mask)
            # A first letter replaces x_{t'}: before it, only what R_skip read has a gradient.
            grad_skip_BH = torch.where(first_B1 > 0, through_BH, grad_skip_BH)
        read_TBH = masked(torch.cat((x_BH[None], x_TBH[:-1])), mask)
        needs_weight, needs_skip = ctx.needs_input_grad[4:6]
        grad_weight = summed_outer(delta_TBH, read_TBH) if needs_weight else None
        grad_matrix = summed_outer(delta_TBH, reads_TBH) if needs_skip else None
        return delta_TBH, grad_x_BH, grad_skip_BH, None, grad_weight, grad_matrix, None, None


@register(
    "backbone",
    "skipping_rnn",
    config=SkippingRnnConfig,
    paper="pachitariu2013irlm",
    equation="skipping RNN of Table 1a",
    departures=("the paper has neither a bias nor more than one layer; both are options here",),
)
@final
class SkippingRnn(Backbone):
    """Stacked layers; the state is each layer's last x and x_{t'}, and whether the last token was
    inside a word."""

    sites = frozenset({"hidden", "output", "recurrent", "weight"})
    states_per_layer = 2

    def __init__(self, config: SkippingRnnConfig, shapes: Shapes) -> None:
        super().__init__()
        self.config = config
        self.separators = shapes.separators
        self.widths = simple.widths_of(config, shapes)
        self.f = Activation(config.activation, config.smoothing)
        simple.add_input_weights(self, config, (shapes.embedding, *self.widths))
        for layer, width in enumerate(self.widths):
            for kind, share in (("hh", 1.0), ("skip", config.skip_rate)):
                weight = nn.Parameter(torch.empty(width, width))
                simple.scale_rate(weight, share)
                self.register_parameter(f"weight_{kind}_l{layer}", weight)

    def initial_state(self, rows: int) -> State:
        """The last tensor is 1 inside a word; it starts at 0, so the first letter begins a word."""
        return (*super().initial_state(rows), next(self.parameters()).new_zeros(1, rows, 1))

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        self._check_separators()
        first_TB, inside_1B = first_letters(ids_TB, state[-1][..., 0] > 0.5, self.separators)
        first_TB1 = first_TB[..., None].to(inputs_TBE.dtype)

        def run(layer: int, x: Tensor, last: State) -> tuple[Tensor, Tensor, Tensor]:
            recurrent = self._recurrent(layer, x, masks)
            before, skip = (tensor[0] for tensor in last)
            u = simple.read_input(self, layer, x)
            output, skip = skipping_recurrence(u, before, skip, first_TB1, recurrent, self.f)
            return output, output[-1:], skip[None]

        raw, masked_outputs, after = layers.run(self, inputs_TBE, state, masks, run)
        return raw, masked_outputs, (*after, inside_1B[..., None].to(raw[-1].dtype))

    def initialize(self, draw: Draw) -> None:
        simple.initialize(self, self.config, draw)

    def _recurrent(self, layer: int, x_TBI: Tensor, masks: Masks) -> Recurrent:
        weight, skip = (
            masks.weight(name, getattr(self, name))
            for name in (f"weight_hh_l{layer}", f"weight_skip_l{layer}")
        )
        shape = (1, x_TBI.shape[1], self.widths[layer])
        mask = masks.locked(f"recurrent/{layer + 1}", shape, x_TBI)
        return Recurrent(weight, skip, None if mask is None else mask[0])

    def _check_separators(self) -> None:
        """Checked here, not when built: counting parameters builds a model without a text."""
        if not self.separators:
            raise CombinationError(
                "a skipping_rnn finds words by the separators between them, and the corpus has "
                "none (its tokens are words, or parts of them). Instead: corpus.level = "
                "'character' or 'byte', or backbone = 'elman'."
            )
