"""A device that is pretended: its tensors are numbers of the processor behind a border.

On a machine without a GPU, torch aborts when it differentiates fake tensors of a GPU. So these
tensors have values, and say that they are on another device, `pretended`: torch lets Python define
one. What crosses the border, or waits for the device, is noted with the place in `ablate/` that
asked for it. What a GPU refuses is refused: tensors of both devices in one operation.

To use it changes what torch says of this machine's devices, so only processes of its own may.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

import ablate

NAME = "pretended"
PACKAGE = str(Path(ablate.__file__).parent)
aten = torch.ops.aten
# A GPU's part of these ends on the processor: a number, or a shape that depends on values.
WAITING = {
    aten._local_scalar_dense.default: "a number is read",
    aten.nonzero.default: "a shape depends on values",
    aten.masked_select.default: "a shape depends on values",
    aten.unique_dim.default: "a shape depends on values",
    aten.unique_consecutive.default: "a shape depends on values",
    aten._unique.default: "a shape depends on values",
    aten._unique2.default: "a shape depends on values",
    aten.repeat_interleave.Tensor: "a shape depends on values",
    aten.bincount.default: "a shape depends on values",
    aten.equal.default: "a number is read",
    aten.multinomial.default: "a number is read",  # it checks the weights
    aten._linalg_check_errors.default: "a number is read",
    aten._linalg_eigh.default: "a number is read",  # whether it failed, as in those that follow
    aten._linalg_svd.default: "a number is read",
    aten.linalg_qr.default: "a number is read",
}
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)


def _lstm_cell(igates, hgates, c, bias_i=None, bias_h=None):
    """torch's fused cell of a GPU, which a processor has not: h, c, and the gates."""
    sums = igates + hgates + (0 if bias_i is None else bias_i + bias_h)
    i, f, g, o = sums.chunk(4, 1)
    gates = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = gates[1] * c + gates[0] * gates[2]
    return gates[3] * after.tanh(), after, torch.cat(gates, 1)


def _lstm_cell_backward(grad_h, grad_c, c, after, gates, has_bias):
    i, f, g, o = gates.chunk(4, 1)
    tanh = after.tanh()
    grad_h = torch.zeros_like(after) if grad_h is None else grad_h
    inner = grad_h * o * (1 - tanh**2) + (0 if grad_c is None else grad_c)
    slopes = (
        inner * g * i * (1 - i),
        inner * c * f * (1 - f),
        inner * i * (1 - g**2),
        grad_h * tanh * o * (1 - o),
    )
    grad = torch.cat(slopes, 1)
    return grad, inner * f, grad.sum(0) if has_bias else None


def _gru_cell(igates, hgates, h, bias_i=None, bias_h=None):
    """The same of a GRU: h, and the gates, the state's part of the candidate, and the state."""
    if bias_i is not None:
        igates, hgates = igates + bias_i, hgates + bias_h
    (r, z, n), (own_r, own_z, own_n) = igates.chunk(3, 1), hgates.chunk(3, 1)
    r, z = (r + own_r).sigmoid(), (z + own_z).sigmoid()
    n = (n + r * own_n).tanh()
    return n + z * (h - n), torch.cat((r, z, n, h, own_n), 1)


def _gru_cell_backward(grad, kept, has_bias):
    r, z, n, h, own_n = kept.chunk(5, 1)
    of_n = grad * (1 - z) * (1 - n**2)
    of_r, of_z = of_n * own_n * r * (1 - r), grad * (h - n) * z * (1 - z)
    inputs, states = torch.cat((of_r, of_z, of_n), 1), torch.cat((of_r, of_z, of_n * r), 1)
    biases = (inputs.sum(0), states.sum(0)) if has_bias else (None, None)
    return inputs, states, grad * z, *biases


INSTEAD = {
    # torch resolves lazy conjugates and negatives above this border, so below it they are computed.
    aten._conj.default: torch.conj_physical,
    aten._neg_view.default: torch.neg,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
}
CREATED = "made on the processor"
LEAVES, ENTERS = "leaves the device", "enters the device"


class Pretended(Tensor):
    """A tensor of the device; `numbers` is the processor's tensor with its values."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> Pretended:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=torch.device(NAME, 0),
        )
        made.numbers = numbers
        return made

    def __repr__(self) -> str:
        return f"Pretended({self.numbers!r})"

    def tolist(self) -> Any:
        _border.note(WAITING[aten._local_scalar_dense.default])
        return self.numbers.tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _computed(func, args, kwargs or {})


class Generator(torch.Generator):
    """A generator of the device: it draws the processor's numbers."""

    @property
    def device(self) -> torch.device:
        return torch.device(NAME)


