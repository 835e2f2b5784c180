"""Trials that the user's own files made before they were edited: reused, and reported as such."""

from __future__ import annotations

from typing import Any

import pytest

from ablate.store import journal as journals

STUDY = """
from ablate import Arm, Scale, Study, table

study = Study(
    question="Is it noticed?",
    base={
        "corpus.train_tokens": 600, "corpus.eval_tokens": 300, "embedding.size": 8,
        "backbone": "lstm", "backbone.num_layers": 1, "backbone.units": 8, "head": "softmax",
        "optimizer": "sgd", "optimizer.learning_rate": 1.0, "training.batch_size": 4,
    },
    base_arm="without",
    design=table(Arm("without"), Arm("with", {"regularizer.halving.rate": 0.5})),
    scales={"s": Scale(seeds=2)},
    techniques=("halving.py",),
    runner="stand_in",
)
"""
TECHNIQUE = """
from dataclasses import dataclass
from ablate.components import Regularizer, register, setting
@dataclass(frozen=True, kw_only=True)
class C:
    rate: float = setting(0.0, doc='rate')
@register('regularizer', 'halving', config=C)
class Halving(Regularizer):
    def __init__(self, config): pass
"""


class Edited:
    """A study with a custom technique, run in other processes."""

    def __init__(self, place: Any) -> None:
        self.place = place
        for name, text in (("halving", TECHNIQUE), ("asked", STUDY)):
            place.write(f"{name}.py", text)

    def edit(self, name: str) -> None:
        file = self.place.folder / name
        file.write_text(file.read_text() + "# edited\n")

    def ablate(self, *arguments: str) -> str:
        ended = self.place.ablate(*arguments, env={"PYTHONPATH": str(self.place.folder)})
        ended.succeeded()
        return " ".join(ended.out.split())

    def study(self) -> str:
        return self.ablate("study", "asked.py", "--local")


@pytest.fixture
def edited(place) -> Edited:
    return Edited(place)


@pytest.mark.slow
def test_what_made_a_trial_is_recorded_and_an_edit_is_said_at_the_run_and_in_the_table(edited):
    assert "was edited" not in edited.study()
    before = journals.read_all(edited.place.store)
    made = {(j.trial.arm, *(j.attempts[-1].sources or ())) for j in before.values()}
    assert made == {("without",), ("with", "halving.py")}
    assert "was edited" not in edited.study()

    edited.edit("halving.py")
    note = "halving.py was edited after it made 2 of this study's trials, which are reused."
    assert edited.study().count(note) == 2  # while it runs, and under the table
    assert note in edited.ablate("table", "asked")
    assert journals.read_all(edited.place.store) == before


@pytest.mark.slow
def test_a_tables_provenance_has_the_digests(edited):
    edited.study()
    exported = edited.ablate("table", "asked", "--format", "csv")
    digest = next(iter(edited.place.store.names("tables"))).removesuffix(".json")
    assert exported
    known = journals.read_all(edited.place.store).values()
    text = next(j for j in known if j.trial.arm == "with").attempts[-1].sources["halving.py"]
    assert f"halving.py {text}" in edited.ablate("provenance", digest)
