"""Techniques combine freely: every technique in few models, and with `--pairs` every pair.

Each model is built, takes three optimizer steps, saves its weights, and is evaluated from them
by another trial, to the same number. Impossible combinations are refused before they train.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from ablate.config import registry
from ablate.config.identity import Parent
from ablate.config.registry import EXACT
from ablate.config.resolve import resolve
from ablate.config.tasks import EVALUATION
from ablate.errors import CombinationError
from ablate.lm.kinds import ENCODER_DECODER, LANGUAGE, PAIRS, TEXT
from ablate.lm.model.sites import sites_of
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.store import Store
from tests.support import trials

WIDTH = 6
BASE = {
    "corpus.level": "character",
    "corpus.train_tokens": 125,  # three windows of ten steps for four rows
    "corpus.eval_tokens": 100,
    "embedding.size": WIDTH,
    "training.batch_size": 4,
    "training.window": 10,
    "training.clip": 0.5,
}
LAYERS = {"backbone.num_layers": 2, "backbone.units": WIDTH}
# What each technique is given, so that it is small, and does something.
VALUES: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("words", "characters"): {"words.widths": (1, 2), "words.features": (2, WIDTH - 2)},
    ("backbone", "deep_transition"): {"backbone.units": WIDTH},
    ("backbone", "elman"): LAYERS,
    ("backbone", "feed_forward"): {"backbone.units": WIDTH},
    ("backbone", "gated_delta"): {**LAYERS, "backbone.heads": 2},
    ("backbone", "gru"): LAYERS,
    ("backbone", "irlm"): {"backbone.units": WIDTH},
    ("backbone", "lru"): {**LAYERS, "backbone.state": 5},
    ("backbone", "lstm"): LAYERS,
    ("backbone", "mamba2"): {**LAYERS, "backbone.heads": 2, "backbone.state": 3},
    ("backbone", "mingru"): {**LAYERS, "backbone.expansion": 2},
    ("backbone", "mogrifier"): {**LAYERS, "backbone.rank": 2, "backbone.dropout": 0.1},
    ("backbone", "nas"): LAYERS,
    ("backbone", "rhn"): {"backbone.units": WIDTH, "backbone.depth": 2},
    ("backbone", "skipping_rnn"): LAYERS,
    ("backbone", "topic_rnn"): {"backbone.units": WIDTH, "backbone.topics": 2},
    ("backbone", "transformer"): {**LAYERS, "backbone.heads": 3, "backbone.dropout": 0.1},
    ("backbone", "xlstm"): {**LAYERS, "backbone.heads": 2, "backbone.slstm_at": (2,)},
    ("bridge", "dual"): {"bridge.units": WIDTH, "bridge.input_dropout": 0.1},
    ("head", "mos"): {"head.experts": 3},
    ("head", "doc"): {"head.experts": (2, 1)},
    ("head", "mlp"): {"head.units": WIDTH},
    ("head", "pointer_sentinel"): {"head.length": 4},
    ("gate", "iog"): {"gate.units": 3},
    ("gate", "iog_hidden"): {"gate.units": 3},
    ("gate", "iog_lstm"): {"gate.units": 3},
    ("regularizer", "fraternal_dropout"): {"regularizer.dropout.output": 0.2},
    ("evaluator", "dynamic"): {"evaluator.dynamic.gradient_batch_size": 5},
    ("evaluator", "monte_carlo"): {"evaluator.monte_carlo.samples": 2},
    ("evaluator", "completion"): {"evaluator.completion.num_questions": 3},
    ("evaluator", "rerank"): {"corpus.name": "grammar_trees", "corpus.level": "tree"},
}
ON = {  # a regularizer's first field that switches it on
    "activation_l2": "weight",
    "activation_regularization": "alpha",
    "column_norm": "norm",
    "dropout": "hidden",
    "embedding_dropout": "rate",
    "fraternal_dropout": "kappa",
    "frage": "weight",
    "l1": "everything",
    "l2": "embedding",
    "mixture_balance": "weight",
    "non_negative": "share",
    "past_decode": "weight",
    "temporal_activation_regularization": "beta",
    "variational_dropout": "recurrent",
    "weight_drop": "rate",
}
PAIRS_BASE = {
    "task": ENCODER_DECODER.name,
    "corpus.train_pairs": 12,  # three batches
    "corpus.eval_pairs": 4,
    "embedding.size": WIDTH,
    "encoder.units": WIDTH,
    "training.batch_size": 4,
    "training.clip": 0.5,
    "evaluator.generate.beam": 2,
    "evaluator.generate.longest_factor": 0.5,
}
Combination = dict[str, str]
Slots = Mapping[str, list[str]]


def _readers(of: str) -> list[str]:
    """The evaluators of one text, or of pairs of sentences."""
    known = registry.names("evaluator")
    return [name for name in known if of in registry.get("evaluator", name).build.reads]


def _decoders() -> list[str]:
    """The backbones that write a sentence: not of letters, and they remember what is written."""
    every = {name: registry.get("backbone", name).build for name in registry.names("backbone")}
    return [n for n, build in every.items() if n != "skipping_rnn" and build.memory == EXACT]


TEXT_SLOTS: Slots = {
    **{slot: registry.names(slot) for slot in LANGUAGE.slots},
    "evaluator": _readers(TEXT),
}
PAIR_SLOTS: Slots = {
    **{slot: registry.names(slot) for slot in registry.slots()},
    "backbone": _decoders(),
    "evaluator": _readers(PAIRS),
}


# Of the sizes above, no state of these is a vector that a sentence could start.
NOT_STARTED = {"feed_forward", "gated_delta", "lru", "mamba2", "mingru", "topic_rnn"}
STUCK = {"topic_rnn", "layer_sum"}  # it needs attention, and the sum of layers forbids it
# Masks that some backbones do not ask for. (Beside an encoder, which does, they are left out too.)
ACT_ON = {"dropout": "hidden", "variational_dropout": "recurrent", "weight_drop": "weight"}


def makes_sense(chosen: Mapping[str, str]) -> bool:
    """The only pairs that are refused: a balance of one expert, letters of parsed words, a guide
    of no pointer, norms of word vectors that are no table, masks at sites that the backbone has
    not, and decoders that would know nothing of the sentence. And three together: the sum of layers
    of which attention's is narrower than one that also holds topics."""
    site = ACT_ON.get(chosen.get("regularizer", ""))
    sites = sites_of(chosen["backbone"]) if "backbone" in chosen else None
    if site is not None and sites is not None and site not in sites:
        return False
    if chosen.get("attention") == "none" and chosen.get("backbone") in NOT_STARTED:
        return False
    if {"characters", "column_norm"} <= {*chosen.values()}:
        return False
    if {"topic_rnn", "layer_sum", "luong"} <= {*chosen.values()}:
        return False
    if chosen.get("loss") == "guided_pointer":
        chosen = {"head": "pointer_sentinel", **chosen}
        if chosen["head"] != "pointer_sentinel":
            return False
    single = chosen.get("head") in ("softmax", "mlp", "pointer_sentinel", "sum_product")
    letters_of_trees = {"skipping_rnn", "rerank"} <= {*chosen.values()}
    return not letters_of_trees and not (single and chosen.get("regularizer") == "mixture_balance")


