"""The modules among the objects that a task gave to `run.epochs`: weights, and how many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.config.tensors import Tensor, is_lazy, torch
from ablate.errors import TrialError
from ablate.trial.user.plain_state import members


def modules_of(saved: tuple[Any, ...]) -> dict[int, torch.nn.Module]:
    """The modules among the saved objects, by their number."""
    numbered = enumerate(saved)
    return {index: thing for index, thing in numbered if isinstance(thing, torch.nn.Module)}


def weights_of(saved: tuple[Any, ...]) -> dict[str, Tensor]:
    """The tensors of the modules among the saved objects."""
    return {
        f"{index}.{name}": tensor
        for index, module in modules_of(saved).items()
        for name, tensor in module.state_dict().items()
        if isinstance(tensor, Tensor) and not is_lazy(tensor)
    }


def num_parameters(saved: tuple[Any, ...]) -> int | None:
    """The parameters of the modules, of which copies (the best so far, a mean) have none."""
    modules = list(modules_of(saved).values())
    if not modules:
        return None
    # An optimizer's groups tell which module is trained, and which is a copy of it.
    groups = (getattr(thing, "param_groups", ()) for thing in saved)
    trained = {id(p) for each in groups for group in each for p in group["params"]}
    originals = [_sizes(module) for module in modules if _is_trained(module, trained)]
    counted = [
        module
        for module in modules
        if _is_trained(module, trained) or _sizes(module) not in originals
    ]
    parameters = {id(p): p for module in counted for p in module.parameters() if not is_lazy(p)}
    return sum(parameter.numel() for parameter in parameters.values())


def _is_trained(module: torch.nn.Module, trained: set[int]) -> bool:
    return any(id(parameter) in trained for parameter in module.parameters())


def _sizes(module: torch.nn.Module) -> list[tuple[int, ...]]:
    return [tuple(p.shape) for p in module.parameters() if not is_lazy(p)]


def memory_of(modules: Mapping[int, torch.nn.Module]) -> set[int]:
    """Where the modules' tensors lie."""
    tensors = (tensor for module in modules.values() for tensor in module.state_dict().values())
    return {place for tensor in tensors if (place := _place(tensor))}


def _place(tensor: Any) -> int:
    """Where a tensor lies; 0 if it has no memory of its own, or is none."""
    if not isinstance(tensor, Tensor) or is_lazy(tensor) or tensor.layout != torch.strided:
        return 0
    return tensor.untyped_storage().data_ptr()


def check_copies(thing: dict[Any, Any], first: Sequence[Any], trained: set[int]) -> None:
    """Refuse weights in a dict that are the ones in training: as the best so far they go on
    changing, until the trial is cut."""
    known = {id(member) for member in first}
    for member in members(thing):
        if id(member) not in known and _place(member) in trained - {0}:
            raise TrialError(
                "a dict given to run.epochs() holds the weights in training, not a copy, so they "
                "go on changing. Instead: copy.deepcopy(model.state_dict())."
            )
