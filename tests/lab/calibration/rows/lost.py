"""Seeds that an arm lost because of what they would have been: no verdict in its favour."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import numpy as np

from ablate.compare.across import matched_table
from ablate.compare.across.changes import Trial, changes_of, common_of, groups_of
from ablate.compare.across.lineage import Lineage
from ablate.compare.across.matched import Exchange
from ablate.compare.judged import Judged
from ablate.config.metrics import PERPLEXITY
from ablate.judging.judge import judge
from tests.lab.calibration.draws import ALPHA, p_of
from tests.lab.calibration.row import Case, Limit, Row, Simulated, rate
from tests.lab.calibration.tables import SMALL
from tests.support.studies_by_hand import ByHand

PART = 25  # of the draws, as tables: each takes milliseconds
NOTHING_ELSE = {"corpus": "", "study": "one", "sources": ""}
WHY = "ValueError: Input contains NaN."


def worst_lost(generator: np.random.Generator, num: int, *, seeds: int, way: str) -> Simulated:
    """Equal arms, one of which lost the quarter of its seeds that was its worst."""
    losses = generator.normal(0, np.sqrt(0.5), (num, 2, seeds))
    left = np.sort(np.argsort(losses[:, 1], -1)[:, : seeds - seeds // 4], -1)
    deltas = np.take_along_axis(losses[:, 1] - losses[:, 0], left, -1)
    twin = (p_of(deltas) <= ALPHA) & (deltas.mean(-1) < 0)
    tables = zip(losses[: num // PART], left.tolist(), strict=False)
    ours = [WAYS[way]((5 + SMALL * table).tolist(), seeds_left) for table, seeds_left in tables]
    return Simulated(rate(np.array(ours)), rate(twin))


def in_a_table(losses: list[list[float]], left: Collection[int]) -> bool:
    """Return whether a table calls the arm better whose lost seeds raised an error."""
    study = ByHand({"base": losses[0], "arm": losses[1]})
    for seed in range(len(losses[1])):
        if seed not in left:
            study.end(f"arm-{seed}", "failed", reason=WHY)
    comparison = Judged(study.record, study.journals).arm("arm").comparison
    return comparison is not None and comparison.verdict == "better"


def in_a_file(losses: list[list[float]], left: Collection[int]) -> bool:
    """Return whether `judge` calls the arm better whose lost seeds have no row."""
    rows = [
        {"arm": name, "seed": seed, "loss": loss}
        for name, of_arm in zip(("base", "arm"), losses, strict=True)
        for seed, loss in enumerate(of_arm)
        if name == "base" or seed in left
    ]
    found = judge(rows, arm="arm", metric="loss", better="lower", base="base").arm("arm")
    return found.comparison is not None and found.comparison.verdict == "better"


def in_pairs(losses: list[list[float]], left: Collection[int]) -> bool:
    """Return whether `compare --except` calls the side better whose lost seeds raised an error."""
    trials = [
        Trial(
            {"trial": f"{head}{seed}", "seed": seed, **NOTHING_ELSE},
            PERPLEXITY,
            loss if head == "base" or seed in left else None,
            Lineage("one setting", variant=((("head", head),),)),
        )
        for head, of_head in zip(("base", "arm"), losses, strict=True)
        for seed, loss in enumerate(of_head)
    ]
    groups = groups_of(trials)
    changes = tuple(changes_of(groups, common_of(groups)))
    table = matched_table.table(Exchange(("head",), "valid", len(trials), changes))
    row = dict(zip(table.headings, table.rows[0], strict=True))
    return row["verdict"] == ("better" if row["after"] == "head=arm" else "worse")


WAYS: Mapping[str, Callable[[list[list[float]], Collection[int]], bool]] = {
    "errors in a table": in_a_table,
    "rows absent from a file": in_a_file,
    "errors in `compare --except`": in_pairs,
}
ROW = Row(
    name="Lost seeds",
    promise="An arm that lost its worst seeds to errors of its own code, or has no row for them, "
    "is not called better: in at most 2.5%, the rate of one side of an honest test.",
    draws="Normal noise, two equal arms that share none of it; the worst quarter of one arm's "
    "seeds is lost.",
    of="tables that call this arm better",
    limit=Limit(most=2.5),
    twin="the test of the pairs that are left",
    cases=tuple(
        Case(f"{way}, {seeds} seeds", partial(worst_lost, seeds=seeds, way=way))
        for way in WAYS
        for seeds in (8, 12, 30)
    ),
)
