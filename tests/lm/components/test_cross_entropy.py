"""Cross entropy against torch's."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from ablate.config.streams import Streams
from ablate.lm.model.masks import Chance

CHANCE = Chance(Streams(1), 0)


def test_it_is_torchs_summed_over_tokens(build):
    assembly = build({})
    model = assembly.model
    ids, targets = torch.randint(0, 23, (2, 5, 3))
    passed = model(ids, model.initial_state(3))
    loss = assembly.loss(passed, targets.flatten(), model.embedding.weight, CHANCE)
    logits = model.head.decoder.weight @ passed.features.output_TBH.flatten(0, 1).t()
    expected = F.cross_entropy(logits.t(), targets.flatten(), reduction="sum")
    torch.testing.assert_close(loss, expected)
