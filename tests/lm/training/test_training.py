"""Training: the same seed gives the same bits, however often it was interrupted."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from ablate.config.identity import Parent, Trial, make_trial
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.data.corpus import corpus_digest
from ablate.lm.model.masks import Chance
from ablate.lm.training.training import Training, _clip
from ablate.lm.training.updates import Part, Update
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial import checkpoint
from ablate.trial.run import TrialRun
from ablate.trial.task import Place
from tests.support import trials

TINY = {
    "corpus.name": "grammar",
    "corpus.train_tokens": 1000,
    "corpus.eval_tokens": 300,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.num_layers": 2,
    "backbone.units": [10, 8],
    "head": "doc",
    "head.experts": [2, 1, 0],
    "optimizer": "nt_asgd",
    "optimizer.learning_rate": 5.0,
    "optimizer.nonmono": 0,
    "training.epochs": 3,
    "training.batch_size": 4,
    "training.window": 20,
    "training.variable_window": True,
    "training.clip": 0.25,
    "regularizer.weight_drop.rate": 0.3,
    "regularizer.embedding_dropout.rate": 0.1,
    "regularizer.variational_dropout.hidden": 0.2,
    "regularizer.variational_dropout.latent": 0.2,
    "regularizer.activation_regularization.alpha": 2.0,
    "regularizer.temporal_activation_regularization.beta": 1.0,
    "regularizer.mixture_balance.weight": 0.001,
}


def trial_of(data: str, changes=None, seed: int = 1, **more) -> Trial:
    return trials.made(merge(TINY, changes or {}), data, seed=seed, **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data) -> tuple[journals.Journal, Store]:
    """The trial of TINY that nothing disturbs, and its store."""
    store = Store(str(tmp_path_factory.mktemp("whole")))
    return trials.finish(trial_of(data), store, data), store


def steps_of(trial: Trial, store: Store, data: str, stops: tuple[int, ...]) -> journals.Journal:
    """Run the trial in slices, and restart it from its checkpoint after each of `stops` slices."""
    run = TrialRun(trial, store, data)
    for number in itertools.count(1):
        if run.advance(0):  # a slice of no time is one window
            return run.journal
        if number in stops:
            run.save()
            run = TrialRun(trial, store, data)
    raise RuntimeError


def update_of(task: Training, rows_TB: torch.Tensor) -> Update:
    """An update from the beginning of the text, on these rows, of which the losses are summed."""
    parts = rows_TB.chunk(task.config.training.accumulate, dim=1)

    def part(rows_TB: torch.Tensor) -> Part:
        state = task.model.initial_state(rows_TB.shape[1])
        run = partial(task.model, rows_TB[:-1], state)
        return Part(1.0, rows_TB[1:].reshape(-1), run)

    tokens = rows_TB[1:].numel()
    return Update([part(rows) for rows in parts], 1.0, 1.0, lambda passes: None, tokens)


def test_each_seed_trains_on_a_random_slice_of_its_own(data, tmp_path):
    """Section 6.2 of 004; the judged text is the same."""
    drawn = {"corpus.train_slice": "random"}
    one, other, again, first = (
        Training(trial_of(data, changes, seed), Place(Store(tmp_path), data)).corpus.splits
        for changes, seed in ((drawn, 1), (drawn, 2), (drawn, 1), ({}, 1))
    )
    assert len({splits["train"].tobytes() for splits in (one, other, again, first)}) == 3
    assert one["train"].tobytes() == again["train"].tobytes()
    assert len({splits["valid"].tobytes() for splits in (one, other, first)}) == 1


@pytest.mark.slow
def test_same_seed_same_bits_and_another_seed_others(whole, tmp_path, data):
    first, _ = whole
    again = trials.finish(trial_of(data), Store(tmp_path / "b"), data)
    other = trials.finish(trial_of(data, seed=2), Store(tmp_path / "c"), data)
    assert first.status == Status.COMPLETED, first.outcome
    assert first.outcome == again.outcome
    assert first.outcome.digest != other.outcome.digest


TWICE = {  # two passes of a window, a step off the loss, and an optimizer with a memory
    "optimizer": "sgd",
    "optimizer.learning_rate": 0.5,
    "optimizer.momentum": 0.9,
    "optimizer.schedule": "validation",
    "optimizer.validation": "better",
    "optimizer.decay": 2.0,
    "training.partial_shuffle": True,
    "regularizer.fraternal_dropout.kappa": 0.1,
    "regularizer.past_decode.weight": 0.1,
    "regularizer.frage.weight": 0.1,
    "regularizer.l2.everything": 1e-3,
    "regularizer.l2.mode": "decoupled",
}


@pytest.mark.slow
def test_an_interrupted_run_of_two_passes_gives_the_same_bits(tmp_path, data):
    trial = trial_of(data, TWICE)
    undisturbed = trials.finish(trial, Store(tmp_path / "a"), data)
    interrupted = steps_of(trial, Store(tmp_path / "b"), data, (8, 30))
    assert undisturbed.status == Status.COMPLETED, undisturbed.outcome
    assert interrupted.outcome == undisturbed.outcome
    for journal in (undisturbed, interrupted):
        rates = [epoch.metrics["learning_rate"] for epoch in journal.epochs]
        assert rates == [0.5, 0.5, 0.25]


@pytest.mark.slow
def test_an_interrupted_run_gives_the_very_bits_of_an_undisturbed_one(whole, tmp_path, data):
    stops = (1, 7, 8, 13, 25, 33)
    undisturbed, _ = whole
    interrupted = steps_of(trial_of(data), Store(tmp_path), data, stops)
    assert interrupted.outcome == undisturbed.outcome
    timeless = [
        [replace(epoch, seconds=None) for epoch in journal.epochs]
        for journal in (undisturbed, interrupted)
    ]
    assert timeless[0] == timeless[1]
    assert len(interrupted.attempts) == len(stops) + 1


@pytest.mark.slow
def test_what_was_learnt_after_the_last_checkpoint_is_learnt_again_not_twice(tmp_path, data):
    """Killed without a save: the journal is ahead of the checkpoint, and is cut back to it."""
    trial, store = trial_of(data), Store(tmp_path)
    run = TrialRun(trial, store, data)
    while run.epoch is None:
        run.advance(60)
    assert len(journals.read(store, trial.id).epochs) == 1
    journal = trials.finish(trial, store, data)
    assert [epoch.number for epoch in journal.epochs] == [1, 2, 3]


def test_a_finished_trial_is_not_run_again(whole, data):
    trial, store = trial_of(data), whole[1]
    before = store.read(journals.key(trial.id))
    assert TrialRun(trial, store, data).advance(60)
    assert store.read(journals.key(trial.id)) == before


def test_finetuning_starts_from_its_parents_weights(whole, data):
    parent, store = whole
    child = trial_of(data, {"training.epochs": 0}, parents=(Parent("start", parent.trial.id),))
    journal = trials.finish(child, store, data)
    assert journal.outcome.metrics == parent.outcome.metrics
    assert child.id != trial_of(data, {"training.epochs": 0}).id


def test_a_parent_without_weights_is_told(tmp_path, data):
    child = trial_of(data, parents=(Parent("start", "0123456789abcdef"),))
    journal = trials.finish(child, Store(tmp_path), data)
    assert journal.status == Status.FAILED
    assert "has no weights of trial 0123456789abcdef" in journal.outcome.reason


def test_a_loss_that_is_no_number_is_recorded_as_diverged(tmp_path, data):
    trial = trial_of(data, {"optimizer.learning_rate": 1e38, "training.clip": 1e38})
    journal = trials.finish(trial, Store(tmp_path), data)
    assert journal.status == Status.DIVERGED
    assert "nan" in journal.outcome.reason or "inf" in journal.outcome.reason
    assert journal.outcome.metrics == {}


def test_every_token_of_valid_and_test_is_kept_and_adds_up(whole):
    import pyarrow as pa

    journal, store = whole
    for split in ("valid", "test"):
        kept = store.read(f"trials/{journal.trial.id}/tokens/{split}.arrow")
        stored = pa.ipc.open_file(kept).read_all()
        assert stored.num_rows == 299
        mean = -sum(stored["log_prob"].to_pylist()) / stored.num_rows
        assert math.isclose(mean, journal.outcome.metrics[f"{split}_nll"], rel_tol=1e-5)


def test_a_search_trial_does_not_read_the_test_split(tmp_path, data):
    journal = trials.finish(trial_of(data, reads_test=False), Store(tmp_path), data)
    assert set(journal.outcome.metrics) == {"valid_nll", "valid_ppl", "valid_bits_per_byte"}


def test_accumulated_sub_batches_give_the_gradient_of_the_whole(tmp_path, data):
    """Without random masks, two halves of a batch are the batch, with its penalties."""
    off = {key: 0.0 for key in TINY if key.startswith("regularizer.")}
    off |= {"regularizer.l2.everything": 0.1, "regularizer.activation_l2.weight": 0.1}
    gradients = []
    for parts in (1, 2):
        trial = trial_of(data, {**off, "training.accumulate": parts})
        task = Training(trial, Place(Store(tmp_path), data))
        task.optimizer.step = lambda scale=1.0, rate=None: None
        task.model.zero_grad = lambda set_to_none=True: None
        task._train(task.reader.update(0, task.model))
        gradients.append([p.grad.clone() for p in task.model.parameters()])
    for whole, halves in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, halves, rtol=1e-4, atol=1e-6)


def test_accumulated_sub_batches_have_masks_of_their_own(tmp_path, data):
    """The same rows three times: what the passes make of them differs, part by part."""
    trial = trial_of(data, {"training.batch_size": 6, "training.accumulate": 3})
    task = Training(trial, Place(Store(tmp_path), data))
    seen = []
    passes = task._passes

    def noticed(*arguments):
        result = passes(*arguments)
        seen.append(result[0].features.output_TBH.detach())
        return result

    task._passes = noticed
    rows_TB = task.reader.train_rows[:9, :2].repeat(1, 3).to(torch.long)
    task._backward(update_of(task, rows_TB), Chance(task.streams, 0))
    assert len(seen) == 3
    for one, other in itertools.combinations(seen, 2):
        assert one.shape == other.shape and not torch.allclose(one, other)
    alone = passes(update_of(task, rows_TB).parts[0], Chance(task.streams, 0))
    assert torch.equal(seen[0], alone[0].features.output_TBH)


def test_zarembas_windows_are_whole_and_never_drawn(tmp_path, data):
    """1,000 tokens in 4 rows of 250: 12 windows of 20 steps, and 9 steps are left out."""
    values = {"training.batching": "zaremba", "training.variable_window": False}
    task = Training(trial_of(data, values), Place(Store(tmp_path), data))
    assert [tuple(window) for window in task.reader.windows] == [
        (20 * i, 20, 20) for i in range(12)
    ]
    with pytest.raises(CombinationError, match="variable_window"):
        Training(trial_of(data, {"training.batching": "zaremba"}), Place(Store(tmp_path), data))


CIRCULAR = {
    "training.batching": "circular",
    "training.variable_window": False,
    "training.updates_per_epoch": 7,
    "training.state_reset": 0.3,
}


def test_circular_rows_go_on_through_epochs_with_their_states(tmp_path, data):
    task = Training(trial_of(data, CIRCULAR), Place(Store(tmp_path), data))
    text, model = task.corpus.stream("train").tolist(), task.model
    starts = task.reader.starts_B.tolist()
    assert {text[start] for start in starts} == {task.corpus.eos}
    for _ in range(2):
        assert task.reader.num_updates == 7
        for number in range(7):
            task._train(task.reader.update(number, model))
        task.epoch += 1
        task._begin_epoch()
    assert any(state.any() for state in task.reader.state), "carried over the end of an epoch"
    inputs = task.reader._tokens(task.reader.windows[0])[0].tolist()
    assert inputs == [text[(start + 14 * 20) % len(text)] for start in starts]


def test_a_row_is_reset_whole_and_at_the_rate_that_is_set(tmp_path, data):
    task = Training(trial_of(data, CIRCULAR), Place(Store(tmp_path), data))
    ones = tuple(torch.ones_like(state) for state in task.reader.state)
    kept = []
    for number in range(500):
        task.reader.state = ones
        task.reader._reset(number, task.model)
        by_row = torch.cat([state[0] for state in task.reader.state], -1)
        assert set(by_row.mean(1).tolist()) <= {0.0, 1.0}, "all layers, and not rescaled"
        kept += by_row[:, 0].tolist()
    assert sum(kept) / len(kept) == pytest.approx(0.7, abs=0.03)


def test_without_resets_no_state_is_touched(tmp_path, data):
    task = Training(trial_of(data), Place(Store(tmp_path), data))
    before = task.reader.state = tuple(torch.ones_like(s) for s in task.reader.state)
    task.reader._reset(0, task.model)
    assert task.reader.state is before


AS_MELIS = {  # circular rows, a mean of the weights, and a rate that drops
    **CIRCULAR,
    "optimizer": "adam",
    "optimizer.learning_rate": 0.1,
    "optimizer.beta1": 0.0,
    "optimizer.schedule": "patience",
    "optimizer.patience": 1,
    "optimizer.first_drop": 2,
    "training.average_by": 1,
}


@pytest.mark.slow
def test_an_interrupted_run_of_circular_rows_and_means_gives_the_same_bits(tmp_path, data):
    trial = trial_of(data, AS_MELIS)
    undisturbed = trials.finish(trial, Store(tmp_path / "a"), data)
    interrupted = steps_of(trial, Store(tmp_path / "b"), data, (3, 9, 14))
    assert undisturbed.status == Status.COMPLETED, undisturbed.outcome
    assert interrupted.outcome == undisturbed.outcome
    assert [epoch.tokens for epoch in interrupted.epochs] == [7 * 4 * 20] * 3
    assert interrupted.epochs[0].event == "weights are averaged after epoch 1"
    rates = [epoch.metrics["learning_rate"] for epoch in interrupted.epochs]
    assert rates[1] == 0.1 and rates[2] < 0.1


BY_WIDTH = {  # an exponential mean, and rates by width
    "optimizer": "adamw",
    "optimizer.learning_rate": 0.01,
    "training.base_width": 4,
    "corpus.train_tokens": 800,
    "training.average_decay": 0.95,
    "training.epochs": 2,
}


@pytest.mark.slow
def test_an_interrupted_run_of_exponential_means_gives_the_same_bits(tmp_path, data):
    trial = trial_of(data, BY_WIDTH)
    undisturbed = trials.finish(trial, Store(tmp_path / "a"), data)
    interrupted = steps_of(trial, Store(tmp_path / "b"), data, (1, 9, 14))
    assert undisturbed.status == Status.COMPLETED, undisturbed.outcome
    assert interrupted.outcome == undisturbed.outcome
    # Its epochs are judged by the mean: the plain weights are trained as without any.
    plain = trial_of(data, {**BY_WIDTH, "training.average_decay": 1.0})
    raw = trials.finish(plain, Store(tmp_path / "c"), data)
    for ours, theirs in zip(undisturbed.epochs, raw.epochs, strict=True):
        assert ours.metrics["train_nll"] == theirs.metrics["train_nll"]
        assert ours.metrics["valid_nll"] != theirs.metrics["valid_nll"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"training.average_decay": 0.9}, "'nt_asgd' evaluates averages of its own"),
        ({"training.average_after": 3}, "'nt_asgd' evaluates averages of its own"),
    ],
)
def test_what_the_optimizer_has_no_place_for_is_refused(tmp_path, data, changes, named):
    with pytest.raises(CombinationError, match=named):
        Training(trial_of(data, changes), Place(Store(tmp_path), data))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"training.variable_window": True}, "variable_window"),
        ({"training.partial_shuffle": True}, "partial_shuffle"),
        ({"training.batching": "awd"}, "updates_per_epoch = 7"),
    ],
)
def test_what_contradicts_circular_rows_is_refused(tmp_path, data, changes, named):
    with pytest.raises(CombinationError, match=named):
        Training(trial_of(data, {**CIRCULAR, **changes}), Place(Store(tmp_path), data))


@pytest.mark.slow
def test_what_is_trained_on_ends_no_worse_than_it_began(whole, data):
    """A stage whose steps only harm keeps the weights that it started from."""
    started, store = whole
    harm = {"optimizer.learning_rate": 500.0, "training.clip": 100.0, "training.epochs": 1}
    child = trial_of(data, harm, parents=(Parent("start", started.trial.id),))
    ended = trials.finish(child, store, data)
    assert ended.epochs[-1].metrics["valid_nll"] > started.outcome.metrics["valid_nll"] + 0.1
    assert ended.outcome.digest == started.outcome.digest
    assert ended.outcome.metrics == started.outcome.metrics


def test_an_optimizer_is_told_how_many_tokens_an_update_has(tmp_path, data):
    """Of 800 tokens an update of 4 rows and 20 steps has a tenth."""
    trial = trial_of(data, {"optimizer": "sgd", "optimizer.momentum_tokens": 800})
    task = Training(trial, Place(Store(tmp_path), data))
    assert [group["momentum"] for group in task.optimizer.torch.param_groups] == [0.9]


def reached_after(run: TrialRun) -> float:
    """How far one more slice gets."""
    run.advance(0)
    return run.reached


def test_a_slice_says_how_much_of_the_epoch_is_done(tmp_path, data):
    """Updates are equal shares of an epoch; a run that resumes starts with what was done."""
    trial, store = trial_of(data), Store(tmp_path)
    run = TrialRun(trial, store, data)
    num_updates = Training(trial, Place(store, data)).reader.num_updates
    reached = [reached_after(run) for _ in range(num_updates)]
    assert reached == pytest.approx([(at + 1) / num_updates for at in range(num_updates)])
    first, second = (reached_after(run) for _ in range(2))
    assert 1 < first < second < 1.2
    run.save()
    third = reached_after(TrialRun(trial, store, data))
    assert third - second == pytest.approx(second - first)
    run = TrialRun(trial, store, data)
    while not run.advance(60):
        pass
    assert run.reached == trial.config.training.epochs


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["no checkpoint", "zeroed", "of a later epoch"])
def test_a_damaged_checkpoint_is_named_and_changes_no_result(whole, tmp_path, data, caplog, damage):
    trial, store = trial_of(data), Store(tmp_path)
    run = TrialRun(trial, store, data)
    while run.epoch is None:
        run.advance(0)
    run.save()
    key = checkpoint.last_key(trial.id)
    saved = store.read(key)
    if damage == "no checkpoint":
        store.write(key, b"\x08" + b"\x00" * 20)
    elif damage == "zeroed":
        quarter = len(saved) // 4
        (tmp_path / key).write_bytes(saved[:-quarter] + bytes(quarter))
    else:
        store.delete(journals.key(trial.id))
    journal = trials.finish(trial, store, data)
    assert f"{key} in the store {tmp_path} is damaged" in caplog.text
    assert key in journal.attempts[-1].discarded
    undisturbed, _ = whole
    assert journal.outcome == undisturbed.outcome
    assert [epoch.metrics["valid_nll"] for epoch in journal.epochs] == [
        epoch.metrics["valid_nll"] for epoch in undisturbed.epochs
    ]


@pytest.mark.slow
def test_rounds_begin_again_from_the_best_as_long_as_they_help(tmp_path, data, monkeypatch):
    losses = iter([3.0, 2.0, 2.5, 1.9, 2.2, 2.1, 2.3, 9.9])
    weights: list[dict[str, torch.Tensor]] = []

    def validate(self) -> float:
        weights.append({n: t.clone() for n, t in self.model.state_dict().items()})
        return next(losses)

    round_starts: list[dict[str, torch.Tensor]] = []
    begin = Training._begin_round

    def begin_round(self) -> None:
        begin(self)
        round_starts.append({n: t.clone() for n, t in self.model.state_dict().items()})

    monkeypatch.setattr(Training, "_validate", validate)
    monkeypatch.setattr(Training, "_begin_round", begin_round)
    changes = {
        "optimizer": "sgd",
        "training.epochs": 30,
        "training.stop_after_worse": 0,
        "training.repeat_while_better": True,
    }
    journal = trials.finish(trial_of(data, changes), Store(str(tmp_path)), data)
    events = {e.number: e.event for e in journal.epochs if "round ended" in e.event}
    assert (len(journal.epochs), list(events)) == (7, [3, 5])
    for start, best in zip(round_starts, (weights[1], weights[3]), strict=True):
        assert all(torch.equal(start[name], best[name]) for name in best)


def test_every_round_has_the_schedule_of_the_first(tmp_path, data, monkeypatch):
    values = iter([5.0, 4.0, 4.5, 3.0, 2.0, 2.5, 2.4])
    monkeypatch.setattr(Training, "_validate", lambda self: next(values))
    changes = {
        "optimizer": "sgd",
        "optimizer.learning_rate": 1.0,
        "optimizer.decay": 2.0,
        "training.epochs": 7,
        "training.stop_after_worse": 0,
        "training.repeat_while_better": True,
    }
    journal = trials.finish(trial_of(data, changes), Store(str(tmp_path)), data)
    rates = [epoch.metrics["learning_rate"] for epoch in journal.epochs]
    assert rates == [1, 0.5, 0.25, 1, 0.5, 0.25, 1]


@pytest.mark.parametrize(
    "bounded", [{"regularizer.non_negative.share": 1.0}, {"regularizer.column_norm.norm": 0.5}]
)
def test_averages_of_steps_beyond_the_bounds_are_put_back(tmp_path, data, monkeypatch, bounded):
    evaluated = []

    def validate(self) -> float:
        evaluated.append(self.model.embedding.weight.detach().clone())
        return 5.0

    monkeypatch.setattr(Training, "_validate", validate)
    changes = {"optimizer.trigger": "at_once", "optimizer.learning_rate": 5.0, **bounded}
    trials.finish(trial_of(data, {**changes, "training.epochs": 2}), Store(str(tmp_path)), data)
    if "regularizer.non_negative.share" in bounded:
        assert all((weights >= 0).all() for weights in evaluated)
    else:
        norms = torch.stack([weights.norm(dim=0) for weights in evaluated])
        torch.testing.assert_close(norms, torch.full_like(norms, 0.5))


def test_rows_without_a_window_are_refused(tmp_path, data):
    """Windows leave out a last one of a single target: two tokens a row make none at all."""
    changes = {"corpus.train_tokens": 100, "training.batch_size": 40}
    journal = trials.finish(trial_of(data, changes), Store(str(tmp_path)), data)
    assert journal.status == Status.FAILED
    assert "rows of 2 tokens are too short to train on" in journal.outcome.reason


def test_a_clip_of_0_is_no_clipping(tmp_path, data):
    one, other = (
        Training(trial_of(data, {"training.clip": clip}), Place(Store(str(tmp_path)), data))
        for clip in (0.0, None)
    )
    for task in (one, other):
        task.advance(0)
    weights = zip(one.model.parameters(), other.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)


@pytest.mark.slow
def test_rounds_go_on_from_a_checkpoint(tmp_path, data):
    changes = {
        "optimizer.trigger": "at_once",
        "training.epochs": 8,
        "training.stop_after_worse": 0,
        "training.repeat_while_better": True,
        "optimizer.learning_rate": 60.0,
    }
    whole = trials.finish(trial_of(data, changes), Store(str(tmp_path / "whole")), data)
    store = Store(str(tmp_path / "cut"))
    run = TrialRun(trial_of(data, changes), store, data)
    while not run.advance(0.02):
        run.save()
        run = TrialRun(trial_of(data, changes), store, data)
    assert any("round ended" in epoch.event for epoch in whole.epochs)
    assert run.journal.outcome.digest == whole.outcome.digest


def test_log_probabilities_are_kept_only_where_every_token_has_one(tmp_path, data):
    store = Store(str(tmp_path))
    by_rows = trials.finish(trial_of(data, {"evaluator.standard.batch_size": 4}), store, data)
    assert "valid_nll" in by_rows.outcome.metrics
    assert not store.exists(f"trials/{by_rows.trial.id}/tokens/valid.arrow")


def test_the_loss_of_two_passes_is_their_mean(tmp_path, data):
    """Fraternal dropout's two passes have masks of their own, and so losses of their own."""
    task = Training(trial_of(data, TWICE), Place(Store(tmp_path), data))
    rows_TB = task.reader.train_rows[:9].to(torch.long)
    chance, targets_N = Chance(task.streams, 0), rows_TB[1:].reshape(-1)
    update = update_of(task, rows_TB)
    passes = task._passes(update.parts[0], chance)
    embedding = task.model.embedding.weight
    first, second = (task.loss(one, targets_N, embedding, chance) for one in passes)
    assert abs(first - second) > 1e-3
    both = task._losses(passes, targets_N, chance)
    torch.testing.assert_close(both, (first + second) / 2)
    (nll,) = task._backward(update, chance)
    assert nll.item() == pytest.approx(both.item())