class Border(TorchDispatchMode):
    """Inside, the device exists; `notes` counts (phase, what happened, where) for each phase."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: Counter[tuple[str, str, str]] = Counter()
        self.phase = ""

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Inside, notes are of this phase, unless one is under way."""
        before, self.phase = self.phase, self.phase or phase
        try:
            yield
        finally:
            self.phase = before

    def note(self, what: str) -> None:
        if self.phase:
            self.notes[self.phase, what, _place()] += 1

    def __enter__(self) -> Border:
        global _border
        _border = self
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _computed(func, args, kwargs or {})


_border = Border()


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation on the values, and its results on the device where they belong."""
    tensors = list(_tensors((args, *kwargs.values())))
    there = [x for x in tensors if isinstance(x, Pretended)]
    here = [x for x in tensors if not isinstance(x, Pretended)]
    asked = kwargs.get("device")
    stays = _stays(func, asked, there, args)
    if asked is not None:
        kwargs = {**kwargs, "device": "cpu"}
    compute = INSTEAD.get(func, func)
    on_values = {name: _mapped(_numbers, x) for name, x in kwargs.items()}
    result = compute(*_mapped(_numbers, args), **on_values)
    if there or not (stays and _one_number(result)):
        _note(func, there, here, args, stays)
    if stays:
        return result if func is not aten.copy_.default else args[0]
    known = {id(tensor.numbers): tensor for tensor in there}
    return _mapped(lambda x: _on_device(x, known), result)


# Arguments and results nest in lists and tuples alone. With torch's functions for any nesting, the
# tests take an eighth longer.
def _mapped(change: Callable[[Any], Any], x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_mapped(change, each) for each in x)
    return [_mapped(change, each) for each in x] if isinstance(x, list) else change(x)


def _tensors(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, tuple | list):
        for each in x:
            yield from _tensors(each)


def _stays(func: Any, asked: Any, there: list[Pretended], args: Any) -> bool:
    """Whether the results are the processor's."""
    if func is aten.copy_.default:
        return not isinstance(args[0], Pretended)
    return not there if asked is None else torch.device(asked).type != NAME


def _note(func: Any, there: list[Pretended], here: list[Tensor], args: Any, stays: bool) -> None:
    crosses = func is aten._to_copy.default or func is aten.copy_.default
    if crosses and there and stays:
        return _border.note(LEAVES)
    if crosses and here and not stays:
        return _border.note(ENTERS)
    if stays:
        return _border.note(CREATED)
    if func in WAITING:
        _border.note(WAITING[func])
    if func in INDEXED and any(
        x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1]
    ):
        _border.note("a shape depends on values")
    mixed = [tuple(x.shape) for x in here if x.dim()]
    if mixed and there:
        raise RuntimeError(f"{func} of tensors on both devices; of the processor: {mixed}")
    return None


def _one_number(result: Any) -> bool:
    """Whether the processor only counts, as torch's Adam does its steps."""
    return all(x.numel() == 1 for x in _tensors(result))


def _numbers(x: Any) -> Any:
    return x.numbers if isinstance(x, Pretended) else x


def _on_device(x: Any, known: dict[int, Pretended]) -> Any:
    if not isinstance(x, Tensor):
        return x
    return known[id(x)] if id(x) in known else Pretended(x)


def _place() -> str:
    """The innermost place in the package that is on the stack, or torch's backward pass."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE):
            return f"{Path(file).relative_to(PACKAGE)}: {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "torch"


class _Module(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


def _empty(size: Any, **options: Any) -> Tensor:
    """What torch's own code asks for, past the border."""
    return Pretended(torch.empty(size, dtype=options.get("dtype"), device="cpu"))


def _empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    made = torch.empty_strided(size, stride, dtype=options.get("dtype"), device="cpu")
    return Pretended(made)


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _numbers(target).copy_(_numbers(source))
    return target


def set_up() -> torch.library.Library:
    """Let torch know the device, as long as the library is kept."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    library.impl("empty.memory_format", _empty)
    library.impl("empty_strided", _empty_strided)
    library.impl("_copy_from", _copy_from)
    return library
