"""Sampling and enumerating random spaces against brute force, and the points of a range."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.space.row import Range
from ablate.space.space import load
from tests.support.spaces import draw, every, written

FIELDS = [f"training.{name}" for name in ("epochs", "window", "batch_size", "accumulate", "clip")]


@dataclass
class Drawn:
    """A random file, as it was meant."""

    choices: list[list[int] | None]  # by row; None: tied
    tied: list[int | None]
    when: list[list[tuple[int, str, Any]]]  # each row's comparisons with earlier rows
    order: list[int]  # in which the rows are written

    def text(self) -> str:
        lines = ['paper = "p"', 'tables = ["T"]']
        for i in self.order:
            lines += [f'["R{i}"]', f'field = "{FIELDS[i]}"']
            lines += [f"choices = {self.choices[i]}"] if self.choices[i] else []
            lines += [f'same_as = "R{self.tied[i]}"'] if self.tied[i] is not None else []
            clauses = [f"R{j} {op} {value}" for j, op, value in self.when[i]]
            lines += [f'when = "{" and ".join(clauses)}"'] if clauses else []
        return "\n".join(lines) + "\n"

    def brute_force(self) -> list[dict[str, int]]:
        """Return every assignment of every row, reduced to the active rows."""
        results = []
        for picked in itertools.product(*(choices or [0] for choices in self.choices)):
            values: dict[int, int] = {}
            for i, value in enumerate(picked):
                if all(j in values and _holds(values[j], op, v) for j, op, v in self.when[i]):
                    source = self.tied[i]
                    if source is None:
                        values[i] = value
                    elif source in values:
                        values[i] = values[source]
            flat = {FIELDS[i]: values[i] for i in self.order if i in values}
            if flat not in results:
                results.append(flat)
        return results


def _holds(left: int, op: str, right: Any) -> bool:
    if op == "in":
        return left in right
    return {"=": left == right, "!=": left != right, "<=": left <= right}[op]


@st.composite
def drawn_files(draw) -> Drawn:
    count = draw(st.integers(1, len(FIELDS)))
    values = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)
    choices: list[list[int] | None] = []
    tied: list[int | None] = []
    when: list[list[tuple[int, str, Any]]] = []
    reach: list[list[int]] = []  # what each row can be
    for i in range(count):
        source = draw(st.integers(0, i - 1)) if i and draw(st.integers(0, 3)) == 0 else None
        own = None if source is not None else draw(values)
        choices.append(own)
        tied.append(source)
        reach.append(own if source is None else reach[source])  # type: ignore[arg-type]
        clauses: list[tuple[int, str, Any]] = []
        for _ in range(draw(st.integers(0, 2)) if i else 0):
            other = draw(st.integers(0, i - 1))
            op = draw(st.sampled_from(["=", "!=", "in", "<="]))
            value = draw(st.sampled_from(reach[other]))
            some = draw(st.lists(st.sampled_from(reach[other]), min_size=1, unique=True))
            clauses.append((other, op, some if op == "in" else value))
        when.append(clauses)
    return Drawn(choices, tied, when, draw(st.permutations(range(count))))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("drawn")


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(file=drawn_files(), seed=st.integers(0, 99))
def test_samples_are_those_of_brute_force(scratch, file, seed):
    loaded = load(written(scratch, file.text()))
    expected = file.brute_force()
    points = list(every(loaded))
    assert len(points) == len(expected)
    assert all(values in expected for values in points)
    chance = random.Random(seed)
    for _ in range(5):
        assert loaded.sample(draw(chance)) in expected


@given(
    low=st.floats(1e-9, 1e6),
    span=st.floats(1e-3, 1e6),
    log=st.booleans(),
)
def test_a_range_includes_both_ends(low, span, log):
    domain = Range(low, low + span, log=log)
    assert all(map(domain.admits, domain.ends))
    assert not domain.admits(low - 1)
    assert not domain.admits(low + span + 1)


@given(low=st.integers(-50, 50), span=st.integers(1, 60))
def test_whole_ranges_have_whole_numbers(low, span):
    domain = Range(low, low + span, integer=True)
    assert domain.ends == (low, low + span) and all(map(domain.admits, range(low, low + span + 1)))
    assert not domain.admits(low + 0.5)
    assert not domain.admits(True)
