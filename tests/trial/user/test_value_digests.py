"""Digests of what a function uses: equal for equal values in every process, other for others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from ablate.trial.user.value_digests import digests

CODE = '''
import functools
import numpy as np
import pandas as pd
import torch
from dataclasses import dataclass, field
from enum import Enum
from sklearn.ensemble import RandomForestClassifier
from ablate import setting

FACTOR = 2.0
names = {"b", "a", "c"}
ROWS = np.arange(6.0).reshape(2, 3)
DATES = np.array(["2020-01-01"], dtype="datetime64[D]")
MIXED = np.array([(1, 2.5)], dtype=np.dtype("i1,f8", align=True))
TABLE = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
torch.manual_seed(0)
NET = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1).to(torch.bfloat16))
forest = RandomForestClassifier(3, random_state=0).fit(ROWS, [0, 1])
RNG = np.random.default_rng(0)
loop = []
loop.append(loop)

class Color(Enum):
    RED = 1

@dataclass(frozen=True, kw_only=True)
class Config:
    shift: float = setting(0.0, doc="added")
    more: list = field(default_factory=list)

class Scaler:
    """Scales."""

    def __init__(self, by):
        self.by = by

    @property
    def twice(self):
        """By twice as much."""
        return 2 * self.by

scaler = Scaler(3)

@functools.cache
def scaled(x):
    """Scale x."""
    return x * FACTOR  # by the factor

def train(run):
    def inner():
        """Inside."""
        return scaled(ROWS.sum() + scaler.twice), Color.RED, loop
    return inner, TABLE, NET, forest, RNG, names, DATES, MIXED, np.linalg
'''


def digests_of(code: str) -> dict[str, str | None]:
    main = ModuleType("__main__")
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        exec(compile(code, "cell", "exec", dont_inherit=True), vars(main))
        return digests(vars(main)["train"], *(c for n, c in vars(main).items() if n == "Config"))
    finally:
        sys.modules["__main__"] = before


@pytest.fixture(scope="module")
def first() -> dict[str, str | None]:
    return digests_of(CODE)


@pytest.mark.slow
def test_every_value_has_a_digest_which_is_that_of_another_process(first):
    assert first.keys() == {
        *("train", "Config", "scaled", "scaler", "Color", "FACTOR", "names", "ROWS"),
        *("DATES", "MIXED", "TABLE", "NET", "forest", "RNG", "loop"),
    }
    assert None not in first.values()
    report = "import json; from ablate.trial.user.value_digests import digests\n"
    code = f"{CODE}\n{report}print(json.dumps(digests(train, Config)))"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == first


@pytest.mark.slow
@pytest.mark.parametrize(
    "before, after, changed",
    [
        ("FACTOR = 2.0", "FACTOR = 2.5", {"FACTOR"}),
        ("FACTOR = 2.0", "FACTOR = 2", {"FACTOR"}),
        ('names = {"b",', 'names = {"d",', {"names"}),
        ("\nDATES", "\nROWS[0] = 2\nDATES", {"ROWS"}),
        ("\nDATES", "\nROWS[0, 1] = np.nextafter(1, 2)\nDATES", {"ROWS"}),
        ("\nDATES", "\nROWS = ROWS.astype('f4')\nDATES", {"ROWS"}),
        ("2020-01-01", "2020-01-02", {"DATES"}),
        ("(1, 2.5)", "(1, 3.5)", {"MIXED"}),
        ('"x", "y"', '"x", "z"', {"TABLE"}),
        ("\nforest", "\nNET[1].bias.data += 1\nforest", {"NET"}),
        ("\nforest", "\nNET[0].bias.requires_grad_(False)\nforest", {"NET"}),
        ("RandomForestClassifier(3", "RandomForestClassifier(4", {"forest"}),
        ("\nloop = []", "\nRNG.random()\nloop = []", {"RNG"}),
        ("RED = 1", "RED = 2", {"Color"}),
        ("setting(0.0", "setting(0.5", {"Config"}),
        ("Scaler(3)", "Scaler(4)", {"scaler"}),
        ("\n@functools", "\nscaler.by = 4\n@functools", {"scaler"}),
        ("return 2 * self.by", "return 3 * self.by", {"scaler"}),
        ("x * FACTOR", "x / FACTOR", {"scaled"}),
        ("@functools.cache", "@functools.lru_cache(5)", {"scaled"}),
        ("ROWS.sum()", "ROWS.mean()", {"train"}),
        ("np.linalg", "np.random", {"train"}),
        ("  # by the factor", "", set()),
        ('"""Scale x."""', '"""Scale another x."""', set()),
        ('"""Inside."""', '"""Outside."""', set()),
        ('"""Scales."""', '"""It scales."""', set()),
        ('"""By twice', '"""By double', set()),
        ('doc="added"', 'doc="added to it"', set()),
        ("import functools\n", "import functools\n\n# A comment.\n", set()),
    ],
)  # fmt: skip
def test_what_changes_has_another_digest_and_nothing_else_has(first, before, after, changed):
    assert before in CODE
    now = digests_of(CODE.replace(before, after, 1))
    assert {name for name in first | now if first.get(name) != now.get(name)} == changed


def used(value: Any) -> str | None:
    names = {"value": value, "__name__": "__main__"}
    exec("def train(run): return value", names)
    return digests(names["train"])["value"]


def test_what_has_no_contents_has_no_digest(tmp_path):
    class Sly:
        def __reduce_ex__(self, protocol):
            raise RuntimeError("no")

    with open(tmp_path / "file", "w") as file:
        for value in (threading.Lock(), file, (i for i in "ab"), [threading.Lock()], Sly()):
            assert used(value) is None
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert used(deep) is None
    assert used([1, 2]) == used([1, 2]) != used([2, 1])


def test_long_lists_count_to_their_end():
    assert used([*range(20_000), 1]) != used([*range(20_000), 2])
    assert used([[i] for i in range(3_000)]) != used([[i] for i in range(2_999)])
