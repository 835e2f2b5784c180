"""Whatever torch trains goes on with the same bits, wherever it is cut."""

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from ablate.errors import TrialError
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.checkpoint import weights_digest
from ablate.trial.user.plain_state import join, load_state, read_state
from tests.trial.user.test_function import run_trial, store  # noqa: F401
from tests.trial.user.test_plain_state import through_a_file

EPOCHS = 3
RECORDED = (
    "18d3bcf67aea663de1420fd3583f9cf4a8c53f004c19439f6cd1760a8b30744c"  # by an earlier version
)


class Everything(nn.Module):
    """A layer of each common kind, and parameters and buffers of odd shapes and types."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv1d(2, 4, 3, padding=1),
            nn.BatchNorm1d(4),
            nn.PReLU(),
            nn.GroupNorm(2, 4),
            nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
            nn.ConvTranspose1d(4, 4, 3, padding=1),
            nn.Dropout(0.2),
        )
        self.images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.AdaptiveAvgPool2d(1))
        self.images.to(memory_format=torch.channels_last)
        self.embedding = nn.Embedding(5, 4)
        self.lstm, self.gru = nn.LSTM(4, 4, batch_first=True), nn.GRU(4, 4, batch_first=True)
        self.attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
        self.spectral = parametrizations.spectral_norm(nn.Linear(4, 4))
        self.weight_norm = parametrizations.weight_norm(nn.Linear(4, 4))
        self.lazy, self.never = nn.LazyLinear(4), nn.LazyLinear(4)
        self.tied = nn.Linear(4, 5, bias=False)
        self.tied.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.empty = nn.Parameter(torch.empty(0, 3))
        self.halves = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.turns = nn.Parameter(torch.ones(2, dtype=torch.complex64))
        self.register_buffer("phases", torch.ones(2, dtype=torch.complex128))
        self.register_buffer("sparse", torch.eye(3).to_sparse())
        self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).T)
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, words):
        x = self.convolutions(self.embedding(words).reshape(len(words), 2, -1))
        x = x.reshape(len(words), -1, 4)
        x = self.attention(self.gru(self.lstm(x)[0])[0])
        x = self.lazy(self.weight_norm(self.spectral(x))).mean(dim=1)
        seen = self.images(x.reshape(-1, 1, 1, 4).expand(-1, 1, 4, 4))
        odd = self.halves.float().sum() + self.turns.abs().sum() + self.empty.sum() + seen.sum()
        self.steps += 1
        self.phases *= torch.exp(torch.tensor(0.1j, dtype=torch.complex128))
        self.turned += 1
        self.sparse = self.sparse * 1.5
        return self.scale * self.tied(x) + odd


def optimizers():
    """Every optimizer of torch that trains dense parameters of any shape and type."""
    left_out = {"Optimizer", "SparseAdam", "LBFGS", "Muon"}  # they are tested on their own
    found = {n: c for n, c in vars(torch.optim).items() if isinstance(c, type)}
    return [name for name in found if name not in left_out]


def of_reals(model):
    """Parameters for the optimizers that know neither complex numbers nor empty tensors."""
    parameters = [p for p in model.parameters() if not isinstance(p, nn.UninitializedParameter)]
    return [p for p in parameters if not p.is_complex() and p.numel() and p.dtype == torch.float32]


def any_net(optimizer_name, seed, cut=None):
    """Train `Everything` with an optimizer and all that goes with it."""

    def train(run):
        torch.manual_seed(seed)
        model = Everything()
        words = torch.randint(5, (6, 3), generator=run.streams.generator("words"))
        words = torch.cat([words, words], dim=1)[:, :4]
        model(words)  # what is lazy gets its shape
        optimizer = getattr(torch.optim, optimizer_name)(of_reals(model), lr=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.1, total_steps=20, cycle_momentum=False
        )
        mean = torch.optim.swa_utils.AveragedModel(nn.Sequential(nn.BatchNorm1d(2)))
        mean.module[0] = copy.deepcopy(model.convolutions[1])
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        drawn, noise = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        counts = np.array(0)
        for _ in run.epochs(
            model, optimizer, schedule, mean, scaler, drawn, noise, counts, total=EPOCHS
        ):
            rows = drawn.permutation(len(words))
            optimizer.zero_grad()
            noisy = model(words[rows]) + 0.1 * torch.randn(6, 5, generator=noise)
            loss = nn.functional.cross_entropy(noisy, words[rows, 0])
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            mean.module[0].running_mean.lerp_(model.convolutions[1].running_mean, 0.5)
            mean.n_averaged += 1
            counts += len(rows)
            yield {"loss": loss, "valid_accuracy": 1 / (1 + loss.item()), "counts": counts}
        return {"test_accuracy": 0.5}

    return train


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", optimizers())
def test_a_net_of_every_layer_ends_with_the_same_bits(optimizer, store, tmp_path):  # noqa: F811
    assert_same_wherever_cut(any_net(optimizer, 1), tmp_path, after=(2,))


def assert_same_wherever_cut(train, tmp_path, after=None):
    """Run a function to its end, uncut and cut after each epoch, or after these."""
    whole = run_trial(train, Store(str(tmp_path / "whole")))
    assert whole.outcome.status == Status.COMPLETED, (whole.outcome.reason, whole.outcome.frames)
    for cut_after in after or range(1, len(whole.epochs) + 1):
        cut = run_trial(train, Store(str(tmp_path / str(cut_after))), cut_after=cut_after)
        assert cut.outcome == whole.outcome, (cut.outcome.reason, cut.outcome.frames)
        assert cut.attempts[1].from_epoch == cut_after
        results = [[replace(epoch, seconds=0) for epoch in each.epochs] for each in (whole, cut)]
        assert results[0] == results[1]


def schedules(optimizer):
    """Every kind of schedule of torch, each alone."""
    of = torch.optim.lr_scheduler
    return [
        of.StepLR(optimizer, 1, gamma=0.9),
        of.MultiStepLR(optimizer, [1, 3], gamma=0.9),
        of.ConstantLR(optimizer),
        of.LinearLR(optimizer),
        of.ExponentialLR(optimizer, 0.9),
        of.PolynomialLR(optimizer, 9),
        of.CosineAnnealingLR(optimizer, 10),
        of.CosineAnnealingWarmRestarts(optimizer, 2),
        of.CyclicLR(optimizer, 0.001, 0.1),
        of.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
        of.MultiplicativeLR(optimizer, lambda epoch: 0.9),
        of.ReduceLROnPlateau(optimizer, patience=0),
        torch.optim.swa_utils.SWALR(optimizer, 0.05),
        of.SequentialLR(optimizer, [of.ConstantLR(optimizer), of.StepLR(optimizer, 1)], [2]),
        of.ChainedScheduler([of.ConstantLR(optimizer), of.ExponentialLR(optimizer, 0.9)]),
    ]


def every_schedule(run):
    """Fifteen nets, each with a schedule of its own."""
    makers = range(15)
    nets = [nn.Linear(2, 1) for _ in makers]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in nets]
    made = [schedules(optimizer)[number] for number, optimizer in enumerate(optimizers)]
    for optimizer, schedule in zip(optimizers, made, strict=True):
        optimizer.param_groups[0]["lr"] = schedule.get_last_lr()[0]
    for _ in run.epochs(*nets, *optimizers, *made, total=EPOCHS):
        total = 0.0
        for net, optimizer, schedule in zip(nets, optimizers, made, strict=True):
            optimizer.zero_grad()
            loss = (net(torch.randn(8, 2)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            plateau = isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau)
            schedule.step(*([loss.item()] if plateau else []))
            total += loss.item() + optimizer.param_groups[0]["lr"]
        yield {"total": total, "valid_accuracy": 0.5}
    return {"test_accuracy": 0.5}


def lbfgs(run):
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.3, max_iter=3, history_size=4)
    inputs = torch.randn(16, 2, generator=run.streams.generator("inputs"))

    def closure():
        optimizer.zero_grad()
        loss = (net(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        loss.backward()
        return loss

    for _ in run.epochs(net, optimizer, total=4):
        loss = optimizer.step(closure)
        yield {"loss": loss, "valid_accuracy": 0.5}
    return {"test_accuracy": 0.5}


def sparse_gradients(run):
    words = nn.EmbeddingBag(6, 3, sparse=True)
    matrix = nn.Linear(3, 3, bias=False)
    optimizer = torch.optim.SparseAdam(words.parameters(), lr=0.1)
    other = torch.optim.Muon(matrix.parameters(), lr=0.1)
    for _ in run.epochs(words, matrix, optimizer, other, total=EPOCHS):
        optimizer.zero_grad()
        other.zero_grad()
        loss = matrix(words(torch.randint(6, (4, 5)))).square().mean()
        loss.backward()
        optimizer.step()
        other.step()
        yield {"loss": loss, "valid_accuracy": 0.5}
    return {"test_accuracy": 0.5}


def early_stopping(run):
    """Stop at the second epoch in a row that is no better; report the best one."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    history = []
    kept = {"best": np.float64(np.inf), "patience": 0, "state": None, "history": history}
    for epoch in run.epochs(net, optimizer, kept, total=9):
        optimizer.zero_grad()
        loss = (net(torch.randn(8, 2)) - epoch % 3).square().mean()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        if loss < kept["best"]:
            kept |= {"best": np.float64(loss.item()), "patience": 0, "epoch": (epoch, None)}
            kept["state"] = copy.deepcopy(net.state_dict())
        else:
            kept["patience"] += 1
        if kept["patience"] == 2:
            break
        yield {"loss": loss, "valid_accuracy": 1 / (1 + kept["best"]), "mean": np.mean(history)}
    net.load_state_dict(kept["state"])
    size = net.weight.abs().sum() + len(history) + kept["epoch"][0]
    return {"size": size, "valid_accuracy": 1 / (1 + kept["best"]), "test_accuracy": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("train", [every_schedule, lbfgs, sparse_gradients, early_stopping])
def test_what_goes_with_a_net_ends_with_the_same_bits(train, store, tmp_path):  # noqa: F811
    assert_same_wherever_cut(train, tmp_path)


def test_a_trial_with_tensors_without_dimensions_ends(store):  # noqa: F811
    def train(run):
        net = nn.BatchNorm1d(2)
        net.scale = nn.Parameter(torch.tensor(1.0))
        for _ in run.epochs(net, total=2):
            yield {"mean": net(torch.randn(4, 2)).mean(), "valid_accuracy": 0.5}
        return {"test_accuracy": 0.5}

    outcome = run_trial(train, store).outcome
    assert outcome.status == Status.COMPLETED, outcome.reason
    assert outcome.num_parameters == 5


def test_the_digest_of_weights_is_the_one_that_was_recorded():
    weights = {"0.weight": torch.arange(6.0).reshape(2, 3).T, "e": torch.empty(0, 3)}
    weights |= {"0.half": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor([True])}
    assert weights_digest(weights) == RECORDED


def test_a_states_metadata_and_order_are_kept():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    state, again = net.state_dict(), through_a_file(net.state_dict())
    assert type(again) is type(state) and list(again) == list(state)
    assert again._metadata == state._metadata and again._metadata["0"] == {"version": 2}


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.float32(0.5),
        np.int64(2**40),
        np.datetime64("2024-02-29"),
        np.str_("läuft"),
        np.bool_(True),
        np.arange(6).reshape(2, 3).T,
        np.arange(6)[::-2],
        np.empty((0, 3), np.float16),
        np.arange(3, dtype=">f8"),
        np.array(["a", "längere"]),
        np.array([b"ab", b""]),
        np.array(["2024-02-29", "NaT"], "M8[D]"),
        np.array([1 + 2j], np.complex64),
        np.array([1.5], np.longdouble),
        np.array([2**64 - 1], np.uint64),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_an_array_or_a_number_of_numpy_is_kept_as_it_is(array):
    again = through_a_file({"a": array})["a"]
    assert type(again) is type(array) and again.dtype == array.dtype
    assert again.shape == array.shape and again.tobytes("A") == array.tobytes("A")
    assert np.asarray(again).flags.fnc == np.asarray(array).flags.fnc


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(0.5),
        torch.empty(0, 3),
        torch.arange(6.0).reshape(2, 3).T,
        torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        torch.ones(3).expand(2, 3),
        torch.tensor([1 + 2j], dtype=torch.complex128),
        torch.tensor([1 + 2j], dtype=torch.complex64).conj(),
        torch.tensor([1.5, -0.0]).to(torch.float8_e4m3fn),
        torch.tensor([2**63], dtype=torch.uint64),
        torch.tensor([True]),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}",
)
def test_a_tensor_is_kept_as_it_is(tensor):
    again = through_a_file([tensor])[0]
    assert again.dtype == tensor.dtype and again.shape == tensor.shape
    assert weights_digest({"": again}) == weights_digest({"": tensor})
    assert again.stride() == tensor.clone().stride()


