"""The mirror's rows of a recorded run.

A config value was recorded as text; in the mirror it is a number, a boolean or NULL again, under
the field's own name (`backbone.units`). A final result (`final_valid_nll`) is `valid_nll`; a metric
by epoch keeps its name.
"""

from __future__ import annotations

import json
from typing import Any

from ablate.config.tasks import task_name
from ablate.record.recorded import ALSO_IN, FINAL, NUM_PARAMETERS, Record
from ablate.record.tracking import HOME, STUDY_RUN, TRIAL

# Columns of `trials` that come from the run's tags: name -> (tag, type).
TAG_COLUMNS: dict[str, tuple[str, str]] = {
    "trial": (TRIAL, "VARCHAR"),
    "study": ("study", "VARCHAR"),
    "scale": ("scale", "VARCHAR"),
    "arm": ("arm", "VARCHAR"),
    "stage": ("stage", "VARCHAR"),
    "seed": ("seed", "BIGINT"),
    "seed_index": ("seed_index", "BIGINT"),
    "in_cell": ("in_cell", "BOOLEAN"),
    "status": ("status", "VARCHAR"),
    "reason": ("reason", "VARCHAR"),
    "paper": ("paper", "VARCHAR"),
    "table_name": ("table", "VARCHAR"),
    "corpus": ("corpus", "VARCHAR"),
    "corpus_digest": ("corpus_digest", "VARCHAR"),
    "parents": ("parents", "VARCHAR"),
    "device": ("device", "VARCHAR"),
    "precision": ("precision", "VARCHAR"),
    "threads": ("threads", "BIGINT"),
    "reads_test": ("reads_test", "BOOLEAN"),
    "runner": ("runner", "VARCHAR"),
    "attempts": ("attempts", "BIGINT"),
    "num_epochs": ("epochs", "BIGINT"),
    "host": ("host", "VARCHAR"),
    "hardware": ("hardware", "VARCHAR"),
    "versions": ("versions", "VARCHAR"),
    "computed_by": ("computed_by", "VARCHAR"),
    "git_commit": ("git_commit", "VARCHAR"),
    "git_dirty": ("git_dirty", "BOOLEAN"),
    "ablate_commit": ("ablate_commit", "VARCHAR"),
    "ablate_dirty": ("ablate_dirty", "BOOLEAN"),
    "config_hash": ("config_hash", "VARCHAR"),
    "result_digest": ("result_digest", "VARCHAR"),
    "study_key": (HOME, "VARCHAR"),
}
RUN_COLUMNS = {  # from the run itself
    "run_id": "VARCHAR",
    "generation": "BIGINT",
    "started_ms": "BIGINT",
    "ended_ms": "BIGINT",
    "also_in": "VARCHAR",
}
RESULTS = {  # numbers that queries may name before any trial has them
    **{f"{split}_{unit}": "DOUBLE" for split in ("valid", "test") for unit in ("nll", "ppl")},
    NUM_PARAMETERS: "DOUBLE",
}
EPOCH_COLUMNS = {"run_id": "VARCHAR", "generation": "BIGINT", "epoch": "BIGINT"}
EPOCH_METRICS = {
    "train_nll": "DOUBLE",
    "valid_nll": "DOUBLE",
    "tokens": "DOUBLE",
    "seconds": "DOUBLE",
}
STUDY: dict[str, str] = dict.fromkeys(
    (
        *("study_key", "study", "scale", "question", "command", "paper", "table_name", "corpus"),
        *("corpus_digest", "level", "base_arm", "status", "record", "run_id"),
    ),
    "VARCHAR",
)


def trial_row(record: Record, generation: int) -> dict[str, Any]:
    """A row of `trials` with values as recorded; DuckDB converts them to their columns' types."""
    guests = {k.removeprefix(ALSO_IN): v for k, v in record.tags.items() if k.startswith(ALSO_IN)}
    facts = {name: record.tags.get(tag) for name, (tag, _) in TAG_COLUMNS.items()}
    facts["runner"] = facts["runner"] and task_name(facts["runner"])
    finals = {
        name.removeprefix(FINAL): value for name, value in record.numbers.items() if _is_final(name)
    }
    own = {
        "run_id": record.run_id,
        "generation": generation,
        "started_ms": record.start,
        "ended_ms": record.end,
        "also_in": json.dumps(guests) if guests else None,
    }
    return {**facts, **finals, **own}


def epoch_rows(record: Record, generation: int) -> list[dict[str, Any]]:
    """A row of `epochs` for each step, without the final results."""
    key = {"run_id": record.run_id, "generation": generation}
    rows = []
    for step in record.steps:
        numbers = {name: value for name, value in step.items() if not _is_final(name)}
        if len(numbers) > 1:  # more than the epoch
            rows.append({**key, **numbers})
    return rows


def _is_final(name: str) -> bool:
    return name.startswith(FINAL) or name == NUM_PARAMETERS


def study_row(record: Record) -> dict[str, Any]:
    tags, params = record.tags, record.params
    return {
        "study_key": tags[STUDY_RUN],
        **{name: tags.get(name) for name in ("study", "scale", "question", "command", "paper")},
        "table_name": tags.get("table"),
        **{name: tags.get(name) for name in ("corpus", "corpus_digest", "status")},
        "level": params.get("level"),
        "base_arm": params.get("base_arm"),
        "record": record.study_json,
        "run_id": record.run_id,
    }
