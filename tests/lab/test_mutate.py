"""What the mutation tool changes, and that it runs no test of an unchanged file."""

from __future__ import annotations

import ast

import pytest

from tests.lab import mutate
from tests.support import places


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
    changed = mutate.Mutant("ablate/number.py", 2, "7", "8", text.replace("7", "8"))
    with checkout.changed(changed):
        assert checkout.notices([name], 60) is True
    assert checkout.notices([name], 60) is False
    assert checkout.notices(["tests/test_slow.py"], 1) is None
    calls = checkout.callers([name, other], 60)
    assert calls is not None
    assert mutate.quickest(calls, "ablate/number.py") == [f"{name}::test_it"]
