"""The mirror's rows of a recorded run.

A config value was recorded as text; in the mirror it is a number, a boolean or NULL again, under
the field's own name (`backbone.units`). A final result (`final_valid_nll`) is `valid_nll`; a metric
by epoch keeps its name.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

from ablate.config.tasks import runner_name
from ablate.record.tracking import ALSO_IN, FINAL, NUM_PARAMETERS, StoredRun
from ablate.results.facts import FACTS, NUMBER, OF_STUDIES, TEXT, WHOLE

TRIAL_COLUMNS: dict[str, str] = {
    **{fact.name: fact.kind for fact in FACTS},
    "run_id": TEXT,
    **dict.fromkeys(("generation", "started_ms", "ended_ms"), WHOLE),
    "also_in": TEXT,
}
RESULTS = {  # numbers that queries may name before any trial has them
    **{f"{split}_{unit}": NUMBER for split in ("valid", "test") for unit in ("nll", "ppl")},
    NUM_PARAMETERS: NUMBER,
}
EPOCH_COLUMNS = {"run_id": TEXT, "generation": WHOLE, "epoch": WHOLE}
LABELS = ("trial", "study", "scale", "arm", "seed", "status")  # of the trial, in `epochs`
TIMES = ("started", "ended")  # columns of `trials`
EPOCH_METRICS = dict.fromkeys(("train_nll", "valid_nll", "tokens", "seconds"), NUMBER)
STUDY: dict[str, str] = {
    **{fact.name: fact.kind for fact in OF_STUDIES},
    **dict.fromkeys(("record", "run_id"), TEXT),
}


def trial_row(run: StoredRun, generation: int) -> dict[str, Any]:
    """A row of `trials` with values as recorded; DuckDB converts them to their columns' types."""
    guests = {k.removeprefix(ALSO_IN): v for k, v in run.tags.items() if k.startswith(ALSO_IN)}
    facts = {fact.name: run.tags.get(fact.recorded_as) for fact in FACTS}
    # Older versions recorded an import path.
    facts["runner"] = facts["runner"] and runner_name(facts["runner"])
    taken = {*TRIAL_COLUMNS, *TIMES, *run.params}
    finals = {
        result_column(name.removeprefix(FINAL), taken): value
        for name, value in run.numbers.items()
        if _is_final(name)
    }
    own = {
        "run_id": run.run_id,
        "generation": generation,
        "started_ms": run.start,
        "ended_ms": run.end,
        "also_in": json.dumps(guests) if guests else None,
    }
    return {**facts, **finals, **own}


def epoch_rows(run: StoredRun, generation: int) -> list[dict[str, Any]]:
    """A row of `epochs` for each step, without the final results."""
    key = {"run_id": run.run_id, "generation": generation}
    taken = {*LABELS, *key}
    names = ["epoch", *(name for name in run.numbers if not _is_final(name))]
    columns = {name: result_column(name, taken) for name in names}
    rows = ({columns[n]: v for n, v in step.items() if n in columns} for step in run.steps)
    return [{**key, **numbers} for numbers in rows if len(numbers) > 1]  # more than the epoch


def result_column(name: str, taken: Container[str]) -> str:
    """The column of a number that a trial reports: its name, unless this is taken or empty."""
    return name if name and name.lower() not in taken else f"result.{name}"


def _is_final(name: str) -> bool:
    return name.startswith(FINAL) or name == NUM_PARAMETERS


def study_row(run: StoredRun) -> dict[str, Any]:
    """A row of `studies`, with the study's own record if it can be read."""
    tags, older = run.tags, run.params  # version 0.1.0 had some facts among the params
    names = {fact.name: fact.recorded_as for fact in OF_STUDIES}
    facts = {column: tags.get(name, older.get(name)) for column, name in names.items()}
    return {**facts, "record": run.study_json, "run_id": run.run_id}
