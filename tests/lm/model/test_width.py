"""What a base width multiplies (Yang et al. 2022, Table 8), and what it leaves as it is."""

from __future__ import annotations

import pytest
import torch

from ablate.config import registry
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.model.assemble import assemble
from ablate.lm.model.growth import growth_of
from ablate.lm.testing import SmallModel
from ablate.lm.testing.subject import WIDTH

ADAM = {"optimizer": "adamw", "optimizer.weight_decay": 0.3}
HIDDEN = {"backbone.weight_ih_l0", "backbone.weight_hh_l0"}
BASE = 2  # a quarter of the width
SHARE = BASE / WIDTH


def small(values=None, base=BASE, chosen=None):
    one = {} if base is None else {"training.base_width": base}
    layers = {} if chosen else {"backbone.num_layers": 1}
    return SmallModel(chosen or {}, {**ADAM, **layers, **one, **(values or {})})


def by_name(model, optimizer, of):
    names = {p: name for name, p in model.named_parameters()}
    return {names[p]: group[of] for group in optimizer.torch.param_groups for p in group["params"]}


@pytest.mark.parametrize(
    ("optimizer", "share"),
    [
        ({}, SHARE),
        ({"optimizer": "adam", "optimizer.weight_decay": 0.0}, SHARE),
        ({"optimizer": "muon"}, 1.0),
        ({"optimizer": "muon", "optimizer.scale": "like_adamw"}, SHARE**0.5),
    ],
)
def test_hidden_matrices_alone_have_another_rate(optimizer, share):
    by_width, plain = small(optimizer), small(optimizer, base=None)
    rates, before = (
        by_name(s.model, s.config["optimizer"].make(s.model), "rate_scale")
        for s in (by_width, plain)
    )
    assert set(rates) > HIDDEN
    for name, rate in rates.items():
        assert rate == pytest.approx(before[name] * (share if name in HIDDEN else 1)), name


def test_a_hidden_matrix_loses_the_same_share_in_a_step_at_every_width():
    own = small()
    optimizer = own.config["optimizer"].make(own.model)
    decays = by_name(own.model, optimizer, "weight_decay")
    rates = by_name(own.model, optimizer, "rate_scale")
    assert {decays[name] * rates[name] for name in HIDDEN} == {0.3}
    assert decays["embedding.weight"] == 0.3 and decays["head.decoder.bias"] == 0.0


SGD = {"optimizer": "sgd", "optimizer.weight_decay": 0.3, "optimizer.momentum": 0.9}


def test_rates_of_gradients_are_those_of_the_papers_table_8():
    """And those of a mixture's prior and of thin factors, which the table lacks: outputs over
    inputs, which keeps a step's spectral norm right (Yang et al. 2023, Condition 1)."""
    chosen = {"backbone": "mogrifier", "head": "mos"}
    model = small({**SGD, "backbone.rank": 3, "head.tied": False}, chosen=chosen).model
    shares = {name: p.width_scale for name, p in model.named_parameters()}
    assert shares["embedding.weight"] == shares["head.decoder.weight"] == 1 / SHARE
    assert shares["head.decoder.bias"] == 1 and shares["head.latent_0.weight"] == 1
    assert shares["head.prior.weight"] == SHARE and shares["head.latent_0.bias"] == 1 / SHARE
    by_shape = {tuple(model.get_parameter(name).shape): share for name, share in shares.items()}
    assert by_shape[WIDTH, 3] == 1 / SHARE and by_shape[3, WIDTH] == SHARE
    assert by_shape[4 * WIDTH, WIDTH] == 1 and by_shape[4 * WIDTH,] == 1 / SHARE


def repeated(small_tensor, like):
    """Every unit as several equal ones."""
    times = [wide // narrow for wide, narrow in zip(like.shape, small_tensor.shape, strict=True)]
    return small_tensor.repeat(*times)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "nt_asgd"])
def test_a_model_of_equal_units_trains_as_the_narrow_one_of_which_it_is_made(tied, optimizer):
    """Whose weights between units are shared out among the copies: exactly the same function, and
    by these rates it stays so, with momentum and weight decay."""
    own = {k: v for k, v in SGD.items() if optimizer == "sgd" or "momentum" not in k}
    own |= {"optimizer.trigger": "at_once"} if optimizer == "nt_asgd" else {}
    own |= {"optimizer": optimizer, "optimizer.learning_rate": 0.5, "head.tied": tied}
    chosen = {"backbone": "elman", "head": "softmax"}
    layers = {"backbone.num_layers": 2}
    narrow, wide = (
        small({**own, **layers, "backbone.units": units, "embedding.size": units}, chosen=chosen)
        for units in (BASE, WIDTH)
    )
    weights = {}
    for name, parameter in wide.model.named_parameters():
        copies = repeated(narrow.model.get_parameter(name).detach(), parameter)
        weights[name] = copies * (SHARE if name.startswith("backbone.weight") else 1.0)
    wide.model.load_state_dict(weights, strict=False)
    optimizers = [s.config["optimizer"].make(s.model) for s in (narrow, wide)]
    losses = []
    for _ in range(4):
        losses.append([s.summed_loss().item() for s in (narrow, wide)])
        for s, each in zip((narrow, wide), optimizers, strict=True):
            s.gradients()
            each.step(0.01)
    assert losses[0][0] - losses[-1][0] > 0.1
    assert [one for one, _ in losses] == pytest.approx([other for _, other in losses], rel=1e-12)


