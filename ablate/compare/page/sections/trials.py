"""Every trial with its result, and how often the test split was read again."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.formats import table_of
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Section, Text
from ablate.compare.text.figures import shown
from ablate.config.identity import StageName
from ablate.config.metrics import SPLITS
from ablate.results.result import result_of
from ablate.store import tokens
from ablate.store.replication import counted
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """A row for each trial, folded up."""
    metric = judged.record.metric
    stages = {trial.id: trial.stage for trial in judged.record.trials}
    rows = []
    for id, journal in judged.journals.items():
        # A record lists the trials of searches by search, without a stage.
        trial, stage = journal.trial, stages.get(id, StageName.SEARCH)
        losses = [metric.loss_of(journal.metrics, split) for split in SPLITS]
        values = ["" if loss is None else shown(metric, loss) for loss in losses]
        fate = result_of(journal).fate(metric)
        rows.append([id, trial.arm, stage, trial.seed, fate, *values])
    left = ["arm", "stage", "status"]
    table = table_of(["trial", "arm", "stage", "seed", "status", *SPLITS], rows, left)
    again = sum(tokens.num_readings(store, trial) for trial in judged.journals)
    note = (
        f"Saved log-probabilities of the test split were read again {counted(again, 'time')}, "
        "after the study's own reading."
    )
    trials = Grid(table, folded=f"{len(rows)} trials")
    yield Section("Trials", [Text(note), trials] if again else [trials])
