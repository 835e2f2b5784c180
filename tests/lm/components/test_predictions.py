"""The rank of a model's predictions, against numpy's of the matrix written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.config.resolve import resolve
from ablate.errors import ConfigError
from ablate.lm.components.evaluator import predictions
from ablate.lm.components.evaluator.predictions import Predictions, PredictionsConfig
from ablate.lm.model.assemble import count_parameters
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.mixture import log_probs
from ablate.lm.testing.subject import VOCABULARY, WIDTH, RandomText, SmallModel


def ranked(*models, contexts: int = 2000, split: str = "valid") -> dict[str, float]:
    evaluator = Predictions(PredictionsConfig(contexts=contexts))
    return evaluator.metrics(Reading(models, RandomText()), "predictions", split)


def matrix(model, split: str, contexts: int) -> np.ndarray:
    with torch.no_grad():
        ids = RandomText().stream(split)[:contexts, None].long()
        return log_probs(model(ids, model.initial_state(1)).mixture).numpy()


@pytest.mark.parametrize(("split", "length"), [("valid", 59), ("test", 39)])
def test_a_mixture_has_the_rank_that_numpy_finds(split, length):
    model = SmallModel({"head": "mos"}, {"head.experts": 3}).model
    expected = np.linalg.matrix_rank(matrix(model, split, length))
    assert ranked(model, split=split) == {"rank": expected, "num_contexts": length}
    assert expected == VOCABULARY > WIDTH + 2  # more than one softmax can have


def with_bias(dtype: torch.dtype = torch.float64):
    model = SmallModel({}, dtype=dtype).model
    torch.nn.init.normal_(model.head.decoder.bias, generator=torch.Generator().manual_seed(1))
    return model


def test_a_model_in_float32_has_the_rank_of_its_weights():
    """Rounding of single products would make every matrix one of full rank."""
    model = with_bias(torch.float32)
    assert ranked(model)["rank"] == WIDTH + 1
    assert next(model.parameters()).dtype == torch.float32, "it is a copy that is read"


def test_a_plan_refuses_a_matrix_larger_than_memory(monkeypatch):
    values = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}
    config = resolve({**values, "evaluator.predictions.contexts": 10_000})
    assert count_parameters(config, 100) > 0
    monkeypatch.setattr(predictions.os, "sysconf", lambda name: 2000)
    with pytest.raises(ConfigError, match=r"predictions\.contexts = 10000: .* up to 1666"):
        count_parameters(config, 100)
