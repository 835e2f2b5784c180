"""The paper's differences beside ours, as a table below a study's own."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.statistics.claims import Claim, claims
from ablate.compare.text.figures import NONE


def claims_table(judged: Judged) -> Table | None:
    """A row for each published difference that the study has too, on the split that decides if
    the paper has that; None if there is none. `compare` has every split."""
    every = claims(judged)
    rows = [claim for claim in every if claim.split == judged.split] or every
    return of_claims(rows) if rows else None


def _within_one_run(claim: Claim) -> str:
    return {True: "yes", False: "no", None: NONE}[claim.within_one_run]


def of_claims(rows: Sequence[Claim], title: str = "") -> Table:
    """A row for each claim."""
    others = {claim.against for claim in rows}
    several = len(others) > 1
    base = "the arm named after it" if several else next(iter(others), "")

    def arm(claim: Claim) -> str:
        return f"{claim.arm}, from {claim.against}" if several else claim.arm

    metrics = {claim.metric for claim in rows}

    def split(claim: Claim) -> str:
        return f"{claim.metric.shown}, {claim.split}" if len(metrics) > 1 else claim.split

    found = ", and of the settings found" if any(claim.of_settings_found for claim in rows) else ""
    return for_people(
        [
            Column("the paper's claim", arm, left=True, names=True),
            Column("split", split, left=True, names=True),
            Column("Δ ours", lambda claim: claim.shown_ours, first=1),
            Column("Δ paper", lambda claim: claim.shown_theirs, first=1),
            Column("means apart,\nours/paper", lambda claim: " / ".join(claim.apart)),
            Column("direction", lambda claim: claim.direction, left=True, first=1),
            Column("within one\nrun of ours", _within_one_run, left=True, first=1),
        ],
        rows,
        title=title,
        notes=[
            f"Claims: differences from {base}, which may hold at another scale than the paper's "
            "although the levels do not compare; none is called reproduced. Our intervals are "
            f"each row's own{found}. The paper's number is one run: within one run of ours, if one "
            "more run of ours might give this difference."
        ],
    )
