"""The coefficient of variation over a split, against a softmax of the state in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.components.evaluator.mixture_use import (
    MixtureUse,
    MixtureUseConfig,
)
from ablate.lm.model.assemble import count_parameters
from ablate.lm.model.evaluator import Reading
from ablate.lm.testing.subject import RandomText, SmallModel

MOS = {"head.experts": 3}
PLAIN = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}


def used(*models, rows: int = 1) -> dict[str, float]:
    evaluator = MixtureUse(MixtureUseConfig(rows=rows))
    return evaluator.metrics(Reading(models, RandomText()), "mixture_use", "valid")


def test_it_is_that_of_the_mean_of_softmaxes_of_the_state():
    model = SmallModel({"head": "mos"}, MOS).model
    with torch.no_grad():
        ids = RandomText().stream("valid")[:-1, None].long()
        states = model(ids, model.initial_state(1)).features.output_TBH[:, 0].numpy()
    logits = states @ model.state_dict()["head.prior.weight"].numpy().T
    prior = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    mean = prior.mean(0)
    assert used(model) == {"variation": pytest.approx(mean.std() / mean.mean(), rel=1e-9)}
    assert used(model, rows=10)["variation"] != used(model)["variation"]  # other states


def test_a_plan_refuses_one_softmax():
    measured = {**PLAIN, "evaluator.mixture_use.rows": 5}
    with pytest.raises(CombinationError, match=r"mixture_use: the head is one softmax.*mos, doc"):
        count_parameters(resolve(measured), 23)
    assert count_parameters(resolve({**measured, "head": "mos"}), 23) > 0
