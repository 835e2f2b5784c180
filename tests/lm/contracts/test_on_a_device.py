"""On another device nothing stays on the processor, and the loops do not wait for the device.

No GPU is needed: `tests/support/pretended.py` has a device whose border is watched. Models in which
every technique of every slot occurs train, save, go on from their checkpoints on the device, and
are judged; the processor goes on from the same checkpoints, to the same losses.

Every place where a step or a validation waits, or the processor works for it, is below. `make test`
takes a few of the models, since the pretended device is slow; `make test-device` all in which every
pair of techniques occurs.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.lm.contracts.test_combinations import (
    COMBINATIONS,
    Combination,
    each_once,
    values_of,
)

READ, SHAPE = "a number is read", "a shape depends on values"
CREATED, ENTERS = "made on the processor", "enters the device"
EACH_WORD = "characters.py: Characters.forward"  # spells each word of a window once, not each token
PAIRS = {"_real", "padded", "pair_batch", "source_batch"}  # texts stay in main memory, and batches
EXPECTED = {  # are filled up there
    (
        "step",
        READ,
        "lm/components/optimizer/soap.py: eigenvectors",
    ),  # as torch's `eigh` does itself
    ("step", SHAPE, f"lm/components/words/{EACH_WORD}"),
    ("validation", SHAPE, f"lm/components/words/{EACH_WORD}"),
    # The noise moves once, before the first update.
    ("step", ENTERS, "lm/components/loss/nce.py: UnigramNoise._move.<locals>.<genexpr>"),
}
# The distinct words of a chunk, each of which has soft targets once.
SOFT = ("step", SHAPE, "lm/model/fast/tempered_gradient.py: _soft_targets")
OF_PAIRS = {SOFT}
A_FEW = 3  # models of a kind, which together have the most techniques
STREAM = {
    ("step", CREATED, "lm/training/stream.py: Stream._spans"),  # which rows a part has
    ("validation", READ, "lm/training/evaluation.py: rows_nll"),  # once, at its end
}
SENTENCES = {
    SOFT,
    ("step", SHAPE, "lm/model/flow.py: Pass.kept"),  # of pairs of steps, how many are in sentences
    ("step", CREATED, "lm/training/sentence_pairs.py: Pairs.update"),
    ("validation", READ, "lm/model/sentences.py: pairs_nll"),  # once, at its end
    ("validation", CREATED, "lm/data/pairs.py: Pairs._ragged"),
    ("validation", CREATED, "lm/model/sentences.py: in_order"),
    ("validation", CREATED, "lm/model/sentences.py: lengths_of"),
    *(
        (phase, CREATED, f"lm/model/sentences.py: {f}")
        for phase in ("step", "validation")
        for f in PAIRS
    ),
    *(
        (phase, ENTERS, f"lm/model/sentences.py: {batch}_batch")
        for phase in ("step", "validation")
        for batch in ("pair", "source")
    ),
}


@pytest.fixture(scope="module")
def noted(request, data) -> dict[str, Any]:
    """What a process of its own says: torch cannot forget a device."""
    command = [sys.executable, "-m", "tests.support.pretended_trials", data]
    environment = {**os.environ, "ABLATE_NATIVE": "off", "OMP_NUM_THREADS": "1"}
    num = None if request.config.getoption("--pairs") else A_FEW
    given = json.dumps({kind: models(every, num) for kind, every in COMBINATIONS.items()})
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def models(every: Sequence[Combination], num: int | None) -> dict[str, dict[str, object]]:
    """The values of so many models by name; of all without a number."""
    chosen = every if num is None else itertools.islice(each_once(every), num)
    return {" ".join(each.values()): values_of(each) for each in chosen}


@pytest.mark.slow
@pytest.mark.timeout(3600)  # with --pairs
@pytest.mark.parametrize(("kind", "own"), [("text", STREAM), ("pairs", SENTENCES)])
def test_models_train_on_a_device_and_wait_for_it_nowhere_else(kind, own, request, noted):
    assert noted[kind]["wrong"] == {}
    notes, known = {tuple(note) for note in noted[kind]["notes"]}, EXPECTED | own | OF_PAIRS
    assert notes == known if request.config.getoption("--pairs") else notes and notes <= known


@pytest.mark.slow
def test_what_crosses_the_border_or_waits_is_noticed(noted):
    assert noted["twins"] == {
        **dict.fromkeys(("item", "branch", "list"), READ),
        **dict.fromkeys(("mask", "put", "nonzero", "unique"), SHAPE),
        "cpu": "leaves the device",
        "to": f"{ENTERS}, {CREATED}",
        "created": CREATED,
        "mixed": "aten.add.Tensor of tensors on both devices",
        "none": "",
    }
