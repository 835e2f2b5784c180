"""NT-ASGD against the public code's numbers, quirks included."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ablate.lm.components.optimizer.nt_asgd import NtAsgd, NtAsgdConfig


class Bowl(nn.Module):
    """f(p) = a (p - c)^2 / 2."""

    def __init__(self, vectors):
        super().__init__()
        self.p = nn.Parameter(vectors["p0"].clone())
        self.a, self.c = vectors["a"], vectors["c"]

    def forward(self):
        return 0.5 * (self.a * (self.p - self.c) ** 2).sum()


def update(bowl, optimizer, scale):
    bowl.zero_grad()
    bowl().backward()
    optimizer.step(scale)


def averaged(bowl, optimizer):
    with optimizer.evaluated_weights(bowl):
        return bowl.p.detach().clone()


@pytest.fixture
def start(golden):
    vectors = golden("nt_asgd")

    def new(**settings):
        config = NtAsgdConfig(
            learning_rate=vectors["base_lr"].item(),
            weight_decay=vectors["weight_decay"].item(),
            **settings,
        )
        bowl = Bowl(vectors)
        return vectors, bowl, NtAsgd(config, bowl)

    return new


def test_it_is_the_public_code(start):
    vectors, bowl, optimizer = start(nonmono=0)
    scales = [length / 70 for length in vectors["seq_lens"].tolist()]
    for step, scale in enumerate(scales):
        if step == 2:
            assert optimizer.epoch_ended(1, 1.0) is None
        if step == 4:
            assert "averaging" in optimizer.epoch_ended(2, 2.0)
        update(bowl, optimizer, scale)
        torch.testing.assert_close(bowl.p.data, vectors["p"][step], rtol=1e-12, atol=1e-12)
        if step < 4:
            assert torch.equal(averaged(bowl, optimizer), bowl.p)
        else:
            actual = averaged(bowl, optimizer)
            torch.testing.assert_close(actual, vectors["ax"][step - 4], rtol=1e-12, atol=1e-12)
            eta = optimizer.torch.state[bowl.p]["eta"].double()
            torch.testing.assert_close(eta, vectors["eta"][step - 4], rtol=1e-12, atol=0)
        torch.testing.assert_close(bowl.p.data, vectors["p"][step], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nonmono", [2, 5, 60])
def test_it_switches_when_the_public_code_does(start, nonmono):
    vectors, _, optimizer = start(nonmono=nonmono)
    values = vectors["val_losses"].tolist()
    messages = [optimizer.epoch_ended(epoch, nll) for epoch, nll in enumerate(values, 1)]
    switched = [epoch for epoch, text in enumerate(messages, 1) if text]
    expected = vectors[f"trigger_epoch_nonmono{nonmono}"].item()
    assert switched == ([] if expected == -1 else [expected])


def test_fine_tuning_averages_from_the_first_update(start):
    _, bowl, optimizer = start(trigger="at_once")
    assert torch.equal(averaged(bowl, optimizer), bowl.p)
    iterates = []
    for _ in range(5):
        update(bowl, optimizer, 1.0)
        iterates.append(bowl.p.detach().clone())
    mean_without_first = torch.stack(iterates[1:]).mean(0)
    torch.testing.assert_close(averaged(bowl, optimizer), mean_without_first)
    assert optimizer.epoch_ended(1, 9.0) is None


def test_raw_weights_come_back_from_an_evaluation_that_fails(start):
    _, bowl, optimizer = start(trigger="at_once")
    for _ in range(3):
        update(bowl, optimizer, 1.0)
    raw = bowl.p.detach().clone()
    with pytest.raises(KeyError), optimizer.evaluated_weights(bowl):
        assert not torch.equal(bowl.p, raw)
        raise KeyError
    assert torch.equal(bowl.p, raw)
