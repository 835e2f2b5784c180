"""Values drawn at random, each alike; of a range on a log scale, by its logarithm."""

from __future__ import annotations

from typing import Any

from ablate.config.registry import NoSettings, register


@register("sampler", "random")
def random(config: NoSettings, seed: int, space: Any) -> Any:
    """Draw every value at random."""
    from optuna.samplers import RandomSampler  # here: plans need the name and no Optuna

    return RandomSampler(seed=seed)
