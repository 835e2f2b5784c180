"""Windows that overlap, against one pass for each token; what of windows is refused, and in ids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.components.evaluator.standard import Standard, StandardConfig
from ablate.lm.model import reading
from ablate.lm.model.assemble import assemble, count_parameters
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.mixture import log_probs, tempered
from ablate.lm.testing.subject import RandomText, SmallModel
from ablate.lm.training.evaluation import rows_nll
from ablate.store.outcome import Status
from ablate.store.store import Store
from tests.support import trials

STREAM = torch.randint(0, 23, (38,), generator=torch.Generator().manual_seed(4))
MORE = {"head": "doc", "head.experts": (2, 1), "gate": "iog", "gate.units": 3}
WINDOW = {"training.valid_window": 5, "evaluator.standard.window": 5}


@pytest.fixture(scope="module")
def model():
    return SmallModel({"backbone": "transformer"}, MORE).model


def one_by_one(model, rows_TB, first_of, temperature=1.0):
    """log p of each token, [T - 1, B], from a pass of its own that begins at `first_of(token)`."""
    every = []
    for token in range(1, len(rows_TB)):
        ids_TB = rows_TB[first_of(token) : token]
        mixture = model(ids_TB, model.initial_state(ids_TB.shape[1])).mixture
        last_BV = log_probs(tempered(mixture, temperature))[-ids_TB.shape[1] :]
        every.append(last_BV.gather(1, rows_TB[token][:, None])[:, 0])
    return torch.stack(every)


def expected(model, rows_TB, window, stride):
    """Each token is counted in the first window that reaches it."""

    def first_of(token):
        return next(start for start in range(0, len(rows_TB), stride) if token <= start + window)

    return one_by_one(model, rows_TB, first_of)


@pytest.mark.parametrize("together", [10, 4096])  # tokens: one window or two at once, or all
@torch.no_grad()
def test_with_a_stride_of_1_each_token_has_its_last_tokens_as_context(model, monkeypatch, together):
    monkeypatch.setattr(reading, "TOGETHER", together)
    config = StandardConfig(window=5, stride=1, temperature=1.3)
    actual = Standard(config).token_log_probs(Reading([model], OneText(STREAM)), "test")
    looped = one_by_one(model, STREAM[:, None], lambda token: max(0, token - 5), 1.3)
    np.testing.assert_allclose(actual, looped[:, 0].numpy(), rtol=1e-12)


@pytest.mark.parametrize(("window", "stride"), [(5, 2), (7, 3), (17, 4), (18, 5), (30, 4)])
@torch.no_grad()
def test_a_token_is_counted_in_the_first_window_that_reaches_it(model, window, stride):
    """In two rows of 18 predictions: windows that end with the row, before it, and beyond it."""
    rows_TB = reading.rows_of(STREAM, 2)
    looped = expected(model, rows_TB, window, stride)
    config = StandardConfig(window=window, stride=stride, batch_size=2)
    actual = Standard(config).token_log_probs(Reading([model], OneText(STREAM)), "test")
    np.testing.assert_allclose(actual, looped.t().flatten().numpy(), rtol=1e-12)
    assert rows_nll(model, rows_TB, window, stride) == pytest.approx(-looped.mean().item())


class OneText(RandomText):
    def __init__(self, stream):
        super().__init__()
        self.splits = {"test": stream}


def config_of(backbone="transformer", **values):
    chosen = {"backbone": backbone, "backbone.units": 8, "embedding.size": 8}
    return resolve({"head": "softmax", "optimizer": "sgd", **chosen, **values})


REFUSED = {
    "exact memory": (
        {"backbone": "gru", "training.valid_stride": 5},
        "training.valid_stride = 5 lets windows overlap, .* 'gru' remembers all",
    ),
    "exact memory, at the end": (
        {"backbone": "gru", "evaluator.standard.stride": 5},
        r"evaluator\.standard\.stride = 5 lets",
    ),
    "no overlap": (
        {**WINDOW, "evaluator.standard.stride": 5},
        r"stride = 5 and evaluator\.standard\.window = 5: such windows do not overlap.* below 5",
    ),
    "nothing to reset": (
        {"training.state_reset": 0.01},
        r"state_reset = 0\.01 resets states, and backbone 'transformer' has none",
    ),
}
LEARNED = {"backbone.positions": "learned", "backbone.context": 60, "training.window": 20}
LEARNED |= dict.fromkeys(WINDOW, 60)
TOO_LONG = {
    "training.window": ({"training.window": 61}, r"training\.window = 61 steps, .* can read 60"),
    "validation": ({"training.valid_window": 61}, r"valid_window = 61 steps"),
    "judging": ({"evaluator.standard.window": 61}, r"standard\.window = 61 steps"),
    "dynamic": ({"evaluator.dynamic.window": 61}, r"dynamic\.window = 61 steps"),
    "drawn": ({"training.variable_window": True}, "without a limit"),
    "drawn, and too long": (
        {"training.variable_window": True, "training.max_window_excess": 41},
        r"training\.window \+ training\.max_window_excess = 61",
    ),
}
EVERY = {**REFUSED, **{name: ({**LEARNED, **own}, said) for name, (own, said) in TOO_LONG.items()}}


@pytest.mark.parametrize("why", EVERY)
def test_what_has_no_meaning_is_refused(why):
    values, message = EVERY[why]
    with pytest.raises(CombinationError, match=message):
        count_parameters(config_of(**values), 23)


def test_the_id_says_which_windows():
    plain = config_of()
    strides = {"training.valid_stride": 5, "evaluator.standard.stride": 6}
    with_strides = config_of(**strides)
    assert with_strides.identity["training"]["valid_stride"] == 5
    assert "valid_stride" not in plain.identity["training"]
    counts = {f"{name} counts": value for name, value in strides.items()}
    assert counts.items() <= with_strides.extras.items()
    assert not any("stride" in name for name in plain.extras)
    others = dict.fromkeys(WINDOW, 6)
    assert config_of("gru", **others).identity == config_of("gru", **WINDOW).identity
    assert config_of(**others).identity != config_of(**WINDOW).identity


def test_what_reads_at_lengths_of_its_own_reads_no_more_than_fits():
    model = assemble(config_of(**LEARNED), 23).model
    assert reading.at_most(model, reading.WINDOW) == 60
    lengths = [len(passed.features.ids_TB) for passed in reading.read(model, torch.ones(100))]
    assert lengths == [60, 39]
    assert reading.at_most(SmallModel({}).model, 200) == 200


def test_a_trial_validates_and_is_judged_with_overlapping_windows(tmp_path, data):
    values = {
        "corpus.level": "character",
        "corpus.train_tokens": 125,
        "corpus.eval_tokens": 100,
        "backbone": "transformer",
        "backbone.units": 8,
        "embedding.size": 8,
        "head": "softmax",
        "optimizer": "adam",
        "training.batch_size": 4,
        "training.window": 10,
        "training.valid_batch_size": 1,
        "training.valid_window": 10,
        "evaluator.standard.window": 10,
        "evaluator.interpolated.order": 3,
    }
    strides = {"training.valid_stride": 3, "evaluator.standard.stride": 3}
    store, found = Store(str(tmp_path)), []
    for more in ({}, strides):
        journal = trials.finish(trials.made({**values, **more}, data), store, data)
        assert journal.status == Status.COMPLETED, journal.outcome
        found.append(journal)
    plain, overlapping = (journal.outcome.metrics for journal in found)
    assert plain["valid_nll"] != overlapping["valid_nll"]
    # The same windows after the epoch and at the end.
    for journal in found:
        last = journal.epochs[-1].metrics["valid_nll"]
        assert last == pytest.approx(journal.outcome.metrics["valid_nll"], rel=1e-6)
    assert found[0].trial.id != found[1].trial.id
