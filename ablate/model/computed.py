"""What computed a model's work, for records: compiled kernels, Triton's, or torch instead."""

from __future__ import annotations

from ablate.model.native import library as native
from ablate.model.triton import library as triton

KINDS = {"native": native, "triton": triton}


def uses() -> dict[str, dict[str, int]]:
    """How often this process ran kernels of each kind, and torch what they could."""
    return {name: kind.uses() for name, kind in KINDS.items()}


def computed_by(before: dict[str, dict[str, int]]) -> list[str]:
    """What computed the kernels' work since `before`: "kernels: COMPILER", "torch: WHY NOT"; empty
    if there was none."""
    return [text for name, kind in KINDS.items() for text in kind.computed_by(before[name])]