def is_possible(pair: Mapping[str, str], slots: Slots) -> bool:
    """Whether a pair occurs in any combination of these slots."""
    return makes_sense(pair) and not ("attention" in slots and {*pair.values()} == STUCK)


def covering(slots: Slots, seed: int = 0) -> list[Combination]:
    """Combinations in which every pair of two slots' techniques occurs, found greedily."""
    rng = random.Random(seed)
    left = {
        pair
        for one, other in itertools.combinations(slots, 2)
        for pair in itertools.product(_items(slots, one), _items(slots, other))
        if makes_sense(dict(pair))
        and not ("attention" in slots and {*dict(pair).values()} == STUCK)
    }
    found = []
    while left:
        in_order = sorted(left)
        drawn = [_drawn(slots, rng, rng.choice(in_order)) for _ in range(20)]
        best = max(drawn, key=lambda chosen: len(left & _pairs(chosen)))
        left -= _pairs(best)
        found.append(best)
    return found


def _items(slots: Slots, slot: str) -> list[tuple[str, str]]:
    return [(slot, name) for name in slots[slot]]


def _pairs(chosen: Combination) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    return set(itertools.combinations(chosen.items(), 2))


def _drawn(slots: Slots, rng: random.Random, pair: tuple[tuple[str, str], ...]) -> Combination:
    while True:
        chosen = {slot: rng.choice(names) for slot, names in slots.items()} | dict(pair)
        if makes_sense(chosen):
            return chosen


