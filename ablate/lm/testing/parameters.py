"""The contracts of techniques with parameters: backbones, bridges, heads and gates."""

from __future__ import annotations

import torch

from ablate.config.streams import Streams
from ablate.lm.model.assemble import assemble, count_parameters
from ablate.lm.model.mixture import log_probs
from ablate.lm.testing.subject import (
    VOCABULARY,
    RandomPairs,
    SmallModel,
    Subject,
    require,
    require_equal,
    require_finite,
)


def assembled_without_memory(subject: Subject) -> None:
    """It can be built on torch's meta device, to count its parameters."""
    small = subject.small()
    read = RandomPairs.num_source_words
    on_meta = assemble(small.config, VOCABULARY, "meta", source_vocabulary=read).model
    require(all(p.is_meta for p in on_meta.parameters()), "some parameters are not on meta.")
    num = sum(p.numel() for p in small.model.parameters())
    counted = count_parameters(small.config, VOCABULARY, read)
    require(counted == num, f"{num} parameters; counted without memory: {counted}.")


def parameters_are_drawn_and_trained(subject: Subject) -> None:
    """`initialize` sets every parameter, and each has a finite gradient."""
    small = subject.small()
    for parameter in small.model.parameters():
        parameter.data.fill_(torch.nan)  # what `initialize` leaves out is seen
    small.model.initialize(Streams(1))
    require_finite(dict(small.model.named_parameters()), "the initial values")
    gradients = small.gradients()
    without = {name for name, _ in small.model.named_parameters()} - gradients.keys()
    require(not without, f"no gradient: {', '.join(sorted(without))}.")
    require_finite(gradients, "the gradients")


def same_seed_same_bits(subject: Subject) -> None:
    """Two models with one seed are equal bit by bit, whatever was drawn between them."""
    first = subject.small(dtype=torch.float32)
    torch.rand(3)  # the global generator must not matter
    second = subject.small(dtype=torch.float32)
    require_equal(first.model.state_dict(), second.model.state_dict(), "different initial values")
    outputs = [log_probs(small.run().mixture) for small in (first, second)]
    require(torch.equal(*outputs), "the same parameters give different probabilities.")
    require_equal(first.gradients(), second.gradients(), "different gradients")


def saved_and_loaded(subject: Subject) -> None:
    """A state dict contains everything that its output depends on."""
    # Of another seed, so that only the loaded state can make the outputs equal.
    first, second = subject.small(), subject.small(seed=2)
    second.model.load_state_dict(first.model.state_dict())
    outputs = [log_probs(small.run().mixture) for small in (first, second)]
    require(torch.equal(*outputs), "a model gives different outputs after its state is loaded.")


def leaves_others_draws_alone(subject: Subject) -> None:
    """The initial parameters of other techniques are the same as without it."""
    present = subject.small().model.state_dict()
    for head in ("softmax", "mos", "doc"):
        absent = SmallModel({"head": head}, pairs=subject.reads_pairs).model.state_dict()
        shared = {
            name: value
            for name, value in present.items()
            if name in absent and value.shape == absent[name].shape
            if name.partition(".")[0] != subject.slot
        }
        if subject.slot != "words":
            require("embedding.weight" in shared, "the word vectors change in shape.")
        require_equal(shared, absent, "different initial values")
