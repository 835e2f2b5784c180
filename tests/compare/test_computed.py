"""Pairs that were computed in two ways are named under a table."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from ablate.compare.judged import Judged
from ablate.compare.statistics import computed
from ablate.config.identity import Parent
from ablate.store.attempt import Attempt
from tests.support.tables import written

LOSSES = (4.1, 4.2, 4.3)
KERNELS, TORCH = ("kernels: g++ 12.2",), ("torch: ABLATE_NATIVE=off",)
BATCH = ("torch: one batch of 3 seeds",)


@pytest.fixture
def study(by_hand):
    """Three arms of three seeds, all computed by kernels; `ways` changes that by trial."""

    def make(ways, processes=MappingProxyType({})):
        made = by_hand({"base": LOSSES, "doc": LOSSES, "mos": LOSSES})
        for name, journal in made.journals.items():
            way = ways.get(name, KERNELS)
            journal.attempts = [Attempt(computed_by=way, processes=processes.get(name))]
        return made

    return make


def noted(made) -> list[str]:
    return [note for note in Judged(made.record, made.journals).notes if "alike" in note]


def test_arms_and_seeds_not_computed_alike_are_named(study):
    made = study({"base-0": TORCH, "doc-0": TORCH, "doc-2": [*TORCH, *KERNELS]})
    (note,) = noted(made)
    expected = (
        "Pairs not computed alike: base, seed 1 by torch; doc, seed 1 by torch, seed 3 by kernels "
        "and torch; the other arms at these seeds by kernels."
    )
    assert note.startswith(f"{expected} Kernels and torch round differently")
    summary = Judged(made.record, made.journals)
    assert note in " ".join(written(summary).split())
    assert note in written(summary, "markdown").replace("\\_", "_")


def test_pairs_of_which_one_was_compiled_are_named(study):
    by_both = ("compiled: inductor, torch 2.13", *KERNELS)
    (note,) = noted(study({"doc-0": by_both, "doc-2": by_both}))
    assert note == (
        "Pairs not computed alike: doc, seeds 1, 3 by compiled and kernels; the other arms at "
        f"these seeds not compiled. {computed.COMPILING}"
    )
    (note,) = noted(study({"doc-0": ("compiled: inductor, torch 2.13",), "base-0": TORCH}))
    assert note.endswith(f"{computed.ADVICE} {computed.COMPILING}")
    assert noted(study(dict.fromkeys(("base-0", "doc-0", "mos-0"), by_both))) == []


def test_pairs_of_which_one_shared_its_rows_or_was_in_a_batch_are_named(study):
    ending = f"the other arms at these seeds otherwise. {computed.SUMMING}"
    (note,) = noted(study({}, processes={"doc-0": 2, "doc-1": 2, "mos-0": 1}))
    expected = "Pairs not computed alike: doc, seeds 1, 2 by 2 processes and kernels;"
    assert note == f"{expected} {ending}"
    made = study(dict.fromkeys(("base-0", "mos-0"), ()) | {"doc-0": BATCH})
    (note,) = noted(made)
    expected = "Pairs not computed alike: doc, seed 1 by one batch of seeds and torch;"
    assert note == f"{expected} {ending}"
    alike = dict.fromkeys(("base-0", "doc-0", "mos-0"), BATCH)
    assert noted(study(alike, processes=dict.fromkeys(alike, 2))) == []
    (note,) = noted(study(alike, processes=dict.fromkeys(alike, 2) | {"doc-0": 4}))
    assert "doc, seed 1 by 4 processes and one batch of seeds and torch" in note


@pytest.mark.parametrize(
    "ways",
    [
        {},
        {"base-1": TORCH, "doc-1": TORCH, "mos-1": TORCH},  # a whole seed
        {"base-1": ["kernels: clang 19"]},
        {"base-1": []},  # nothing for kernels to compute
        {"base-1": None, "doc-1": None},  # recorded before this was
        {"base-1": ["unknown", *TORCH]},  # resumed from a checkpoint of that time
    ],
)
def test_pairs_not_known_to_be_computed_differently_need_no_note(study, ways):
    assert noted(study(ways)) == []


def test_what_a_trial_builds_on_counts(study):
    made = study({})
    made.end("start", "completed")
    made.journals["start"].attempts = [Attempt(computed_by=TORCH)]
    journal = made.journals["doc-1"]
    journal.trial = replace(journal.trial, parents=(Parent("start", "start"),))
    assert "doc, seed 2 by kernels and torch;" in noted(made)[0]
