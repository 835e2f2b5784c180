"""A study's records, made into the numbers of its table. Pure; `table.py` renders what it gives.

What enters a cell is said in `cells.py`, what may be called lower or higher in `against.py`, and
by which test in `statistics.py`. Arms are compared on the test split where it was read, otherwise
on validation: one split and one family of comparisons a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ablate.compare.against import Against
from ablate.compare.cells import Cells
from ablate.compare.effects import effects
from ablate.compare.rows import ArmSummary, Summary
from ablate.compare.units import unit_of
from ablate.compare.verdicts import verdicts
from ablate.journal import Journal
from ablate.study_record import StudyRecord

ALPHA = 0.05  # of the whole table


def summarise(
    record: StudyRecord, journals: Mapping[str, Journal], *, alpha: float = ALPHA
) -> Summary:
    """The table's numbers from what the store knows. A trial without a journal is missing."""
    unit = unit_of(record.level)
    cells = Cells(record, journals, unit)
    a_pair = seeds_a_pair(record)
    against = Against(cells.arms(), unit, alpha, seeds_a_pair=a_pair)
    arms = against.compared()
    return Summary(
        record=record,
        unit=unit.name,
        split=cells.split,
        alpha=alpha,
        num_comparisons=len(against.others) if against.base else 0,
        floor={split: unit.show(nats) for split, nats in record.floor.items()},
        arms=tuple(arms),
        ensembles=tuple(cells.ensembles()),
        notes=tuple(_notes(record, arms)),
        effects=effects(record, arms, unit, alpha=alpha, seeds_a_pair=a_pair),
        verdicts=verdicts(record, arms, journals, unit, alpha=alpha),
    )


def seeds_a_pair(record: StudyRecord) -> int:
    """The search varies too: where it was repeated, a pair is a repeat, over all its seeds."""
    repeats = {search.repeat for search in record.searches if search.seed_index is None}
    return record.num_seeds if len(repeats) > 1 else 1


def _notes(record: StudyRecord, arms: list[ArmSummary]) -> Iterable[str]:
    """What is odd about this very table."""
    yield from record.notes
    base = next((arm for arm in arms if arm.is_base), None)
    if base is None:
        yield f"The base arm '{record.base_arm}' is not in this table: nothing to compare with."
    elif not base.values:
        yield f"The base arm '{base.name}' has no result yet: nothing to compare with."
    if len({s.repeat for s in record.searches if s.seed_index is None}) == 1:
        yield "Each arm was tuned by one search: verdicts are on the settings that it found."
    for arm in arms:
        below = [s for s, c in arm.cells.items() if c.above_floor is not None and c.above_floor < 0]
        if below:
            yield (
                f"{arm.name} is below the best possible on {' and '.join(below)}: "
                "look for a leak before believing it."
            )