def values_of(chosen: Combination) -> dict[str, object]:
    values: dict[str, object] = dict(PAIRS_BASE if "encoder" in chosen else BASE)
    for slot, name in chosen.items():
        values |= VALUES.get((slot, name), {})
        values |= {f"regularizer.{name}.{ON[name]}": 0.1} if slot == "regularizer" else {slot: name}
    return values


def run(values: Mapping[str, object], store: Store, data: str, **more) -> journals.Journal:
    return trials.finish(trials.made(values, data, **more), store, data)


COMBINATIONS = {
    name: covering(slots) for name, slots in (("text", TEXT_SLOTS), ("pairs", PAIR_SLOTS))
}


def each_once(combinations: Sequence[Combination]) -> Iterator[Combination]:
    """Combinations in which every technique occurs, out of those in which every pair does."""
    left = {item for chosen in combinations for item in chosen.items()}
    while left:
        best = max(combinations, key=lambda chosen: len(left & {*chosen.items()}))
        left -= {*best.items()}
        yield best


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chosen" in metafunc.fixturenames:
        every = metafunc.config.getoption("--pairs")
        models = [
            each for all_ in COMBINATIONS.values() for each in (all_ if every else each_once(all_))
        ]
        metafunc.parametrize("chosen", models, ids=lambda chosen: " ".join(chosen.values()))


@pytest.mark.slow
def test_it_trains_keeps_its_weights_and_is_judged_the_same_again(chosen, tmp_path, data):
    store, values = Store(str(tmp_path)), values_of(chosen)
    trained = run(values, store, data)
    assert trained.status == Status.COMPLETED, trained.outcome
    assert all(math.isfinite(value) for value in trained.outcome.metrics.values())
    parents = (Parent("member", trained.trial.id),)
    judged = run(values, store, data, parents=parents, runner=EVALUATION)
    assert judged.status == Status.COMPLETED, judged.outcome
    assert judged.outcome.metrics == trained.outcome.metrics


@pytest.mark.parametrize(("kind", "slots"), [("text", TEXT_SLOTS), ("pairs", PAIR_SLOTS)])
def test_every_pair_is_there(kind, slots):
    met = set().union(*(_pairs(chosen) for chosen in COMBINATIONS[kind]))
    for one, other in itertools.combinations(slots, 2):
        for pair in itertools.product(_items(slots, one), _items(slots, other)):
            assert (pair in met) == is_possible(dict(pair), slots)


@pytest.mark.parametrize("head", ["softmax", "mlp"])
def test_a_balance_of_one_component_is_refused(head):
    from ablate.lm.model.assemble import count_parameters

    techniques = {"backbone": "lstm", "optimizer": "sgd", "head": head, "loss": "cross_entropy"}
    values = {**BASE, **techniques, "regularizer.mixture_balance.weight": 0.1}
    with pytest.raises(CombinationError, match="mixture_balance"):
        count_parameters(resolve(values), 30)
