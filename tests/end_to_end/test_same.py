"""A trial is the same wherever it is stored, whatever study has it, however it is run."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import Any

import pytest

from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store

CONFIG = """
corpus = {{ train_tokens = 1000, eval_tokens = 200 }}
embedding.size = 6
head = "softmax"
optimizer = {{ name = "nt_asgd", learning_rate = {rate} }}
training = {{ epochs = 2, batch_size = 4, window = 20 }}
regularizer.weight_drop.rate = 0.2

[backbone]
name = "lstm"
num_layers = 1
units = 6
"""


@pytest.fixture(scope="module")
def whole(places) -> Any:
    """A study that has been run, with fine-tuning and ensembles."""
    place = places("small.py")
    place.ablate("study", "small.py", "--scale", "whole", "--local").succeeded()
    return place


def outcomes(store: Store) -> dict[str, Any]:
    """How every trial ended, whatever its evaluation took."""
    known = journals.read_all(store).items()
    return {name: j.outcome and replace(j.outcome, seconds=None) for name, j in known}


def test_it_is_the_same_in_a_store_at_a_uri(whole, places):
    place = places("small.py")
    store = f"local://{place.folder}/elsewhere"
    place.ablate("study", "small.py", "--scale", "whole", "--local", "--store", store).succeeded()
    assert outcomes(Store(store)) == outcomes(whole.store)
    assert not (place.workspace / "store").exists()
    left = [path for path in (place.folder / "elsewhere").rglob("*") if "last" in path.name]
    assert left == []
    status = place.ablate("status", "--store", store)
    assert re.search(r"small@whole +10 of 10\b", status.out)


@pytest.mark.parametrize("stage", ["train", "finetune", "ensemble"])
def test_a_repeated_trial_gives_the_same_bits(whole, stage: str):
    record = study_record.read(whole.store, "small@whole")
    trial = next(trial for trial in record.trials if trial.stage == stage)
    ended = whole.ablate("rerun", trial.id[:8])
    ended.succeeded()
    assert "every bit agrees" in ended.out


def test_a_repeated_trial_that_differs_is_reported(whole):
    record = study_record.read(whole.store, "small@whole")
    trial = next(trial for trial in record.trials if trial.stage == "train")
    journal, before = journals.read(whole.store, trial.id), whole.store.read(journals.key(trial.id))
    journal.outcome = replace(journal.outcome, digest="another")
    journal.write(whole.store)
    ended = whole.ablate("rerun", trial.id)
    whole.store.write(journals.key(trial.id), before)
    assert ended.status == 1 and ended.out.count("valid_nll: recorded") == 1


def test_another_study_reuses_its_trials(whole):
    text = (whole.folder / "small.py").read_text()
    whole.write("other.py", text.replace("The same again?", "And who else asks?"))
    before = {name: whole.store.read(journals.key(name)) for name in outcomes(whole.store)}
    ended = whole.ablate("study", "other.py", "--scale", "whole", "--local")
    ended.succeeded()
    assert {name: whole.store.read(journals.key(name)) for name in before} == before
    assert set(outcomes(whole.store)) == set(before)
    rows = [
        [line for line in (folder / "table.md").read_text().splitlines() if line.startswith("|")]
        for folder in (whole.workspace / "studies" / f"{name}@whole" for name in ("small", "other"))
    ]
    assert rows[0] == rows[1]
    assert "results of its arms were already there" in " ".join(ended.out.split())


def test_a_trial_by_itself_is_the_studys(places):
    """`ablate trial` of an arm's values finds the trial that the study ran."""
    place = places("small.py")
    place.ablate("study", "small.py", "--local").succeeded()
    before = outcomes(place.store)
    place.write("one.toml", CONFIG.format(rate=5))
    ended = place.ablate("trial", "one.toml", "--seed", "2")
    ended.succeeded()
    assert outcomes(place.store) == before
    known = ended.out.split()[1].rstrip(":")
    assert f"valid_nll {before[known].metrics['valid_nll']:.4f}" in ended.out
    place.write("one.toml", CONFIG.format(rate=4))
    place.ablate("trial", "one.toml").succeeded()
    assert len(outcomes(place.store)) == len(before) + 1


def test_a_trial_whose_folder_is_lost_is_run_again(whole):
    """The new run gives the same bits."""
    before = outcomes(whole.store)
    record = study_record.read(whole.store, "small@whole")
    trial = next(trial for trial in record.trials if trial.stage == "train")
    shutil.rmtree(whole.workspace / "store" / "trials" / trial.id)
    whole.ablate("study", "small.py", "--scale", "whole", "--local").succeeded()
    assert outcomes(whole.store) == before
