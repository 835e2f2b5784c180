"""What the mutation tool changes, and that it runs no test of an unchanged file."""

from __future__ import annotations

import ast
import random

import pytest

from tests import mutate


def every(text: str) -> set[str]:
    made = [mutate.mutant("x.py", text, at, which) for at, which in mutate.spots(ast.parse(text))]
    assert all(one.text != ast.unparse(ast.parse(text)) for one in made)
    return {one.after for one in made}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("a < b", {"a >= b", "a <= b"}),
        ("a == b", {"a != b"}),
        ("a and b", {"a or b"}),
        ("a + b", {"a - b"}),
        ("f'{a}' + b", set()),
        ("a * 2", {"a / 2", "3"}),
        ("x = y if done else z", {"y if not done else z"}),
        ("def f(x=True): ...", {"False"}),
        ("'text'", set()),
    ],
)
def test_single_changes(text, changed):
    assert every(text) == changed


def test_a_sample_is_repeated_by_its_seed_and_lies_in_its_folder():
    one, again, other = (mutate.sample("store", 5, random.Random(seed)) for seed in (1, 1, 2))
    assert one == again != other
    assert all(mutant.file.startswith("ablate/store/") for mutant in one)


def test_equivalent_changes_are_not_sampled(monkeypatch, tmp_path):
    (first, *_) = mutate.sample("store", 5, random.Random(1))
    known = tmp_path / "equivalent.txt"
    known.write_text(f"# why\n{first.key}  ||  it cannot be seen\n")
    monkeypatch.setattr(mutate, "EQUIVALENT", known)
    assert first.key not in {one.key for one in mutate.sample("store", 5, random.Random(1))}


def test_tests_that_name_the_module_come_first():
    mutant = mutate.Mutant("ablate/tune/schedule.py", 1, "a", "b", "")
    assert mutate.tests_of(mutant)[0] == "tests/tune/test_schedule.py"
    assert "tests/tune/test_inherit.py" in mutate.tests_of(mutant)