def test_a_round_starts_with_a_fresh_optimizer(tmp_path, data):
    """Neither the averages nor the falling rate of the round before are carried over."""
    task = Training(trial_of(data, TWICE), Place(Store(tmp_path), data))
    task._keep_best()
    task._train(task.reader.update(0, task.model))
    task.epoch, task.valid_history = 2, [3.0, 2.0]
    assert task.optimizer.saved()[0] and task._rate(0) < 0.5
    task._begin_round()
    assert task._rate(0) == 0.5
    assert task.optimizer.saved()[0] == {}
    before = [parameter.clone() for parameter in task.model.parameters()]
    task._train(task.reader.update(1, task.model))
    assert any(
        not torch.equal(one, other)
        for one, other in zip(before, task.model.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("largest", "scale"),
    [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (1e-30, 1e-3), (math.inf, 1.0), (0.5, 1e30)],
)
def test_gradients_are_clipped_to_the_bits_of_torchs_own(largest, scale):
    """Also a model with a parameter that has none, and those whose norm is the largest allowed."""
    first, second = (torch.nn.Linear(3, 2) for _ in range(2))
    for model in (first, second):
        model.bias.requires_grad_(False)
        model.weight.grad = torch.full((2, 3), scale / math.sqrt(6))
    torch.nn.utils.clip_grad_norm_(first.parameters(), largest)
    _clip(second, largest)
    exact = {"rtol": 0, "atol": 0, "equal_nan": True}  # 1e30 has no norm in float32
    torch.testing.assert_close(second.weight.grad, first.weight.grad, **exact)


def test_gradients_that_are_not_numbers_stay_so():
    model = torch.nn.Linear(3, 2)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, math.nan)
    _clip(model, 1.0)
    assert model.weight.grad.isnan().all()


