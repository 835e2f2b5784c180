"""Tables of tuned arms: a pair is a search. In the pipeline, all arms are offered the same values
and the same seeds, which their searches then pick from."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.trial.stand_in import Noise
from tests.lab.calibration.draws import ALPHA, against_base, holm, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.tables import SMALL, decides, tuned_table


def searched(
    generator: np.random.Generator,
    num: int,
    *,
    arms: int = 2,
    searches: int = 3,
    tried: int,
    seeds: int,
    apart: float = 0.0,
    alike: bool = True,
) -> np.ndarray:
    """Losses [table, arm, search, seed] as trials of `Noise` have them.

    The best rates of arms are `apart` decades from each other, on either side of the middle of what
    is searched, so that all arms are as good once tuned. `alike`: arms are offered the same values.
    """
    offered = (num, 1 if alike else arms, searches, tried)
    best = np.log10(Noise.BEST_RATE) + apart / 2 * (-1.0) ** np.arange(arms)[:, None, None]
    away = Noise.CURVATURE * (generator.uniform(-3, 1, offered) - best) ** 2
    noise = generator.normal(0, Noise.SHARED, offered)
    noise = noise + generator.normal(0, Noise.OWN, away.shape)
    picked = np.argmin(away + noise, -1)[..., None]
    luck = np.take_along_axis(away, picked, -1)
    shared = generator.normal(0, Noise.SHARED, (num, 1, searches, seeds))
    return luck + shared + generator.normal(0, Noise.OWN, (num, arms, searches, seeds))


def equal(generator: np.random.Generator, num: int, **of: float) -> Simulated:
    """Arms that are as good as each other once tuned."""
    losses = searched(generator, num, **of)
    wrong = (holm(p_of(against_base(losses.mean(-1)))) <= ALPHA).any(-1)
    by_tables = [decides(tuned_table(each / SMALL)) for each in losses[:CHECKED]]
    hold_equal(wrong, by_tables, f"tuned, {of}")
    by_seed = holm(p_of(against_base(losses.reshape(*losses.shape[:2], -1))))
    # With the same best rate, arms nearly always pick the same value: seeds do no harm there.
    has_twin = of["seeds"] > 1 and of.get("apart", 0) > 0
    return Simulated(rate(wrong), rate((by_seed <= ALPHA).any(-1)) if has_twin else None)


def _case(what: str, **of: float) -> Case:
    return Case(what, partial(equal, **of))


ROW = Row(
    name="Tuned arms",
    promise="A table of arms that are as good as each other once tuned, by three searches or more, "
    "calls some arm better or worse in at most 5%.",
    draws="Random searches of a learning rate over four decades. Arms are offered the same values "
    "on the same seeds, as in the pipeline; their best rates are 0 or 1 decade apart, "
    "around the middle of the range.",
    of="tables with a wrong word",
    limit=Limit(most=5.5),
    twin="seeds as pairs",
    cases=(
        _case("2 arms, 3 searches of 8 trials, 5 seeds, 0 apart", tried=8, seeds=5),
        _case("2 arms, 3 searches of 8 trials, 5 seeds, 1 apart", tried=8, seeds=5, apart=1.0),
        _case("2 arms, 3 searches of 2 trials, 1 seed, 1 apart", tried=2, seeds=1, apart=1.0),
        _case("2 arms, 3 searches of 30 trials, 5 seeds, 1 apart", tried=30, seeds=5, apart=1.0),
        _case(
            "4 arms, 3 searches of 8 trials, 5 seeds, 1 apart",
            arms=4, tried=8, seeds=5, apart=1.0,
        ),
        _case(
            "2 arms, 5 searches of 8 trials, 5 seeds, 1 apart",
            searches=5, tried=8, seeds=5, apart=1.0,
        ),
    ),
)  # fmt: skip
