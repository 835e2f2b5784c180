"""What a loop keeps without saving it is noticed, and nothing else is."""

import contextlib
import copy
import gc
import inspect
import itertools
import math
import random
import time
import weakref
from collections import deque

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ablate import cli
from ablate.config import tasks
from ablate.store.journal import Journal, kept_outside
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.user.epoch_loop import epoch_loop
from ablate.trial.user.user_code import executed
from tests.support import places
from tests.trial.user.test_function import fit_line, run_trial, store  # noqa: F401
from tests.trial.user.test_resuming import early_stopping as early_stopping_that_is_saved
from tests.trial.user.test_resuming import every_schedule, lbfgs, sparse_gradients

RESULT = {"valid_accuracy": 0.5, "test_accuracy": 0.5}
INPUTS = torch.randn(12, 2, generator=torch.Generator().manual_seed(1))


def a_net():
    net = nn.Linear(2, 1)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def a_step(net, optimizer):
    optimizer.zero_grad()
    loss = (net(INPUTS) - 1).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def early_stopping(run):
    net, optimizer = a_net()
    best, patience = math.inf, 0
    best_state = None
    for _ in run.epochs(net, optimizer, total=4):
        loss = a_step(net, optimizer)
        if loss < best:
            best = loss
            patience = 0
            best_state = copy.deepcopy(net.state_dict())
        else:
            patience += 1
            if patience > 2:
                break
        yield {"best": best, **RESULT}
    net.load_state_dict(best_state)
    return {"best": best}


class EarlyStopping:
    def __init__(self):
        self.best, self.bad = math.inf, 0

    def step(self, loss):
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)
        return self.bad > 3


def by_an_object(run):
    net, optimizer = a_net()
    stopper = EarlyStopping()
    for _ in run.epochs(net, optimizer, total=4):
        if stopper.step(a_step(net, optimizer)):
            break
        yield RESULT


def lists_and_counters(run):
    net, optimizer = a_net()
    history, recent, seen, step, counts = [], deque(maxlen=2), set(), 0, np.zeros(2)
    totals = {}
    for epoch in run.epochs(net, optimizer, total=4):
        for _ in range(2):
            step += 1
        history.append(a_step(net, optimizer))
        recent.append(history[-1])
        seen.add(epoch)
        counts[epoch % 2] += 1
        totals["all"] = totals.get("all", 0) + 1
        yield RESULT


def forgotten(run):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    head = nn.Linear(1, 1)
    heads_optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    teacher, mean = copy.deepcopy(net), torch.zeros(2)
    for _ in run.epochs(net, schedule, total=4):
        optimizer.zero_grad()
        heads_optimizer.zero_grad()
        loss = (head(net(INPUTS)) - teacher(INPUTS)).square().mean()
        loss.backward()
        optimizer.step()
        heads_optimizer.step()
        schedule.step()
        mean.lerp_(net[0].weight[0].detach(), 0.5)
        yield RESULT


def draws(run):
    net, optimizer = a_net()
    drawn, noise = np.random.default_rng(run.seed), torch.Generator().manual_seed(run.seed)
    order, batches, dice = list(range(9)), itertools.cycle(range(3)), random.Random(1)
    for _ in run.epochs(net, optimizer, total=4):
        drawn.normal()
        torch.rand(2, generator=noise)
        dice.random()
        random.shuffle(order)
        next(batches)
        a_step(net, optimizer)
        yield RESULT


def in_a_closure(run):
    net, optimizer = a_net()
    best = math.inf

    def is_better(loss):
        nonlocal best
        best, before = min(best, loss), best
        return best < before

    for _ in run.epochs(net, optimizer, total=4):
        is_better(a_step(net, optimizer))
        yield RESULT


def read_after_the_loop(run):
    net, optimizer = a_net()
    loss = math.nan
    with contextlib.nullcontext():
        for _ in run.epochs(net, optimizer, total=4):
            loss = a_step(net, optimizer)
            yield RESULT
    return {"last": loss}


def now_and_then(run):
    net, optimizer = a_net()
    for epoch in run.epochs(net, optimizer, total=4):
        a_step(net, optimizer)
        if epoch % 2:
            loss = net(INPUTS).mean().item()
        yield {"loss": loss, **RESULT}


