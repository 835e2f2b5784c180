"""The contracts of every backbone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ablate.config.registry import EXACT, WINDOW
from ablate.config.streams import Streams
from ablate.lm.model.flow import State
from ablate.lm.model.masks import OFF, Chance, Masks, SiteRecorder
from ablate.lm.model.regularizer import Regularizer
from ablate.lm.model.slots import Backbone
from ablate.lm.testing.subject import ROWS, STEPS, Subject, require


class ForwardPass:
    """A backbone, its inputs and its outputs."""

    def __init__(self, subject: Subject, masks: Masks = OFF) -> None:
        small = subject.small()
        self.config = small.config["backbone"].config
        self.backbone: Backbone = small.model.backbone  # type: ignore[assignment]
        # Initial word vectors are within 0.1: ten times larger, their effect is easily seen.
        self.inputs = small.model.embedding(small.ids).detach() * 10
        self.ids = small.ids
        # Not the initial state, whose zeros would hide what a state does.
        self.state = tuple(torch.randn_like(s) for s in self.backbone.initial_state(ROWS))
        self.raw, self.masked, self.after = self.backbone(self.inputs, self.ids, self.state, masks)


def widths_and_states(subject: Subject) -> None:
    """Layers are as wide as `widths` says, and the state keeps its shape."""
    run = ForwardPass(subject)
    shapes = [tuple(x.shape) for x in run.raw]
    expected = [(STEPS, ROWS, width) for width in run.backbone.widths]
    require(shapes == expected, f"outputs are {shapes}, not {expected}.")
    require(all(map(torch.equal, run.raw, run.masked)), "outputs are masked without masks.")
    before, after = ([tuple(s.shape) for s in state] for state in (run.state, run.after))
    require(before == after, f"a state's shapes change from {before} to {after}.")
    require(all(shape[1] == ROWS for shape in before), "dimension 1 of a state is not the rows.")


def first_state_is_zero(subject: Subject) -> None:
    """The state before the first token is zero."""
    state = subject.small().model.backbone.initial_state(2)
    require(not any(s.any() for s in state), "initial_state() is not zero.")


SPLITS = ((2, 4), (5, 1), (1, 1, 1, 1, 1, 1))  # of the six steps into windows


def memory_is_what_it_says(subject: Subject) -> None:
    """Two windows or more, each from the state before, give the outputs of one window; unless
    `memory` is "window", and then they do not."""
    run = ForwardPass(subject)
    memory = run.backbone.memory_of(run.config)
    require(memory in (EXACT, WINDOW), f"memory = '{memory}', neither '{EXACT}' nor '{WINDOW}'.")
    splits = [_split(run, lengths) for lengths in SPLITS]
    if memory == EXACT:
        for outputs, after in splits:
            _close(outputs, run.raw)
            _close(after, run.after)
        return
    changed = [out for outputs, _ in splits for out in zip(outputs, run.raw, strict=True)]
    same = all(torch.allclose(one, other) for one, other in changed)
    require(not same, f"memory = '{WINDOW}', and splits change nothing. Instead: '{EXACT}'.")


def _split(run: ForwardPass, lengths: Sequence[int]) -> tuple[list[Tensor], State]:
    """Each layer's outputs over windows of these lengths, and the state after the last."""
    windows, state = [], run.state
    for inputs, ids in zip(run.inputs.split(lengths), run.ids.split(lengths), strict=True):
        raw, _, state = run.backbone(inputs, ids, state, OFF)
        windows.append(raw)
    return [torch.cat(layer) for layer in zip(*windows, strict=True)], state


def rows_are_independent(subject: Subject) -> None:
    """A row's outputs do not depend on the other rows of the batch."""
    run, order = ForwardPass(subject), [2, 0, 1]  # no row stays where it was
    state = tuple(s[:, order] for s in run.state)
    turned, _, after = run.backbone(run.inputs[:, order], run.ids[:, order], state, OFF)
    _close(turned, [x[:, order] for x in run.raw])
    _close(after, [s[:, order] for s in run.after])


def nothing_is_read_ahead(subject: Subject) -> None:
    """A step's outputs depend on the tokens so far, and not on later ones."""
    run = ForwardPass(subject)
    later, ids = run.inputs.clone(), run.ids.clone()
    later[4:] = 1 - later[4:]  # a norm would take out what is added to all units
    ids[4:] = 0
    changed, _, _ = run.backbone(later, ids, run.state, OFF)
    _close([x[:4] for x in changed], [x[:4] for x in run.raw])
    same = torch.allclose(changed[-1][4:], run.raw[-1][4:])
    require(not same, "outputs do not depend on tokens.")


def masks_apply_after_each_layer(subject: Subject) -> None:
    """Masks act at "hidden/1", ... between layers, and at "output" after the last."""
    double = _Double()
    run = ForwardPass(subject, Masks((double,), Chance(Streams(1), 0)))
    _close(run.masked, [2 * x for x in run.raw])
    between = [f"hidden/{layer}" for layer in range(1, len(run.backbone.widths))]
    # A backbone may ask for further masks, as on its inputs or its recurrence.
    sites = [site for site in double.sites if site.partition("/")[0] in ("hidden", "output")]
    require(sites == [*between, "output"], f"masks were applied at {', '.join(sites)}.")


def sites_are_what_it_says(subject: Subject) -> None:
    """Masks are asked for at no sites beyond those in `sites`, unless that is None."""
    recorder = SiteRecorder()
    run = ForwardPass(subject, Masks((recorder,), Chance(Streams(1), 0)))
    if run.backbone.sites is not None:
        unsaid = recorder.sites - run.backbone.sites - {"input"}  # masks of gates on their inputs
        require(not unsaid, f"masks are asked for at {', '.join(unsaid)}, and `sites` has not it.")


class _Double(Regularizer):
    """A mask whose effect is known: it doubles whatever it is applied to."""

    def __init__(self) -> None:
        self.sites: list[str] = []

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        self.sites.append(site)
        return 2 * x_TBH


def _close(actual, expected) -> None:
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)
