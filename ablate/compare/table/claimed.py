"""The paper's differences beside ours, as a table below a study's own."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.statistics.claims import Claim, claims
from ablate.compare.table.rows import Summary


def claims_table(summary: Summary) -> Table | None:
    """A row for each published difference that the study has too; None if there is none."""
    rows = claims(summary)
    return of_claims(rows) if rows else None


def of_claims(rows: Sequence[Claim]) -> Table:
    """A row for each claim."""
    others = {claim.against for claim in rows}
    several = len(others) > 1
    base = "the arm named after it" if several else next(iter(others), "")

    def arm(claim: Claim) -> str:
        return f"{claim.arm}, from {claim.against}" if several else claim.arm

    found = " of the settings found" if any(claim.of_settings_found for claim in rows) else ""
    return for_people(
        [
            Column("what the paper claims", arm, left=True),
            Column("split", lambda claim: claim.split, left=True),
            Column("Δ ours", lambda claim: claim.shown_ours),
            Column("Δ paper", lambda claim: claim.shown_theirs),
            Column("means apart,\nours / paper", lambda claim: " / ".join(claim.apart)),
            Column("the paper's difference", lambda claim: claim.text, left=True),
        ],
        rows,
        notes=[
            f"Claims: differences from {base}, which may hold at another scale than the paper's "
            "although the levels do not compare; none is called reproduced. Our intervals are "
            f"each row's own{found}."
        ],
    )