ALL_SITES = {f"regularizer.dropout.{site}": 0.1 for site in ("input", "hidden", "output", "latent")}


@pytest.mark.parametrize(
    ("changes", "idle"),
    [
        ({"head": "mos", "head.experts": 2}, []),
        ({"head": "mos", "head.experts": 2, "backbone.num_layers": 1}, ["dropout.hidden"]),
        ({"head": "softmax"}, ["dropout.latent"]),
        ({"head": "softmax", "backbone": "feed_forward", "regularizer.dropout.hidden": 0.0,
          "regularizer.weight_drop.rate": 0.0}, ["dropout.latent"]),
    ],
)  # fmt: skip
def test_a_mask_that_the_model_never_asks_for_is_recorded(tmp_path, data, changes, idle):
    plain = {k: v for k, v in TINY.items() if not k.startswith(("backbone", "head", "regular"))}
    layers = {"backbone.num_layers": 2} if "feed_forward" not in changes.values() else {}
    masks = {**ALL_SITES, "regularizer.weight_drop.rate": 0.5}
    values = {**plain, **masks, "training.epochs": 1, "backbone": "lstm", **layers, **changes}
    config = resolve(values)
    digest = corpus_digest(config.corpus, data)
    trial, store = make_trial(config, values=values, seed=1, corpus_digest=digest), Store(tmp_path)
    journal = trials.finish(trial, store, data)
    assert sorted(journal.without_effect) == [f"regularizer.{name}" for name in idle]
    stored = journals.read(store, trial.id)
    assert stored is not None and stored.without_effect == journal.without_effect


def test_looking_for_masks_without_effect_changes_no_bit(whole, tmp_path, data, monkeypatch):
    monkeypatch.setattr(Training, "_unanswered", lambda self: [])
    monkeypatch.setattr("ablate.lm.training.training.SiteRecorder", lambda: None)
    passes = Training._passes

    def unnoticed(self, part, chance):
        self.without_effect = []
        return passes(self, part, chance)

    monkeypatch.setattr(Training, "_passes", unnoticed)
    journal = trials.finish(trial_of(data), Store(tmp_path), data)
    assert journal.outcome.digest == whole[0].outcome.digest
