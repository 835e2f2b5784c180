"""What every technique with parameters owes: a backbone, a bridge, a head, a gate."""

from __future__ import annotations

import torch

from ablate.config.streams import Streams
from ablate.model.assemble import assemble, count_parameters
from ablate.model.mixture import log_probs
from ablate.testing.subject import (
    VOCABULARY,
    SmallModel,
    Subject,
    require,
    require_equal,
    require_finite,
)


def assembled_without_memory(subject: Subject) -> None:
    """It can be built on torch's meta device, to count its parameters."""
    small = subject.small()
    on_meta = assemble(small.config, VOCABULARY, "meta").model
    require(all(p.is_meta for p in on_meta.parameters()), "some parameters are not on meta.")
    num = sum(p.numel() for p in small.model.parameters())
    counted = count_parameters(small.config, VOCABULARY)
    require(counted == num, f"{num} parameters; counted without memory: {counted}.")


def parameters_are_drawn_and_trained(subject: Subject) -> None:
    """`initialize` sets every parameter, and each has a finite gradient."""
    small = subject.small()
    for parameter in small.model.parameters():
        parameter.data.fill_(torch.nan)
    small.model.initialize(Streams(1))
    require_finite(dict(small.model.named_parameters()), "the first values")
    gradients = small.gradients()
    without = {name for name, _ in small.model.named_parameters()} - gradients.keys()
    require(not without, f"no gradient: {', '.join(sorted(without))}.")
    require_finite(gradients, "the gradients")


def same_seed_same_bits(subject: Subject) -> None:
    """Two models of one seed give the same bits, whatever was drawn between them."""
    first = subject.small(dtype=torch.float32)
    torch.rand(3)
    second = subject.small(dtype=torch.float32)
    require_equal(first.model.state_dict(), second.model.state_dict(), "other first values")
    outputs = [log_probs(small.run().mixture) for small in (first, second)]
    require(torch.equal(*outputs), "the same parameters give other probabilities.")
    require_equal(first.gradients(), second.gradients(), "other gradients")


def saved_and_loaded(subject: Subject) -> None:
    """A state dict has everything that its output depends on."""
    first, second = subject.small(), subject.small(seed=2)
    second.model.load_state_dict(first.model.state_dict())
    outputs = [log_probs(small.run().mixture) for small in (first, second)]
    require(torch.equal(*outputs), "a model loaded from another's state gives other outputs.")


def leaves_others_draws_alone(subject: Subject) -> None:
    """The parameters of other techniques start as they do without it."""
    ours = dict(subject.small().model.named_parameters())
    for head in ("softmax", "mos", "doc"):
        theirs = dict(SmallModel({"head": head}).model.named_parameters())
        shared = [
            name
            for name in ours.keys() & theirs.keys()
            if ours[name].shape == theirs[name].shape and name.partition(".")[0] != subject.slot
        ]
        require("embedding.weight" in shared, "the word vectors have another shape.")
        require_equal({name: ours[name] for name in shared}, theirs, "they start otherwise")
