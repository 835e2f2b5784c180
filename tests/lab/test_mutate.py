"""What the mutation tool changes, and that it runs no test of an unchanged file."""

from __future__ import annotations

import ast
import random

import pytest

from tests.lab import mutate
from tests.support import places


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
        ("if done:\n    go()", {"if not done:"}),  # one line: `tests/lab/equivalent.txt` has lines
        ("def f(x=True): ...", {"False"}),
        ("'text'", set()),
        ("@dataclass(frozen=True)\nclass A: ...", set()),
        ("if TYPE_CHECKING:\n    import a", set()),
        ("print(a, flush=True)", set()),
        ("zip(a, b, strict=True)", set()),
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


@pytest.mark.slow
def test_what_is_listed_as_equivalent_can_still_be_changed():
    listed = mutate.equivalent()
    for file in {key.partition(":")[0] for key in listed}:
        text = (places.ROOT / file).read_text()
        tree, lines = ast.parse(text), text.splitlines()
        nodes = list(ast.walk(tree))
        for at, which in mutate.spots(tree):
            source = lines[getattr(nodes[at], "lineno", 1) - 1].strip()
            if any(key.startswith(f"{file}: {source}: ") for key in listed):
                listed.discard(mutate.mutant(file, text, at, which).key)
    assert not listed


def test_tests_that_start_ray_run_only_for_what_drives_it():
    assert "tests/tune/test_watch.py" in mutate.tests_with_ray("ablate/tune/cluster/drive.py")
    assert mutate.tests_with_ray("ablate/tune/schedule.py") == []
    tests = mutate.tests_of("tune")
    assert "tests/tune/test_inherit.py" in tests and "tests/tune/test_watch.py" not in tests
    assert "tests/commands/test_tasks.py" in mutate.tests_of("compare")


@pytest.mark.slow
def test_a_change_is_noticed_in_a_process_of_its_own(tmp_path):
    """As long as the file is changed; a test that does not end in time says nothing."""
    name = "tests/test_number.py"
    checkout = mutate.Checkout.__new__(mutate.Checkout)
    checkout.folder = tmp_path
    (tmp_path / "ablate").mkdir()
    (tmp_path / "tests").mkdir()
    text = "def number():\n    return 7\n"
    (tmp_path / "ablate/number.py").write_text(text)
    test = "from ablate.number import number\n\ndef test_it():\n    assert number() == 7\n"
    (tmp_path / name).write_text(test)
    other = "tests/test_other.py"
    (tmp_path / other).write_text("def test_it(): ...\n")
    (tmp_path / "tests/test_slow.py").write_text("import time\n\ndef test_it(): time.sleep(60)\n")
    assert checkout.notices([name], 60) is False
    changed = mutate.Mutant("ablate/number.py", 2, "7", "8", text.replace("7", "8"))
    with checkout.changed(changed):
        assert checkout.notices([name], 60) is True
    assert checkout.notices([name], 60) is False
    assert checkout.notices(["tests/test_slow.py"], 1) is None
    calls = checkout.callers([name, other], 60)
    assert calls is not None
    assert mutate.quickest(calls, "ablate/number.py") == [f"{name}::test_it"]
