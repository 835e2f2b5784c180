"""Losses and gradients of small models on the device, against the processor's in double precision.

Every technique of the slots below, among the usual ones of the other slots; then models with a
technique of every slot, drawn at random, until time is up. A loss that draws words draws others on
a GPU: it must only be finite there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ablate.config import registry
from ablate.config.fields import describe
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.model.assemble import Assembly, assemble
from ablate.lm.model.masks import OFF, Chance
from benchmarks.gpu.case import first_line
from benchmarks.gpu.table import Compared
from benchmarks.measure import agree

SLOTS = ("words", "backbone", "bridge", "head", "gate", "loss")
USUAL = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}
WIDTH, VOCABULARY, STEPS, ROWS = 8, 23, 6, 3
CLOSE = 1e-3  # of single precision, relative, by the norm of the difference
SECONDS, TINY_SECONDS = 45.0, 4.0
Chosen = Mapping[str, str]


class Text:
    """A text of random words; word 0 separates words."""

    num_words, separators, eos = VOCABULARY, (0,), 1
    vocabulary = tuple(f"word{number}" for number in range(VOCABULARY))

    def __init__(self) -> None:
        self.tokens = _drawn(400).int()

    def counts(self) -> Tensor:
        """Count every word."""
        return torch.bincount(self.tokens, minlength=VOCABULARY)

    def stream(self, split: str) -> Tensor:
        """Return the text, which is every split's."""
        return self.tokens


def compared(device: str, *, tiny: bool) -> Compared:
    """Say how many models agree; an error names those that do not."""
    end = time.perf_counter() + (TINY_SECONDS if tiny else SECONDS)
    singles, wrong = list(_singles()), []
    done = [_tried(chosen, device, wrong) for chosen in singles]
    drawn = [" ".join(c.values()) for c, how in zip(singles, done, strict=True) if how == "drawn"]
    combinations = 0
    for chosen in _combinations():
        if time.perf_counter() > end:
            break
        combinations += _tried(chosen, device, wrong) != "refused"
    if wrong:
        raise ValueError(f"{len(wrong)} models differ; {'; '.join(wrong)}")
    return Compared(
        numbers={"techniques": len(singles), "combinations": combinations, "only_finite": drawn},
        notes=(
            f"{len(singles)} techniques and {combinations} combinations agree to {CLOSE:g}",
            f"only finite, as they draw: {', '.join(drawn)}, and combinations with these",
            "encoders, attentions, regularizers and optimizers are not compared",
        ),
    )


def _singles() -> Iterator[Chosen]:
    """One technique of a slot at a time, and what it needs."""
    for slot in SLOTS:
        for name in registry.names(slot):
            needs = {"head": "pointer_sentinel"} if name == "guided_pointer" else {}
            yield {slot: name, **needs}


def _combinations() -> Iterator[Chosen]:
    chance = random.Random(1)
    while True:
        yield {slot: chance.choice(registry.names(slot)) for slot in SLOTS}


def _tried(chosen: Chosen, device: str, wrong: list[str]) -> str:
    """Compare a model: "agrees", "drawn" or "refused"; what is wrong is added to a list."""
    name = " ".join(chosen.values())
    try:
        return _compare(chosen, device, name)
    except CombinationError:
        return "refused"
    except (Exception, SystemExit) as error:
        wrong.append(f"{name}: {first_line(error)}")
        return "wrong"


def _compare(chosen: Chosen, device: str, name: str) -> str:
    here, there = _assembly(chosen, "cpu"), _assembly(chosen, device)
    here.model.initialize(Streams(1))
    there.model.load_state_dict(here.model.state_dict())
    here.model.double()
    loss, gradients = _loss_and_gradients(here, 3)
    other, others = _loss_and_gradients(there, 3)
    again, _ = _loss_and_gradients(here, 4)
    if loss.item() != again.item():
        if not all(torch.isfinite(x).all() for x in (other, *others.values())):
            raise ValueError("a loss or a gradient is not finite")
        return "drawn"
    agree(other.cpu(), loss, "loss", CLOSE)
    if gradients.keys() != others.keys():
        raise ValueError(f"gradients of {sorted(gradients.keys() ^ others.keys())} on one side")
    agree(*(_joined(side, list(gradients)) for side in (others, gradients)), "gradients", CLOSE)
    return "agrees"


def _assembly(chosen: Chosen, device: str) -> Assembly:
    values = {"embedding.size": WIDTH, **USUAL, **chosen}
    for slot, technique in list(values.items()):
        if slot in registry.slots():
            fields = {info.name for info in describe(registry.get(slot, technique).config)}
            values |= {f"{slot}.units": WIDTH} if "units" in fields else {}
    return assemble(resolve(values), VOCABULARY, device, text=Text())


def _loss_and_gradients(assembly: Assembly, seed: int) -> tuple[Tensor, dict[str, Tensor]]:
    model = assembly.model
    device = model.device
    ids_TB = _drawn(STEPS * ROWS).view(STEPS, ROWS).to(device)
    targets_N = _drawn(STEPS * ROWS + 1)[1:].to(device)
    model.zero_grad()
    passed = model(ids_TB, model.initial_state(ROWS), OFF)
    chance = Chance(Streams(seed, device.type), 0)
    loss = assembly.loss(passed, targets_N, model.words_for(assembly.loss), chance)
    loss.backward()
    named = model.named_parameters()
    return loss.detach(), {name: p.grad for name, p in named if p.grad is not None}


def _joined(gradients: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    return torch.cat([gradients[name].double().cpu().flatten() for name in names])


def _drawn(number: int) -> Tensor:
    """Tokens, always the same."""
    return torch.randint(0, VOCABULARY, (number,), generator=torch.Generator().manual_seed(5))
