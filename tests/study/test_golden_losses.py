"""The first 20 training losses of two shipped studies, against tests/golden/losses.json.

The draws (weights, masks, windows) are the same bits everywhere; the sums are not. Kernels, torch,
oneDNN, MKL and the vector width (SSE to AVX-512) differ by 3e-7 of a loss at most in 20 steps, and
a learning rate that is one thousandth higher by 1e-4. The tolerance lies between: 20 times what
another machine does, a twentieth of what the smallest change of a formula should do.
"""

from __future__ import annotations

import itertools
import json

import pytest

from ablate.config.identity import Trial
from ablate.lm.training.training import Training
from ablate.store.workspace import Workspace
from ablate.study.file import load
from ablate.study.plan import make_plan
from ablate.trial.task import Place
from tests.support import places
from tests.support.golden import golden, regenerating

STEPS = 20
TOLERANCE = 5e-6  # of a loss
ARMS = {  # an arm of a study at laptop scale
    "doc_layer_mix": "DOC 15,5,0,0",  # a mixture of softmaxes over an LSTM, every mask, Adam
    "tying_table1": "VD-LSTM+REAL, medium",  # a tied softmax under the augmented loss, SGD
}


def first_trial(study: str, workspace: Workspace) -> Trial:
    plan = make_plan(load(places.STUDIES / f"{study}.py"), "laptop", data=workspace.data)
    first = next(planned.id for planned in plan.record.trials if planned.arm == ARMS[study])
    return next(trial for trial in plan.trials if trial.id == first)


def losses(trial: Trial, workspace: Workspace) -> list[float]:
    """Return the training loss of each of the first steps, in nats a token."""
    training = Training(trial, Place(store=workspace.store, data=workspace.data))
    sums = [(0.0, 0)]
    for _ in range(STEPS):
        assert training.advance(0) is None, "the epoch is too short"  # no time: one step
        sums.append((training.nll_sum.item(), training.num_tokens))
    pairs = itertools.pairwise(sums)
    return [(nll - before) / (num - first) for (before, first), (nll, num) in pairs]


@pytest.mark.slow
@pytest.mark.golden
@pytest.mark.parametrize("study", ARMS)
def test_a_shipped_study_learns_as_it_did(study, workspace, both_ways):
    now = losses(first_trial(study, workspace), workspace)
    known = json.loads((places.GOLDEN / "losses.json").read_text())
    if regenerating() and now != pytest.approx(known.get(study, []), rel=TOLERANCE):
        known[study] = [round(loss, 6) for loss in now]
        golden("losses.json", json.dumps(known, indent=1) + "\n")
    assert now == pytest.approx(known[study], rel=TOLERANCE)
