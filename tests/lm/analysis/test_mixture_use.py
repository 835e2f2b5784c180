"""The coefficient of variation against its definition, and the mean prior against the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.lm.analysis import mixture_use
from ablate.trial.checkpoint import read_weights


def test_the_table_is_the_mean_of_softmaxes_of_the_state(doc):
    """Compared with a torch LSTM with the trial's weights, over the whole split in one row."""
    options = mixture_use.MixtureUseOptions(rows=1)
    finding = mixture_use.run(doc, options)
    weights = read_weights(doc.store, doc.id)
    tokens = torch.from_numpy(doc.stream("valid").copy()).long()
    lstm = torch.nn.LSTM(8, 10)
    lstm.load_state_dict(
        {
            name.removeprefix("backbone."): value
            for name, value in weights.items()
            if name.startswith("backbone.")
        }
    )
    output, _ = lstm(weights["embedding.weight"][tokens[:-1]])
    prior = (output @ weights["head.prior.weight"].t()).softmax(-1).mean(0)
    priors = [row[2] for row in finding.rows]
    np.testing.assert_allclose(priors, prior.detach().numpy(), atol=1e-5)
    assert sum(priors) == pytest.approx(1)
    assert finding.notes == [
        f"coefficient of variation {float(np.std(priors) / np.mean(priors)):.4f}"
    ]
    assert [row[1] for row in finding.rows] == ["layer 1", "layer 1", "embedding"]
