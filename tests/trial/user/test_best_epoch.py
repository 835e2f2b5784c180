"""Early stopping by one word of `run.epochs`: the best epoch counts, wherever the trial is cut."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ablate.config.metrics import Metric
from ablate.store.outcome import Status
from tests.trial.user.test_function import ACCURACY, run_trial, store  # noqa: F401

PATIENCE, MOST = 3, 30


def texts(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A few noisy examples, on which a large rate soon overfits."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(60, 6, generator=generator)
    labels = inputs[:, 0] + 1.5 * torch.randn(60, generator=generator) > 0
    return inputs, labels.long()


def pieces(seed: int):
    inputs, labels = texts(seed)
    return [(inputs[at], labels[at]) for at in (slice(20), slice(20, 40), slice(40, 60))]


def loss_of(model: nn.Module, part) -> float:
    with torch.no_grad():
        return nn.functional.cross_entropy(model(part[0]), part[1]).item()


def made(seed: int):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    return model, torch.optim.Adam(model.parameters(), lr=0.05)


def step(model, optimizer, part) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(part[0]), part[1]).backward()
    optimizer.step()


def plain_loop(run):
    model, optimizer = made(run.seed)
    train, valid, test = pieces(run.seed)
    for _ in run.epochs(model, optimizer, total=MOST, patience=PATIENCE):
        step(model, optimizer, train)
        yield {"valid_loss": loss_of(model, valid)}
    return {"test_loss": loss_of(model, test)}


def by_hand(seed: int) -> tuple[int, float, float]:
    """The same without ablate: epochs trained, and the best epoch's loss on valid and on test."""
    model, optimizer = made(seed)
    train, valid, test = pieces(seed)
    best, at, weights = float("inf"), 0, {}
    for epoch in range(1, MOST + 1):
        step(model, optimizer, train)
        if (loss := loss_of(model, valid)) < best:
            best, at, weights = loss, epoch, copy.deepcopy(model.state_dict())
        if epoch - at == PATIENCE:
            break
    model.load_state_dict(weights)
    return epoch, best, loss_of(model, test)


LOSS = Metric("loss")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_plain_torch_loop_reports_its_best_epoch(store, seed):  # noqa: F811
    num, best, test = by_hand(seed)
    assert PATIENCE < num < MOST, "it stops early, and not at once"
    journal = run_trial(plain_loop, store, seed=seed, metrics=LOSS)
    assert len(journal.epochs) == num
    assert journal.metrics == {"valid_loss": best, "test_loss": test}
    assert journal.epochs[-1].metrics["valid_loss"] > best


def test_a_cut_trial_ends_with_the_same_bits(store, tmp_path):  # noqa: F811
    whole = run_trial(plain_loop, store, metrics=LOSS)
    for cut in (1, len(whole.epochs) - PATIENCE, len(whole.epochs) - 1, len(whole.epochs)):
        other = type(store)(str(tmp_path / f"cut{cut}"))
        journal = run_trial(plain_loop, other, metrics=LOSS, cut_after=cut)
        assert len(journal.attempts) == 2
        assert journal.metrics == whole.metrics
        assert len(journal.epochs) == len(whole.epochs)
        assert journal.outcome and whole.outcome
        assert journal.outcome.digest == whole.outcome.digest


class Fitted:
    """What `partial_fit` changes in a classifier, as `run.epochs` saves it."""

    def __init__(self, model) -> None:
        self.model = model

    def state_dict(self):
        return {name: getattr(self.model, name) for name in ("coef_", "intercept_", "t_")}

    def load_state_dict(self, state) -> None:
        self.model.__dict__.update(state)


def partial_fits(run: Any) -> Any:
    from sklearn.linear_model import SGDClassifier

    (inputs, labels), valid, test = ([x.numpy() for x in part] for part in pieces(run.seed))
    model: Any = SGDClassifier(random_state=run.seed, loss="log_loss", alpha=1e-6)
    model.partial_fit(inputs[:2], labels[:2], classes=np.array([0, 1]))
    for epoch in run.epochs(Fitted(model), total=12, best=True):
        rows = np.random.RandomState(epoch).permutation(len(inputs))
        model.partial_fit(inputs[rows], labels[rows])
        yield {"valid_accuracy": model.score(*valid)}
    return {"test_accuracy": model.score(*test), "test_first": model.coef_[0, 0]}


def test_partial_fit_of_scikit_learn(store, tmp_path):  # noqa: F811
    """All epochs are trained without a patience; the best one's coefficients are tested."""
    whole = run_trial(partial_fits, store, seed=3)
    values = [epoch.metrics["valid_accuracy"] for epoch in whole.epochs]
    assert len(values) == 12 and whole.metrics["valid_accuracy"] == max(values) > values[-1]
    best = values.index(max(values)) + 1

    def up_to_the_best(run):
        last = {}
        running = partial_fits(run)
        for _ in range(best):
            last = next(running)
        classifier = running.gi_frame.f_locals["model"]
        return {**last, "test_accuracy": 0.0, "test_first": classifier.coef_[0, 0]}

    other = type(store)(str(tmp_path / "best"))
    shorter = run_trial(up_to_the_best, other, seed=3)
    assert shorter.metrics["test_first"] == whole.metrics["test_first"]
    cut = run_trial(partial_fits, type(store)(str(tmp_path / "cut")), seed=3, cut_after=best + 1)
    assert cut.metrics == whole.metrics and len(cut.attempts) == 2


def yields(values, **how):
    """A function that yields these, and returns the weight after its loop."""

    def function(run):
        weight = np.zeros(1)
        for epoch in run.epochs(weight, total=len(values), **how):
            weight[0] = epoch
            if values[epoch - 1] is None:
                break
            yield {"valid_loss": -values[epoch - 1], "valid_accuracy": values[epoch - 1]}
        return {"test_accuracy": weight[0]}

    return function


@pytest.mark.parametrize(
    "values, how, best, trained",
    [
        ([0.1, 0.5, 0.4, 0.5, 0.3, 0.9], {"patience": 2}, 2, 4),
        ([0.1, 0.5, 0.4, 0.5, 0.3, 0.9], {"best": True}, 6, 6),
        ([0.1, 0.5, 0.4], {"best": "loss"}, 2, 3),
        ([0.1, 0.5, 0.4, None, 0.9], {"best": True}, 2, 3),
        ([0.1, 0.5, 0.4], {}, 3, 3),
    ],
    ids=["patience: as good is no better", "best", "another metric", "a break", "neither"],
)
def test_which_epoch_counts(store, values, how, best, trained):  # noqa: F811
    metrics: Any = (ACCURACY, Metric("loss"))
    journal = run_trial(yields(values, **how), store, metrics=metrics)
    assert journal.metrics["test_accuracy"] == best
    assert journal.metrics["valid_accuracy"] == values[best - 1]
    assert len(journal.epochs) == trained


@pytest.mark.parametrize(
    "how, why",
    [
        ({"best": "f1"}, "unknown metric 'f1'"),
        ({"patience": 0}, "patience"),
        ({"best": True}, "needs 'valid_f1' at every yield. Given: valid_loss, valid_accuracy"),
    ],
)
def test_what_cannot_be_is_refused(store, how, why):  # noqa: F811
    metrics = Metric("f1") if how == {"best": True} else ACCURACY
    journal = run_trial(yields([0.1], **how), store, metrics=metrics)
    assert journal.status == Status.FAILED
    assert journal.outcome and why in (journal.outcome.reason or "")
    assert "test_best_epoch.py:" in (journal.outcome.reason or "")
