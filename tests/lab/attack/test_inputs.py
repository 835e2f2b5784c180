"""A slice of the attack with wrong inputs; `make attack` tries a thousand of each kind."""

from __future__ import annotations

import random

import pytest

from ablate import cli
from ablate.config import tasks
from ablate.errors import ConfigError
from tests.lab.attack import __main__ as runner
from tests.lab.attack import inputs
from tests.lab.attack.tally import Tally


@pytest.fixture
def place(tmp_path, data, monkeypatch) -> inputs.Place:
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))  # wrong studies register tasks too
    return inputs.Place(tmp_path, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", inputs.KINDS)
def test_wrong_inputs_end_with_one_clear_error(place, kind):
    tally = inputs.attack_kind(place, kind, seed=20261122, tries=12)
    assert tally == Tally(kind, tried=12), "\n".join(tally.examples)


def test_an_attempt_is_repeated_by_its_seed_and_number():
    for kind in inputs.KINDS:
        assert inputs.made(kind, 3, 4) == inputs.made(kind, 3, 4)
        assert len({str(inputs.made(kind, 3, number)) for number in range(20)}) > 15


def test_a_mutation_changes_the_text():
    texts = {inputs.mutated(inputs.CONFIG, random.Random(seed)) for seed in range(50)}
    assert len(texts) > 45


def raises(error: BaseException):
    def main(arguments):
        raise error

    return main


def prints(status: int, out: str = "", err: str = ""):
    def main(arguments):
        import sys

        print(out, end="")
        print(err, end="", file=sys.stderr)
        return status

    return main


@pytest.mark.parametrize(
    ("main", "what"),
    [
        (prints(0, out="a table"), ""),
        (prints(2, err="ablate: what is wrong."), ""),
        (prints(0), "wrong"),
        (prints(2), "wrong"),
        (prints(5, err='ablate: failed\n  File "/x/ablate/trial/run.py", line 3\n'), "tracebacks"),
        (prints(1, err="Traceback (most recent call last):\n"), "tracebacks"),
        (raises(ValueError("a bug")), "tracebacks"),
        (raises(SystemExit(2)), "wrong"),
        (raises(ConfigError("not caught")), "tracebacks"),
    ],
)
def test_what_counts(place, monkeypatch, main, what):
    monkeypatch.setattr(cli, "main", main)
    assert place.attempt(inputs.Attempt(("status",))).what == what


def test_a_loop_without_end_is_a_hang(place, monkeypatch):
    def main(arguments):
        while True:
            pass

    monkeypatch.setattr(inputs, "HANG_SECONDS", 0.1)
    monkeypatch.setattr(cli, "main", main)
    assert place.attempt(inputs.Attempt(("status",))).what == "hangs"


def test_a_process_of_its_own_is_judged_as_well(place):
    assert place.real(inputs.Attempt(("status", "nosuch"))).what == ""
    assert place.real(inputs.Attempt(("status",))).what == ""


@pytest.mark.parametrize(("lost", "status"), [(0, 0), (1, 1)])
def test_the_runner_prints_a_line_for_each_kind(monkeypatch, capsys, lost, status):
    tally = Tally("some files", tried=7, lost=lost, examples=("how to repeat it",) * lost)
    monkeypatch.setattr(inputs, "attack", lambda seed, tries: [tally])
    monkeypatch.setattr("sys.argv", ["attack", "--only", "inputs", "--quick"])
    assert runner.main() == status
    head, row, *rest = capsys.readouterr().out.splitlines()
    assert head.split() == ["kind", "tried", "lost", "doubled", "wrong", "tracebacks", "hangs"]
    assert row.split() == ["some", "files", "7", str(lost), "0", "0", "0", "0"]
    assert any("how to repeat it" in line for line in rest) is bool(lost)