@pytest.mark.parametrize("coalesced", [True, False])
def test_a_sparse_tensor_is_kept_as_it_is(coalesced):
    tensor = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,), check_invariants=True)
    tensor = tensor.coalesce() if coalesced else tensor
    again = through_a_file([tensor])[0]
    assert again.is_coalesced() == coalesced and torch.equal(again.to_dense(), tensor.to_dense())
    assert torch.equal(again._values(), tensor._values())


def test_a_number_of_any_size_is_kept():
    state = {"big": 10**400, "bigger": -(10**5000), 1: True, "small": -0.0, "inf": float("-inf")}
    again = through_a_file(state)
    assert again == state and str(again["small"]) == "-0.0" and again[1] is True


def within_itself():
    state = {"values": [1]}
    state["values"].append(state)
    return state


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is going to drop them
        return torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)


@pytest.mark.parametrize(
    "state, message",
    [
        (within_itself(), "contains itself"),
        ({"best": {1, 2}}, r"contains a set: \{1, 2\}"),
        ({"a": np.array([object()])}, "contains an object array"),
        ({"a": np.ma.masked_array([1], [True])}, "contains a masked array"),
        ({"a": torch.empty(2, device="meta")}, "contains a meta tensor"),
        ({"a": quantized()}, "contains a quantized tensor"),
        ({"net": nn.Linear(1, 1)}, r"contains a Linear: .* Give it to run.epochs\(\) by itself"),
        ({"drawn": np.random.default_rng(1)}, "by itself, or keep a copy of its state"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_the_users_line(state, message, store):  # noqa: F811
    def train(run):
        for _ in run.epochs(state, total=1):
            yield {"valid_accuracy": 0.5}

    def later(run):
        kept = {}
        for _ in run.epochs(kept, total=1):
            kept |= state
            yield {"valid_accuracy": 0.5}

    for function, below in ((train, 1), (later, 4)):
        outcome = run_trial(function, store).outcome
        assert outcome.status == Status.FAILED and outcome.frames is None
        line = function.__code__.co_firstlineno + below
        with pytest.raises(TrialError, match=rf"test_resuming\.py:{line}: .*{message}"):
            raise TrialError(outcome.reason.replace("\n", " "))
        store.delete(f"trials/{store.names('trials')[0]}/journal.json")


def test_weights_in_training_are_no_copy_of_the_best(store):  # noqa: F811
    def train(run):
        net, kept = nn.BatchNorm1d(2), {}
        for _ in run.epochs(net, kept, total=1):
            kept["best"] = net.state_dict()
            yield {"valid_accuracy": 0.5}

    reason = run_trial(train, store).outcome.reason
    assert "test_resuming.py" in reason and "copy.deepcopy(model.state_dict())" in reason


def test_members_of_a_dict_are_put_back_into_themselves_only(store, tmp_path):  # noqa: F811
    """A list, an array, a tensor or a dict may have other names; a new one is not the old one."""

    def train(run):
        rows, counts, weight, inner = [], np.zeros(2), nn.Parameter(torch.zeros(2)), {"a": []}
        first = torch.ones(2)
        kept = {"rows": rows, "counts": counts, "weight": weight, "inner": inner}
        kept |= {"last": first, "one": first, "other": first}
        for epoch in run.epochs(kept, total=EPOCHS):
            rows.append(epoch)
            counts += epoch
            with torch.no_grad():
                weight.add_(epoch)
            inner["a"].append(epoch)
            kept["last"] = kept["last"] + epoch
            yield {"sum": len(rows) + counts.sum() + weight.sum(), "valid_accuracy": 0.5}
        totals = [sum(kept["rows"]), *counts, *weight.tolist(), *inner["a"], *kept["last"].tolist()]
        assert kept["weight"] is weight and kept["one"] is kept["other"] is first
        return {"first": first.sum(), "totals": sum(totals), "test_accuracy": 0.5}

    assert_same_wherever_cut(train, tmp_path)


def test_copies_of_a_net_have_no_parameters_of_their_own(store):  # noqa: F811
    def train(run):
        net, frozen = nn.Linear(2, 3), nn.Linear(5, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        best, mean = copy.deepcopy(net), torch.optim.swa_utils.AveragedModel(net)
        for _ in run.epochs(net, best, mean, frozen, optimizer, {"best": None}, total=1):
            yield {"valid_accuracy": 0.5}
        return {"test_accuracy": 0.5}

    assert run_trial(train, store).outcome.num_parameters == 9 + 6


def test_a_checkpoint_from_before_types_were_saved_is_read():
    tensors = {"0": torch.tensor([3.5]), "1": torch.zeros(2)}
    array = {"__tensor__": "0", "kind": "array"}
    now = np.array(1.0)
    load_state(now, join(array, tensors))
    assert now.shape == () and now == 3.5
    old = {"__items__": [["weight", {"__tensor__": "1", "kind": "tensor"}], ["lr", 0.5]]}
    assert join(old, tensors)["lr"] == 0.5 and read_state(now) is now
