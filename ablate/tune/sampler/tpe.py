"""Tree-structured Parzen estimator: l and g are the densities of the better and the other trials.

x = argmax l(x) / g(x)    over values drawn from l, once `n_startup_trials` were drawn at random
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ablate.config.fields import setting
from ablate.config.registry import register


@dataclass(frozen=True, kw_only=True)
class TPEConfig:
    """Optuna's options; what a search of several workers needs is the default."""

    multivariate: bool = setting(True, doc="estimate the densities of all values together")
    constant_liar: bool = setting(True, doc="count trials that still run among the worse ones")
    n_startup_trials: int = setting(10, doc="trials that are drawn at random first", low=0)
    n_ei_candidates: int = setting(24, doc="values of which the best is suggested", low=1)


@register("sampler", "tpe", config=TPEConfig)
def tpe(config: TPEConfig, seed: int, space: Any) -> Any:
    """Suggest values that are likelier among the better trials than among the others."""
    from optuna.samplers import TPESampler  # here: plans need the name and no Optuna

    return TPESampler(
        seed=seed,
        multivariate=config.multivariate,
        group=config.multivariate,  # the rows whose condition holds differ from trial to trial
        constant_liar=config.constant_liar,
        n_startup_trials=config.n_startup_trials,
        n_ei_candidates=config.n_ei_candidates,
    )
