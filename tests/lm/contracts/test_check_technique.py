"""`check_technique` finds what is broken: each technique here breaks one promise of its slot."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.config import registry
from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.testing import SmallModel, check, check_technique, contracts
from tests.support.rates import MODEL

HEADER = """
from dataclasses import dataclass, replace
import torch
from ablate.lm.components import Regularizer, register, setting
from ablate.lm.components.backbone.lstm import Lstm, LstmConfig
from ablate.lm.components.evaluator.standard import Standard, StandardConfig
from ablate.lm.components.head.mos import Mos, MosConfig
from ablate.lm.components.optimizer.sgd import Sgd, SgdConfig

@dataclass(frozen=True, kw_only=True)
class Config:
    sigma: float = setting(0.0, doc="strength", low=0)
"""
COPIES = """
@register("regularizer", "broken", config=Config)
class Broken(Regularizer):
    def __init__(self, config):
        self.config = config

    def mask(self, site, x, chance):
        return x + self.config.sigma
"""
GLOBAL = COPIES.replace(
    "x + self.config.sigma",
    "x if self.config.sigma == 0 else x + self.config.sigma * torch.randn_like(x)",
)
NOTHING = COPIES.replace("x + self.config.sigma", "x")
THAWED = "from dataclasses import dataclass\n" + COPIES.replace(
    "@register", "@dataclass\nclass Thawed:\n    pass\n\n@register"
).replace("config=Config", "config=Thawed")
AHEAD = """
@register("backbone", "broken", config=LstmConfig)
class Broken(Lstm):
    def forward(self, inputs, ids, state, masks):
        return super().forward(inputs + inputs.roll(-1, 0), ids, state, masks)
"""
FORGETFUL = """
@register("backbone", "broken", config=LstmConfig)
class Broken(Lstm):
    def forward(self, inputs, ids, state, masks):
        forgotten = tuple(torch.zeros_like(each) for each in state)
        return super().forward(inputs, ids, forgotten, masks)
"""
HONEST = FORGETFUL + "    memory = 'window'\n"
MODEST = """
@register("backbone", "broken", config=LstmConfig)
class Broken(Lstm):
    memory = "window"
"""
PRIOR = """
@register("head", "broken", config=MosConfig)
class Broken(Mos):
    def forward(self, features, embedding, masks):
        mixture = super().forward(features, embedding, masks)
        return replace(mixture, log_prior_NJ=mixture.log_prior_NJ + 1)
"""
FORGETS = """
@register("optimizer", "broken", config=SgdConfig)
class Broken(Sgd):
    def saved(self):
        tensors, plain = super().saved()
        return {}, plain
"""
MOVES = """
@register("evaluator", "broken", config=StandardConfig)
class Broken(Standard):
    def token_log_probs(self, reading, split):
        next(reading.models[0].parameters()).data.mul_(1.1)
        return super().token_log_probs(reading, split)
"""
BROKEN = [
    ("regularizer", COPIES, {}, "changes nothing: not a bit.*acts at input"),
    ("regularizer", GLOBAL, {}, "the same streams give the same loss"),
    ("regularizer", NOTHING, {}, "When on, it changes the loss"),
    ("regularizer", THAWED, {}, "Thawed is not frozen"),
    ("backbone", AHEAD, {}, "two windows|Two windows"),
    ("backbone", FORGETFUL, {}, "Two windows or more"),
    ("backbone", MODEST, {}, "splits change nothing"),
    ("head", PRIOR, {"head.experts": 2}, "priors sum to 1"),
    ("optimizer", FORGETS, {"optimizer.momentum": 0.5}, "the same bits as without interruption"),
    ("evaluator", MOVES, {}, "a second evaluation gives different"),
]


@pytest.fixture
def broken(tmp_path):
    """Registers a technique named `broken` from its text, and forgets it afterwards."""

    def write(text: str) -> Path:
        file = tmp_path / "broken.py"
        file.write_text(HEADER + text)
        return file

    _forget_broken()  # that of another test file
    yield write
    _forget_broken()


def _forget_broken() -> None:
    for slot in registry.slots():
        registry._techniques.pop((slot, "broken"), None)


@pytest.mark.parametrize(("slot", "text", "values", "promise"), BROKEN)
def test_a_broken_promise_is_named(slot, text, values, promise, broken):
    with pytest.raises(AssertionError, match=rf"(?s)^{slot} broken: broken: .*({promise})"):
        check_technique(slot, "broken", file=broken(text), values=values)


def test_a_backbone_may_remember_only_its_window(broken):
    """Then the lengths of windows are part of a trial's id, and recorded as what counts."""
    check_technique("backbone", "broken", file=broken(HONEST))
    for name, counts in (("broken", True), ("lstm", False)):
        for field in ("training.valid_window", "evaluator.standard.window"):
            values = {**MODEL, "backbone": name, "evaluator": "standard"}
            one, other = (resolve({**values, field: length}) for length in (10, 20))
            assert (one.identity != other.identity) == counts
            assert one.extras.get(f"{field} counts") == (10 if counts else None)
    with pytest.raises(CombinationError, match="remembers only its window, and a decoder writes"):
        SmallModel({"backbone": "broken"}, pairs=True)


def test_the_files_technique_is_loaded_once(broken):
    file = broken(COPIES.replace("return x + self.config.sigma", "return x if 1 else x"))
    for _ in range(2):
        with pytest.raises(AssertionError, match="changes nothing"):
            check_technique("regularizer", "broken", file=file)


def test_every_contract_says_what_it_promises():
    for slot in registry.slots():
        assert len(contracts(slot)) > 4
        assert all(check.promise(contract).endswith(".") for contract in contracts(slot))
