"""Checks that the trial's seed determines every parameter of a model; an error names those not.

Users' modules may draw at random in any way: PyTorch's layers draw their weights from the global
generator. So a model is built twice from the same streams, under different global seeds, and the
uninitialized memory of `torch.empty` is made to differ: a parameter or buffer that is not the same
both times does not depend on the trial's seed alone. A constant passes, and so does whatever
`initialize(draw)` overwrites.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ablate.config.config import Config
from ablate.config.streams import Streams
from ablate.errors import ConfigError
from ablate.lm.model.assemble import Assembly
from ablate.lm.model.language_model import LanguageModel

UNWRITTEN = {
    torch.empty,
    torch.empty_like,
    torch.empty_permuted,
    torch.empty_strided,
    Tensor.new_empty,
    Tensor.new_empty_strided,
}
RELATIVE, ABSOLUTE = 1e-3, 1e-6  # two draws differ by more; the same draw on a GPU by less


class _Unwritten(TorchFunctionMode):
    """Fills uninitialized memory with nan, which equals nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        fills = func in UNWRITTEN and made.is_floating_point()
        return made.fill_(math.nan) if fills else made


def drawn(build: Callable[[], Assembly], streams: Streams, config: Config) -> Assembly:
    """What `build` assembles, after a check that all parameters are drawn from the streams."""
    streams.seed_global("another build")
    with _Unwritten():  # only here: the model that is trained is built as usual
        another = _tensors(_initialized(build, streams).model)
    streams.seed_global("build")
    assembly = _initialized(build, streams)
    ours = _tensors(assembly.model)
    wrong = [name for name, tensor in ours.items() if not _same(tensor, another.get(name))]
    if wrong:
        raise ConfigError(_refusal(wrong, config))
    return assembly


def _initialized(build: Callable[[], Assembly], streams: Streams) -> Assembly:
    assembly = build()
    assembly.model.initialize(streams)
    return assembly


def _tensors(model: LanguageModel) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


@torch.no_grad()
def _same(ours: Tensor, theirs: Tensor | None) -> bool:
    if theirs is None or ours.shape != theirs.shape:
        return False
    if torch.equal(ours, theirs):
        return True
    return torch.allclose(ours.float(), theirs.float(), rtol=RELATIVE, atol=ABSOLUTE)


def _refusal(names: list[str], config: Config) -> str:
    """The error message: the first of the names, its component, and how to draw it."""
    slot, _, rest = names[0].removeprefix("auxiliary.").partition(".")
    choice = config.slots.get(slot)
    whose = f"{slot} '{choice.name}'" if choice else slot
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return (
        f"{whose}: {names[0]}{more} was not drawn from the trial's streams: its first value "
        "depends on whatever else draws at random. Draw each parameter in `initialize(self, draw)` "
        f'of its module: self.{rest}.data.uniform_(-0.1, 0.1, generator=draw("{rest}")), or give '
        "it a constant."
    )
