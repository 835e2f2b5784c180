"""On another device nothing stays on the processor, and the loops do not wait for the device.

No GPU is needed: `tests/support/pretended.py` has a device whose border is watched. Models in which
every technique of every slot occurs train, save, go on from their checkpoints on the device, and
are judged; the processor goes on from the same checkpoints, to the same losses.

Every place where a step or a validation waits, or the processor works for it, is below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.contracts.test_combinations import PAIR_SLOTS, TEXT_SLOTS

READ, SHAPE = "a number is read", "a shape depends on values"
CREATED, ENTERS = "made on the processor", "enters the device"
EACH_WORD = "characters.py: Characters.forward"  # spells each word of a window once, not each token
PAIRS = {"_real", "padded", "pair_batch", "source_batch"}  # texts stay in main memory, and batches
EXPECTED = {  # are filled up there
    ("step", READ, "components/optimizer/soap.py: eigenvectors"),  # as torch's `eigh` does itself
    ("step", SHAPE, f"components/words/{EACH_WORD}"),
    ("validation", SHAPE, f"components/words/{EACH_WORD}"),
    # The noise moves once, before the first update.
    ("step", ENTERS, "components/loss/nce.py: UnigramNoise._move.<locals>.<genexpr>"),
}
STREAM = {
    ("step", CREATED, "trial/training/stream.py: Stream.update"),  # which rows a part has
    ("validation", READ, "trial/training/evaluation.py: rows_nll"),  # once, at its end
}
SENTENCES = {
    ("step", SHAPE, "model/flow.py: Pass.kept"),  # of pairs of steps, how many are in sentences
    ("step", CREATED, "trial/training/sentence_pairs.py: Pairs.update"),
    ("validation", READ, "model/sentences.py: pairs_nll"),  # once, at its end
    ("validation", CREATED, "data/pairs.py: Pairs._ragged"),
    ("validation", CREATED, "model/sentences.py: in_order"),
    ("validation", CREATED, "model/sentences.py: lengths_of"),
    *((phase, CREATED, f"model/sentences.py: {f}") for phase in ("step", "validation") for f in PAIRS),
    *(
        (phase, ENTERS, f"model/sentences.py: {batch}_batch")
        for phase in ("step", "validation")
        for batch in ("pair", "source")
    ),
}


def noted(what: str) -> dict[str, Any]:
    """A process of its own: torch cannot forget a device."""
    command = [sys.executable, "-m", "tests.support.pretended_trials", what]
    environment = {**os.environ, "ABLATE_NATIVE": "off", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "slots", "own"), [("text", TEXT_SLOTS, STREAM), ("pairs", PAIR_SLOTS, SENTENCES)]
)
def test_every_technique_trains_on_a_device_and_waits_for_it_nowhere_else(kind, slots, own):
    found = noted(kind)
    assert found["wrong"] == {}
    for slot, names in slots.items():
        assert {model[slot] for model in found["models"]} == set(names)
    assert {tuple(note) for note in found["notes"]} == EXPECTED | own


@pytest.mark.slow
def test_what_crosses_the_border_or_waits_is_noticed():
    assert noted("twins") == {
        **dict.fromkeys(("item", "branch", "list"), READ),
        **dict.fromkeys(("mask", "put", "nonzero", "unique"), SHAPE),
        "cpu": "leaves the device",
        "to": f"{ENTERS}, {CREATED}",
        "created": CREATED,
        "mixed": "aten.add.Tensor of tensors on both devices",
        "none": "",
    }