@pytest.mark.parametrize(
    "function, names",
    [
        (early_stopping, {"best", "patience", "best_state"}),
        (by_an_object, {"stopper"}),
        (lists_and_counters, {"history", "recent", "seen", "step", "counts", "totals"}),
        (forgotten, {"optimizer", "head", "heads_optimizer", "mean"}),
        (draws, {"drawn", "noise", "order", "batches", "dice"}),
        (in_a_closure, {"best"}),
        (read_after_the_loop, {"loss"}),
        (now_and_then, {"loss"}),
    ],
)
def test_what_a_loop_keeps_is_noticed_with_its_line(function, names, store):  # noqa: F811
    journal = run_trial(function, store)
    assert journal.outcome.status == Status.COMPLETED or not inspect.isgenerator(function), journal
    [(where, found)] = journal.kept_outside.items()
    lines, first = inspect.getsourcelines(function)
    line = next(first + n for n, text in enumerate(lines) if "in run.epochs(" in text)
    assert where == f"test_kept_outside.py:{line}" and set(found) == names


def an_ordinary_loop(run):
    net, optimizer = a_net()
    loader = torch.utils.data.DataLoader(INPUTS, batch_size=4, shuffle=True)
    rows, texts = np.arange(12), ["a", "b"]
    is_half, meter = run.precision == "bfloat16", EarlyStopping()
    net = net.to(run.device)
    losses, scratch = [], torch.empty(2)
    bar = iter(()) if run is None else None

    def accuracy():
        net.eval()
        with torch.no_grad():
            return net(INPUTS).sigmoid().mean().item()

    for epoch in run.epochs(net, optimizer, total=4):
        start, total, count, best = time.monotonic(), 0.0, 0, 0
        losses.clear()
        scratch[:] = 0
        meter.__init__()
        net.train()
        for number, batch in enumerate(loader):
            with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
                loss = F.mse_loss(net(batch).squeeze(1), batch[:, 0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            count += 1
            scratch.add_(1)
            losses.append([loss.item() for loss in [loss]])
            best = max(best, number)
        if epoch > 2:
            rate = 0.1 * 0.9**epoch
        elif rows is None:
            continue
        else:
            rate = 0.1
        if is_half:
            extra = accuracy()
        try:
            shown = f"{texts[0]} {rate:.3f} {bar}"
        except ValueError:
            shown = ""
        optimizer.param_groups[0]["lr"] = rate
        taken = time.monotonic() - start
        if is_half:
            total += extra
        yield {"loss": loss, "mean": total / count, "taken": taken, "n": len(shown), **RESULT}
    return {"valid_accuracy": accuracy(), "best": len(losses)}


def all_is_given(run):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    encoder, head = net
    optimizer = torch.optim.Adam(net.parameters())
    averaged = torch.optim.swa_utils.AveragedModel(net)
    history, frozen = [], nn.Linear(2, 1)
    weight = net[0].weight
    kept = {"best": math.inf, "history": history}
    for _ in run.epochs(net, optimizer, averaged, kept, total=4):
        net.train()
        loss = head(encoder(INPUTS)).square().mean() + weight.square().sum() + frozen(INPUTS).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(net)
        history.append(loss.item())
        best = kept["best"] = min(kept["best"], loss.item())
        yield {"best": best, **RESULT}
    return {"best": kept["best"]}


def filled_in_the_first_epoch(run):
    net, optimizer = a_net()
    words, _step = {}, 0
    for epoch in run.epochs(net, optimizer, total=4):
        if not words:
            words["a"] = 1
        _step += epoch  # a name that says that it does not matter
        a_step(net, optimizer)
        yield RESULT


@pytest.mark.parametrize(
    "function",
    [
        an_ordinary_loop,
        all_is_given,
        filled_in_the_first_epoch,
        fit_line,
        early_stopping_that_is_saved,
        every_schedule,
        lbfgs,
        sparse_gradients,
    ],
)
def test_an_ordinary_loop_is_not_accused(function, store):  # noqa: F811
    journal = run_trial(function, store)
    assert journal.outcome.status == Status.COMPLETED, (journal.outcome, journal.outcome.frames)
    assert journal.kept_outside == {}


@pytest.mark.parametrize("name", ["digits_cnn", "tiny_trainer"])
def test_shipped_studies_keep_nothing(name, monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    file = places.STUDIES / f"{name}.py"
    loop = epoch_loop(executed(file, f"shipped_{name}").train)
    assert loop is not None and not loop.carried


def test_a_function_without_a_loop_over_epochs_has_none():
    assert epoch_loop(lambda run: RESULT) is None
    assert epoch_loop(eval("lambda run: 1")) is None


def test_the_note_says_what_is_kept_and_which_trials_lost_it(store, tmp_path):  # noqa: F811
    whole = run_trial(early_stopping, store)
    cut = run_trial(early_stopping, Store(str(tmp_path / "other")), cut_after=2)
    assert not whole.went_on_without and cut.went_on_without
    [text] = kept_outside([whole, whole, Journal(whole.trial)])
    where = next(iter(whole.kept_outside))
    assert text.startswith(f"{where}: this loop keeps best, best_state and patience from epoch to")
    assert text.endswith('Give them to run.epochs in a dict: kept = {"best": best, ...}.')
    assert "do not believe" not in text
    [text] = kept_outside([whole, cut])
    assert "1 trial has done so already, so do not believe the result." in text


def test_looking_keeps_nothing_alive(store):  # noqa: F811
    def train(run):
        kept, dead, one = [], [], None
        for _ in run.epochs(nn.Linear(1, 1), total=3):
            dead.append(one is None or all(each() is None for each in kept[:-1]))
            one = nn.Linear(1, 1)
            kept.append(weakref.ref(one))
            yield RESULT
        return {"dead": all(dead)}

    outcome = run_trial(train, store).outcome
    assert outcome.metrics["dead"] == 1, outcome


def test_a_function_ends_with_its_trial(store):  # noqa: F811
    """At once, not when memory is cleaned up: it may have a program running."""
    ended = []

    def train(run):
        try:
            for _ in run.epochs(nn.Linear(1, 1), total=3):
                yield {"valid_accuracy": math.nan}
        finally:
            ended.append(run.seed)

    gc.disable()
    try:
        assert run_trial(train, store).outcome.status == Status.DIVERGED
        assert ended == [1]
    finally:
        gc.enable()


class Strange:
    """Nothing can be asked of it."""

    def __getattr__(self, name):
        raise OSError(name)

    def __repr__(self):
        raise OSError

    def __eq__(self, other):
        raise OSError

    __hash__ = None


def test_an_object_that_cannot_be_looked_at_ends_no_trial(store):  # noqa: F811
    def train(run):
        strange, kept, net = Strange(), [], nn.Linear(1, 1)
        schedule = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(net.parameters()), 1)
        object.__setattr__(schedule, "odd", [Strange()])
        schedule.state_dict = dict
        for _ in run.epochs(net, schedule, total=3):
            kept.append(strange)
            strange = (strange, Strange())[1]
            yield RESULT

    journal = run_trial(train, store)
    assert journal.outcome.status == Status.COMPLETED, journal.outcome
    assert journal.kept_outside


CODE = """
from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Study, setting, table, task


@dataclass(frozen=True, kw_only=True)
class Config:
    rate: float = setting(0.1, doc="learning rate", low=0)


@task("stops", config=Config, metrics=Metric("loss"))
def train(run):
    import torch

    net, best = torch.nn.Linear(1, 1), 9.0
    for epoch in run.epochs(net, total=3):
        best = min(best, run.config.rate + run.seed % 7 + 1 / epoch)
        yield {"valid_loss": best}
    return {"test_loss": best}


study = Study(
    question="Does it stop?",
    base={"task": "stops"},
    base_arm="one",
    design=table(Arm("one"), Arm("two", {"stops.rate": 0.2})),
    scales={"laptop": Scale(seeds=2)},
)
"""


@pytest.mark.slow
def test_a_study_says_it_once_while_it_runs_and_below_its_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    (tmp_path / "stops.py").write_text(CODE)
    place = ["--workspace", str(tmp_path / "w")]
    assert cli.main(["study", str(tmp_path / "stops.py"), "--local", *place]) == 0
    printed = capsys.readouterr().out
    note = "stops.py:17: this loop keeps best from epoch to epoch"
    running, _, shown = printed.partition("of 4 trials done")
    assert running.count(note) == 1 and shown.count(note) == 1
    assert running.index(note) < running.index("[1/4]")
    assert cli.main(["table", "stops@laptop", *place]) == 0
    assert note in capsys.readouterr().out
