"""The paper's differences beside ours, as a table below a study's own."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.statistics.claims import Claim, claims
from ablate.compare.table.rows import Summary
from ablate.config.metrics import SPLIT


def claims_table(summary: Summary) -> Table | None:
    """A row for each published difference that the study has too; None if there is none."""
    rows = claims(summary)
    return of_claims(rows) if rows else None


def of_claims(rows: Sequence[Claim]) -> Table:
    """A row for each claim."""
    return for_people(
        [
            Column("the paper's claims, and ours", _compared, left=True),
            Column("split", _split, left=True),
            Column("Δ ours", lambda claim: claim.shown_ours),
            Column("Δ published", lambda claim: claim.shown_theirs),
            Column("of Δ", lambda claim: claim.text, left=True),
        ],
        rows,
        notes=[
            "Claims: differences, which may hold at another scale than the paper's although the "
            "levels do not compare. None of them is a verdict on the paper."
        ],
    )


def _compared(claim: Claim) -> str:
    return f"{claim.arm}, from {claim.against}"


def _split(claim: Claim) -> str:
    return claim.split if claim.metric.of == SPLIT else ""
