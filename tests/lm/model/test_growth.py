"""What is a table, and what grows with the width: not told by the size of a dimension."""

from __future__ import annotations

from typing import Any

import pytest

from ablate.config.resolve import resolve
from ablate.lm.components.optimizer.adamw import AdamW, AdamwConfig
from ablate.lm.components.optimizer.soap import RotatedAdam, Soap, SoapConfig
from ablate.lm.model.assemble import assemble, assemble_over
from ablate.lm.model.growth import growth_of, matrices_between
from ablate.lm.testing.subject import VOCABULARY, RandomPairs, SmallModel
from tests.lm.contracts.test_slots import SUBJECTS

BYTES = 256
SQUARE = {
    "backbone": "transformer",
    "backbone.num_layers": 1,
    "backbone.units": BYTES,
    "backbone.value_embeddings": [1],
    "backbone.positions": "learned",
    "backbone.context": BYTES,
    "embedding.size": BYTES,
    "head": "softmax",
    "gate": "iog",
    "gate.units": BYTES,
    "optimizer": "adamw",
}
TABLES = {
    "embedding.weight",
    "backbone.positions",
    "backbone.values.1.weight",
    "head.decoder.weight",
    "head.decoder.bias",
    "gate.embedding.weight",
    "gate.output.weight",
    "gate.output.bias",
}
HIDDEN = {
    *(f"backbone.blocks.0.attention.{name}" for name in ("query", "key", "value", "out")),
    *(f"backbone.blocks.0.feed_forward.{name}" for name in ("inner", "out")),
}
PARTS = ("words", "backbone", "bridge", "head", "gate", "encoder", "attention")
MODELS = [subject for subject in SUBJECTS if subject.slot in PARTS]


def square(**values: Any):
    return assemble(resolve({**SQUARE, **values}), BYTES, "meta").model


def names_of(model, parameters) -> set[str]:
    names = {p: name for name, p in model.named_parameters()}
    return {names[p] for p in parameters}


def test_bytes_and_units_of_one_number_are_told_apart():
    model = square()
    assert names_of(model, growth_of(model).tables) == TABLES
    assert names_of(model, matrices_between(model)) == HIDDEN


def test_optimizers_tell_tables_from_matrices():
    model = square()
    config = AdamwConfig(decayed="hidden", weight_decay=0.3)
    groups = AdamW(config, model).torch.param_groups
    decayed = {p for group in groups if group["weight_decay"] for p in group["params"]}
    assert names_of(model, decayed) == HIDDEN
    own = Soap(SoapConfig(), model).torch.parts[0]
    assert isinstance(own, RotatedAdam)
    of_words = {name for name in TABLES if name.endswith("weight")}
    assert names_of(model, own.bare) == of_words


@pytest.mark.parametrize("subject", MODELS, ids=lambda subject: f"{subject.slot}-{subject.name}")
def test_every_shipped_technique_is_built_at_other_sizes(subject):
    """Independently: in this model, no dimension but those of words has so many numbers."""
    model = subject.small().model
    growth = growth_of(model)
    assert growth.known
    sizes = {VOCABULARY, RandomPairs.num_source_words}
    of_words = {
        name
        for name, p in model.named_parameters()
        if sizes & {*p.shape} or name.startswith(("embedding.", "source."))
    }
    assert names_of(model, growth.tables) == of_words
    assert all(growth.grows[p] == (True,) for n, p in model.named_parameters() if "norm.scale" in n)


def test_a_gate_over_finished_models():
    values = {**SQUARE, "gate": "iog_lstm", "training.only_gate": True}
    plain = {k: v for k, v in SQUARE.items() if k.partition(".")[0] != "gate"}
    finished = assemble(resolve(plain), BYTES, "meta").model
    model = assemble_over([finished, finished], resolve(values), "meta").model
    growth = growth_of(model)
    tables = {"gate.embedding.weight", "gate.output.weight", "gate.output.bias"}
    assert names_of(model, growth.tables) == tables
    assert names_of(model, growth.hidden) == {"gate.memory.weight_ih", "gate.memory.weight_hh"}


def test_without_a_wider_model_every_dimension_but_those_of_words_counts_as_one_that_grows(
    monkeypatch,
):
    """Of a technique of the user's own, whose widths have names that are not known."""
    monkeypatch.setattr("ablate.lm.model.growth.is_width", lambda name, config: name == "size")
    model = SmallModel({"head": "mos"}, {"backbone.num_layers": 1}).model
    growth = growth_of(model)
    assert not growth.known and "head.decoder.bias" in names_of(model, growth.tables)
    assert names_of(model, growth.hidden) == {
        "backbone.weight_ih_l0", "backbone.weight_hh_l0", "head.latent_0.weight",
        "head.prior.weight",
    }  # fmt: skip
