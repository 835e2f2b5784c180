"""The operations of a token, as torch counts them in a forward pass."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ablate.config.streams import Streams
from ablate.lm.components.loss.augmented import terms_of
from ablate.lm.components.loss.nce import scores
from ablate.lm.model.assemble import assemble
from ablate.lm.model.encoder_decoder import EncoderDecoder
from ablate.lm.model.fast.tempered import augmented_plain
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.model.mixture import log_probs
from ablate.lm.model.operations import per_training_token
from ablate.lm.model.regularizer import num_passes
from ablate.lm.testing import SmallModel

STEPS, ROWS, ROWS_OF_UPDATE, WIDTH = 50, 2, 3, 64
SIZES = {"embedding.size": WIDTH, "backbone.units": WIDTH, "backbone.num_layers": 1}
STATE, HEADS = 16, 4
MAMBA2 = {"backbone.state": STATE, "backbone.heads": HEADS, "backbone.groups": 2}
READING = {"encoder.units": WIDTH, "encoder.num_layers": 1}


def counted(model) -> float:
    """The products of a pass over a text, or over a source and a target of the same length."""
    ids = torch.ones(STEPS, ROWS, dtype=torch.long)
    # torch counts no operations of its fused attention on a CPU, and those of its plain one.
    plain = sdpa_kernel(SDPBackend.MATH)
    with torch.no_grad(), plain, FlopCounterMode(display=False) as count:
        reads = isinstance(model, EncoderDecoder)
        real = torch.ones(STEPS, ROWS, 1)
        state = model.begin(ids, real) if reads else model.initial_state(ROWS)
        log_probs(model(ids, state).mixture)
    return count.get_total_flops() / STEPS / ROWS


@pytest.mark.parametrize(
    ("chosen", "values", "attends"),
    [
        ({"backbone": "gru"}, {}, 0),
        ({"backbone": "gru", "head": "pointer_sentinel"}, {}, 2 * WIDTH * (99 + STEPS)),
        ({"backbone": "lru"}, {}, 0),
        ({"backbone": "mingru"}, {}, 0),
        ({"backbone": "mamba2"}, MAMBA2, 2 * STEPS * (2 * STATE + 2 * WIDTH) + 8 * WIDTH * STATE),
        ({"backbone": "gru", "attention": "none"}, READING, 0),
        ({"backbone": "gru", "attention": "luong"}, READING, 4 * WIDTH * STEPS),
        ({"attention": "luong"}, {**READING, "attention.score": "dot"}, 4 * WIDTH * STEPS),
    ],
)
def test_they_are_what_torch_counts(chosen, values, attends):
    """But for biases, which add and do not multiply."""
    model = SmallModel(chosen, {**SIZES, **values}, pairs="attention" in chosen).model
    products, estimate = pytest.approx(counted(model), rel=0.03), model.flops_per_token(STEPS)
    assert estimate == products
    assert (estimate - attends == products) == (attends == 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"positions": "learned", "context": 300},
        {"key_value_heads": 1, "feed_forward": "swiglu", "value_embeddings": (2,)},
        {"windows": (0, 5), "soft_cap": 3.0},
    ],
    ids=lambda settings: ", ".join(settings),
)
def test_those_of_a_transformer_are_what_torch_counts(settings):
    """All steps with all steps, also where a mask leaves some out; tables that are looked up are
    not multiplied."""
    own = {f"backbone.{name}": value for name, value in settings.items()}
    sizes = {**SIZES, "backbone.num_layers": 2, "head.bias": False}
    model = SmallModel({"backbone": "transformer"}, {**sizes, **own}).model
    estimate = model.flops_per_token(STEPS)
    assert estimate == pytest.approx(counted(model), rel=0.005)  # without the norms' scales
    assert model.flops_per_token(2 * STEPS) - estimate == 2 * 4 * WIDTH * STEPS


def counted_step(small: SmallModel) -> float:
    """The products of an update, for each token: all passes and penalties, with their gradients,
    and projections."""
    ids = small.ids[:1].repeat(STEPS, 1)
    targets_N = torch.zeros(ids.numel(), dtype=torch.long)
    with FlopCounterMode(display=False) as count:
        passes = [
            small.model(
                ids,
                small.model.initial_state(ids.shape[1]),
                Masks(small.regularizers, Chance(Streams(3), 0, twin)),
            )
            for twin in range(num_passes(small.regularizers))
        ]
        terms = [-log_probs(p.mixture).gather(1, targets_N[:, None]).mean() for p in passes]
        for own in small.regularizers:
            terms += [own.penalty(p, small.model) for p in passes]
            terms += [own.between(passes)]
        sum(term for term in terms if term is not None).backward()
        for own in small.regularizers:
            own.project(small.model)
    return count.get_total_flops() / ids.numel()


KAPPA, PAST, FRAGE = (
    f"regularizer.{name}"
    for name in ("fraternal_dropout.kappa", "past_decode.weight", "frage.weight")
)
MOS = {"head": "mos", "head.experts": 3, "head.bias": False}
GATED = {"gate": "iog", "gate.units": 24}
OUTPUT = {KAPPA: 0.5, "regularizer.fraternal_dropout.on": "output"}


@pytest.mark.parametrize(
    "values",
    [
        {KAPPA: 0.5},
        {KAPPA: 0.5, **MOS},
        {KAPPA: 0.5, **GATED},
        {KAPPA: 0.5, "head.logit_cap": 5.0},
        OUTPUT,
        {PAST: 0.5},
        {PAST: 0.5, **MOS},
        {PAST: 0.5, **GATED},
        {PAST: 0.5, KAPPA: 0.5},
        {FRAGE: 0.5, "regularizer.frage.units": 48},
        {FRAGE: 0.5, KAPPA: 0.5},
        {"regularizer.column_norm.norm": 1.0, "regularizer.l2.output": 0.5},
    ],
    ids=str,
)
def test_what_regularizers_add_is_what_torch_counts(values):
    chosen = {slot: values[slot] for slot in ("head", "gate") if slot in values}
    sizes = {**SIZES, "training.batch_size": ROWS_OF_UPDATE, "head.bias": False}
    plain = {name: value for name, value in values.items() if not name.startswith("regularizer")}
    small, without = (
        SmallModel({"backbone": "gru", **chosen}, {**sizes, **own}) for own in (values, plain)
    )
    estimates = [
        per_training_token(one.model, one.loss, one.regularizers, one.config.training, STEPS)
        for one in (small, without)
    ]
    counts = [counted_step(one) for one in (small, without)]
    assert estimates == pytest.approx(counts, rel=0.04)
    assert estimates[0] - estimates[1] == pytest.approx(counts[0] - counts[1], rel=0.04, abs=1)


def test_a_gates_matrix_is_told_by_what_it_is_and_not_by_its_number_of_rows():
    """The recurrent matrices of this gate have as many rows as there are words."""
    units = 16
    small = SmallModel({"backbone": "gru", "gate": "iog_lstm"}, {**SIZES, "gate.units": units})
    model = assemble(small.config, 4 * units, "meta").model
    assert model.logits_operations() == 2 * 4 * units * (WIDTH + units)


def test_training_takes_three_passes_and_a_gate_over_a_frozen_model_little_more_than_one():
    small = SmallModel({"backbone": "gru", "gate": "iog"}, {**SIZES, "gate.units": 4})
    model, loss, training = small.model, small.loss, small.config.training
    forward = model.flops_per_token(STEPS)
    assert per_training_token(model, loss, (), training, STEPS) == 3 * forward
    model.train_only_gate()
    trained = sum(p.numel() for name, p in model.named_parameters() if name.startswith("gate."))
    least = per_training_token(model, loss, (), training, STEPS)
    assert least == forward + 4 * trained < 2 * forward


def counted_loss(small: SmallModel, summed) -> float:
    """The products of a loss's update, for each token."""
    ids = small.ids[:1].repeat(STEPS, 1)
    targets_N = torch.arange(ids.numel()) % small.model.shapes.vocabulary
    with FlopCounterMode(display=False) as count:
        state = small.model.initial_state(ids.shape[1])
        summed(small.model(ids, state, Masks((), Chance(Streams(3), 0))), targets_N).backward()
    return count.get_total_flops() / ids.numel()


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("head", [{}, MOS], ids=str)
def test_the_augmented_loss_adds_the_products_of_its_soft_targets(head, detach):
    chosen = {slot: head[slot] for slot in ("head",) if slot in head}
    values = {**SIZES, **head, "head.bias": False, "loss.detach": detach}
    small = SmallModel({"backbone": "gru", "loss": "augmented", **chosen}, values)
    terms, words_VE = terms_of(small.config["loss"].config, 8), small.model.embedding.matrix()
    words_VE = words_VE.detach() if detach else words_VE

    def augmented(passed, targets_N):
        return augmented_plain(passed.mixture, targets_N, words_VE, terms)

    def plain(passed, targets_N):
        return -log_probs(passed.mixture).gather(1, targets_N[:, None]).sum()

    added = counted_loss(small, augmented) - counted_loss(small, plain)
    # Its yhat is of logits that plain autograd computes twice.
    again = 3 * small.model.logits_operations()
    assert added - again == pytest.approx(small.loss.operations(small.model), rel=0.01)


def test_noise_contrastive_estimation_needs_the_logits_of_its_words_alone():
    values = {**SIZES, "head.bias": False, "loss.noise": 5, "loss.shared": True}
    small = SmallModel({"backbone": "gru", "loss": "nce"}, values)

    def plain(passed, targets_N):
        return -log_probs(passed.mixture).gather(1, targets_N[:, None]).sum()

    def nce(passed, targets_N):
        words_nK = torch.arange(6)[None]
        return scores(passed.mixture, words_nK).sum()

    added = counted_loss(small, nce) - counted_loss(small, plain)
    assert added == pytest.approx(small.loss.operations(small.model), rel=0.01)
