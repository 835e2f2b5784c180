"""Intervals over seeds and text: a difference of arms that were measured block by block."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics import anytime, looks
from ablate.compare.statistics.anytime import AT_ANY_TIME
from ablate.store.study_record import InterimLook
from tests.lab.calibration.draws import ALPHA, half_width
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.tables import decides, table_of

SMALL_CELLS = 0.5  # the noise of one seed on one block, in that of a block
PLANNED = (5, 8, 12)
WHENEVER = tuple(range(3, 31))
AT_ONCE = 1_000  # draws, to bound the memory
BLOCKS = 30
AS_FAR_AS = 50  # draws of looks that are judged as tables: each takes a tenth of a second


def crossed(
    generator: np.random.Generator, num: int, *, seeds: int, blocks: int, text: float
) -> Simulated:
    """Differences around 0. `text`: the error of the mean that blocks make, in that of seeds."""
    of_seed = generator.normal(0, np.sqrt(seeds), (num, seeds))
    of_block = text * generator.normal(0, np.sqrt(blocks), (num, blocks))
    # Means over the cells of a row and of a column; the two have one mean over all.
    cells = SMALL_CELLS * text * np.sqrt(blocks)
    over_blocks = cells / np.sqrt(blocks) * generator.normal(size=(num, seeds))
    over_seeds = cells / np.sqrt(seeds) * generator.normal(size=(num, blocks))
    over_seeds += (over_blocks.mean(1) - over_seeds.mean(1))[:, None]
    means_s = of_seed + over_blocks + of_block.mean(1)[:, None]
    means_b = of_block + over_seeds + of_seed.mean(1)[:, None]
    printed = half_width(means_s)
    half = np.hypot(printed, half_width(means_b))
    covered = np.abs(means_s.mean(1)) <= half
    of_blocks = np.repeat((means_b - means_s.mean(1)[:, None])[:CHECKED, None], seeds, 1)
    by_tables = [_covers(*one) for one in zip(means_s, of_blocks, strict=False)]
    hold_equal(covered, by_tables, f"{seeds} seeds, {blocks} blocks")
    alone = np.abs(means_s.mean(1)) <= printed
    return Simulated(rate(covered), rate(alone) if text else None)


def looked_at(
    generator: np.random.Generator, num: int, *, at: tuple[int, ...], text: float
) -> Simulated:
    """The same at several looks. `text`: in the error that five seeds make."""
    every, plain = [], []
    for begin in range(0, num, AT_ONCE):
        cells = _cells(generator, min(AT_ONCE, num - begin), at[-1], text)
        half, alone, centres = zip(*(_at_look(cells[:, :seeds], at) for seeds in at), strict=True)
        every.append((np.abs(centres) <= half).all(0))
        plain.append((np.abs(centres) <= alone).all(0))
        if not begin:
            made = {"looks": at if at == PLANNED else at[:1], "made": tuple(map(_look, at))}
            means = cells[:AS_FAR_AS].mean(-1)
            pairs = zip(means, cells[:AS_FAR_AS] - means[..., None], strict=True)
            hold_equal(every[0], [_covers(*one, **made) for one in pairs], f"looks at {at}")
    return Simulated(rate(np.concatenate(every)), rate(np.concatenate(plain)))


def _cells(generator: np.random.Generator, num: int, seeds: int, text: float) -> np.ndarray:
    """[draw, seed, block] of differences around 0, with a spread of 1 over seeds."""
    of_block = text * np.sqrt(BLOCKS / 5)
    own = generator.normal(0, 1, (num, seeds, 1))
    cells = SMALL_CELLS * of_block * generator.normal(size=(num, seeds, BLOCKS))
    return own + generator.normal(0, of_block, (num, 1, BLOCKS)) + cells


def _at_look(cells: np.ndarray, at: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Half of the interval over seeds and text, half of that over seeds, and the mean."""
    means, blocks = cells.mean(2), cells.mean(1)
    seeds = means.shape[1]
    if at == PLANNED:
        level = looks.largest_p(ALPHA, PLANNED)
        alone, of_text = half_width(means, level), half_width(blocks, level)
    else:
        t = anytime.t_at(1 / ALPHA, np.array([seeds]))[0]
        alone = t * means.std(1, ddof=1) / np.sqrt(seeds)
        of_text = half_width(blocks, ALPHA * AT_ANY_TIME.share)
    return np.hypot(alone, of_text), alone, means.mean(1)


def _look(num: int) -> InterimLook:
    return InterimLook(num=num)


def _covers(means: np.ndarray, deviations: np.ndarray, **fields: object) -> bool:
    """Whether the table of an arm that differs so from its base, which is 0, decides nothing."""
    losses = np.stack([np.zeros_like(means), means])
    table = table_of(losses, None, np.stack([np.zeros_like(deviations), deviations]), **fields)
    (comparison,) = (arm.comparison for arm in table.arms if arm.comparison)
    assert table.blocks is not None
    assert comparison.contains_0 != decides(table)
    return comparison.contains_0


ROW = Row(
    name="Seeds and text",
    promise="The 95% interval over seeds and text (or items) covers the difference that new seeds "
    "would have on new text of the same kind; over looks, it does at all of them.",
    draws="Normal noise of seeds, of blocks, and of each seed on each block. The error that text "
    "makes in the mean is given in that of seeds; over looks, in that of five seeds.",
    of="intervals that cover the difference",
    limit=Limit(least=94.5),
    twin="the interval over seeds alone",
    cases=(
        *(
            Case(
                f"{seeds} seeds, {blocks} blocks, text {text:g}",
                partial(crossed, seeds=seeds, blocks=blocks, text=text),
            )
            for seeds, blocks in ((3, 28), (5, 90), (12, 100))
            for text in (0.0, 1.0, 3.0)
        ),
        *(
            Case(f"{what}, text {text:g}", partial(looked_at, at=at, text=text))
            for what, at in (
                ("planned looks at 5, 8, 12 seeds", PLANNED),
                ("looks at 3, 4, .. 30 seeds without a plan", WHENEVER),
            )
            for text in (1.0, 2.0)
        ),
    ),
)