NARROW, WIDE, SEEDS = 16, 64, 8
RANGE, DEVIATION = {"backbone.initial_range": 0.2}, {"backbone.initial_deviation": 0.2}
FIRST = [  # what starts random and what does not, by a setting and by the units
    *((name, {}) for name in registry.names("backbone") if name != "skipping_rnn"),
    *((name, RANGE) for name in ("elman", "lstm", "feed_forward", "deep_transition", "topic_rnn")),
    ("transformer", {"backbone.positions": "learned", "backbone.value_embeddings": [1]}),
    ("transformer", {**RANGE, "backbone.value_embeddings": [1], "backbone.biases": True}),
    ("elman", {**RANGE, "backbone.spectral_radius": 0.9}),
    ("gated_delta", {**DEVIATION, "backbone.attention_every": 2}),
    ("lstm", {"backbone.initialization": "keras"}),
    ("mogrifier", {**RANGE, "backbone.rank": 3}),
    ("mogrifier", {"backbone.rank": 3}),
    ("xlstm", {"backbone.slstm_at": [2]}),
]


def first_sizes(backbone, values, width, base):
    """The root mean square of every parameter's first values over some seeds, and the model."""
    widths = {"backbone.units": width, "embedding.size": width}
    widths |= {"backbone.state": width} if backbone == "lru" else {}
    widths |= {"backbone.topics": 1} if backbone == "topic_rnn" else {}  # units beside the layer's
    given = {"backbone": backbone, "head": "softmax", "bridge": "dual", **ADAM, **widths, **values}
    model = assemble(resolve({**given, "training.base_width": base}), 23).model
    squares = dict.fromkeys((name for name, _ in model.named_parameters()), 0.0)
    for seed in range(SEEDS):
        model.initialize(Streams(seed))
        for name, parameter in model.named_parameters():
            squares[name] += parameter.detach().square().mean().item() / SEEDS
    return {name: square**0.5 for name, square in squares.items()}, model


@pytest.mark.parametrize(("backbone", "values"), FIRST, ids=str)
def test_first_values_are_those_of_the_base_width(backbone, values):
    """Hidden matrices by the root of their inputs, orthogonal ones too, thin ones by their inputs;
    all others the same."""
    base, _ = first_sizes(backbone, values, NARROW, NARROW)
    wide, model = first_sizes(backbone, values, WIDE, NARROW)
    growth = growth_of(model)
    hidden = {p for p in growth.between if growth.grows[p][-1]}
    for name, parameter in model.named_parameters():
        fall = 0.5 if any(growth.grows[parameter][:-1]) else 1.0
        expected = (NARROW / WIDE) ** fall if parameter in hidden else 1.0
        assert wide[name] == pytest.approx(base[name] * expected, rel=0.25), name


@pytest.mark.parametrize("head", ["softmax", "mos", "doc"])
def test_logits_are_scaled_before_their_bias(head):
    chosen = {"head": head, "backbone": "lstm"}
    ours, theirs = small(chosen=chosen), small(base=None, chosen=chosen)
    theirs.model.load_state_dict(ours.model.state_dict())
    ids = torch.arange(12).view(4, 3)
    mixture, plain = (s.model(ids, s.model.initial_state(3)).mixture for s in (ours, theirs))
    torch.testing.assert_close(mixture.vectors_NJE, plain.vectors_NJE * SHARE)
    assert torch.equal(mixture.bias_V, plain.bias_V)
    assert head == "softmax" or torch.equal(mixture.log_prior_NJ, plain.log_prior_NJ)


def test_at_the_base_width_nothing_changes():
    ours, theirs = small(base=WIDTH), small(base=None)
    optimizers = [s.config["optimizer"].make(s.model) for s in (ours, theirs)]
    for _ in range(3):
        for s, optimizer in zip((ours, theirs), optimizers, strict=True):
            s.gradients()
            optimizer.step()
    for name, parameter in theirs.model.named_parameters():
        assert torch.equal(parameter, ours.model.get_parameter(name)), name


def test_a_model_that_no_known_field_widens_is_refused(monkeypatch):
    monkeypatch.setattr("ablate.lm.model.growth.is_width", lambda name, config: name == "size")
    with pytest.raises(CombinationError, match="no wider model came of doubling"):
        small(chosen={"backbone": "lstm"})


@pytest.mark.parametrize(
    ("values", "chosen", "named"),
    [
        ({"optimizer": "sgd"}, {"words": "characters"}, "words = 'characters' there is no rule"),
        ({"optimizer": "soap"}, {}, "optimizer = 'soap' there is no rule"),
        ({"gate.units": 3}, {"gate": "iog"}, "gate = 'iog' there is no rule"),
        ({"backbone.recurrent_range": 0.1}, {"backbone": "elman"}, "recurrent_range sets those"),
    ],
)
def test_what_has_no_rule_is_refused(values, chosen, named):
    with pytest.raises(CombinationError, match=named):
        small(values, chosen={"backbone": "lstm", **chosen})
