"""The RNN with topics against explicit steps, its limits, and the published sizes."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError, ConfigError
from ablate.lm.components.backbone.topic_rnn import followed
from ablate.lm.model.masks import OFF
from ablate.lm.testing.subject import VOCABULARY, RandomText

H, K, G = 6, 3, 0.7
VALUES = {
    "backbone": "topic_rnn",
    "backbone.units": H,
    "backbone.topics": K,
    "backbone.memory": G,
    "backbone.passes": 5,
    "head.bias": False,
}


@pytest.fixture
def model(build):
    made = build(VALUES, vocabulary=VOCABULARY).model
    made.backbone.read_text(RandomText())
    return made


def ids_of(steps=7, rows=2):
    return torch.randint(VOCABULARY, (steps, rows), generator=torch.Generator().manual_seed(2))


def test_topics_are_a_weighted_geometric_mean_of_those_read(model):
    """Written out over all words so far, not step by step."""
    t_TBK = model.backbone.log_topics_VK.exp()[ids_of()]
    zeros = t_TBK.new_zeros(2, K)
    actual = followed(t_TBK.log(), zeros, G).softmax(-1)
    for step in range(len(t_TBK)):
        product = torch.ones(2, K, dtype=t_TBK.dtype)
        for back in range(step + 1):
            product = product * t_TBK[step - back] ** ((1 - G) * G**back)
        torch.testing.assert_close(actual[step], product / product.sum(1, keepdim=True))


def test_it_is_the_recurrence_of_its_docstring(model):
    backbone, ids = model.backbone, ids_of()
    t_VK = backbone.log_topics_VK.exp()
    torch.testing.assert_close(t_VK.sum(1), torch.ones(VOCABULARY, dtype=t_VK.dtype))
    s, f = t_VK.new_zeros(2, H), t_VK.new_full((2, K), 1 / K)
    passed = model(ids, model.initial_state(2))
    logits = passed.mixture.vectors_NJE[:, 0] @ passed.mixture.weight_VE.T
    head = model.head.decoder.weight
    for step, now in enumerate(ids):
        f = f**G * t_VK[now] ** (1 - G)
        f = f / f.sum(1, keepdim=True)
        recurrent = s @ backbone.weight_hh_l0.T + f @ backbone.weight_ih_topics.T
        s = (model.embedding.weight[now] + recurrent).sigmoid()
        expected = s @ head[:, :H].T + f @ head[:, H:].T
        torch.testing.assert_close(logits.view(7, 2, -1)[step], expected)


def test_topics_come_from_the_training_text_alone(model, build):
    text, other = RandomText(), build(VALUES, vocabulary=VOCABULARY).model
    for split in ("valid", "test"):
        text.splits[split] = torch.zeros(9, dtype=torch.int32)
    other.backbone.read_text(text)
    assert torch.equal(other.backbone.log_topics_VK, model.backbone.log_topics_VK)
    text.splits["train"] = text.splits["train"].flip(0)
    other.backbone.read_text(text)
    assert not torch.equal(other.backbone.log_topics_VK, model.backbone.log_topics_VK)


def test_topics_are_not_trained(model):
    assert {name for name, _ in model.backbone.named_parameters()} == {
        "weight_hh_l0",
        "weight_ih_topics",
    }
    assert "backbone.log_topics_VK" in model.state_dict()


def test_what_cannot_be_is_refused(build):
    with pytest.raises(CombinationError, match=r"embedding\.size = 5 and backbone\.units = 6"):
        build({**VALUES, "embedding.size": 5})
    with pytest.raises(ConfigError, match="built without one"):
        made = build(VALUES).model
        made.backbone(torch.zeros(1, 1, H), torch.zeros(1, 1).long(), made.initial_state(1), OFF)
