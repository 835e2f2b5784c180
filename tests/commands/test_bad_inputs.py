"""Inputs that no machine can hold, and text that no file can: one clear error each, at once."""

from __future__ import annotations

import pytest

from ablate import cli

STUDY = """
from ablate import Arm, Scale, Search, Stage, Study, factorial, fractional_factorial, table

BASE = {
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 4,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
}
SWITCH = {"off": {}, "on": {}}

study = Study(
    question="What is wrong?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"optimizer.learning_rate": 2.0})),
    scales={"small": Scale(seeds=2)},
)
"""
CONFIG = """
embedding.size = 4
backbone = "lstm"
head = "softmax"
optimizer = "sgd"
"""
HUGE = "9" * 401  # digits: more than a float has
ENDLESS = "9" * 5000  # digits: more than Python reads


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; return its message, which must be all that it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, status: int = 2) -> str:
        assert cli.main(arguments) == status
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("ablate: "), (out, err)
        return err

    return run


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds=2", f"seeds={HUGE}", "No whole number may be larger than 2**63 - 1"),
        ("seeds=2", "seeds=10**5000", "seeds = int too long to show is not allowed"),
        ("seeds=2", "seeds=10**7", "20,000,000 trials are too many for one study. The limit is"),
        (
            "seeds=2",
            "seeds=2, search=Search(space='zaremba2014', trials=10**12)",
            "searches of 2,000,000,000,000 trials in all are too many for one study. The limit is",
        ),
        (
            "seeds=2",
            "seeds=2, stages=(Stage('judged', kind='evaluate',"
            " search=Search(space='zaremba2014', trials=10**5)),)",
            "searches of 400,000 trials in all are too many",
        ),
        ("2.0", HUGE, "optimizer sgd.learning_rate = 999"),
        ('units": 4', 'units": 10**18', "the model is too large: one of its matrices"),
        ('"What', '"Wh\\udcff', "Text must be valid UTF-8, without zero bytes."),
        ("seeds=2", "seeds=2, corpus='~nosuchuser/x'", "there is no home folder ~nosuchuser"),
        ("SWITCH = ", "x = " + "-" * 100_000 + "1\nS = ", "Python cannot read this file"),
        (
            'table(Arm("a"), Arm("b", {"optimizer.learning_rate": 2.0}))',
            "factorial({f'{i}': SWITCH for i in range(30)})",
            "factorial: 1,073,741,824 arms are too many for one study. The limit is 10,000.",
        ),
        (
            'table(Arm("a"), Arm("b", {"optimizer.learning_rate": 2.0}))',
            "fractional_factorial({f'{i}': SWITCH for i in range(40)}, {'39': ('0', '1')})",
            "fractional_factorial: 549,755,813,888 arms are too many",
        ),
        (
            'table(Arm("a"), Arm("b", {"optimizer.learning_rate": 2.0}))',
            "fractional_factorial({f'{i}': SWITCH for i in range(30)},"
            " {f'{i}': ('0', '1') for i in range(2, 30)})",
            "268,435,456 combinations of 28 generators are too many",
        ),
    ],
)
def test_a_study(refused, tmp_path, old, new, message):
    assert STUDY.count(old) == 1
    (tmp_path / "asked.py").write_text(STUDY.replace(old, new))
    status = 3 if "nosuchuser" in new else 2
    assert message in refused("plan", "asked.py", status=status)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{CONFIG}training.epochs = {HUGE}", "No whole number may be larger than 2**63 - 1"),
        (f"{CONFIG}training.epochs = {ENDLESS}", "Exceeds the limit (4300 digits)"),
        (f"{CONFIG}training.clip = {HUGE}", "training.clip = 999"),
        (f"{CONFIG}x = {'[' * 5000}{']' * 5000}", "nested too deeply"),
        (f"{CONFIG}{'.'.join('a' * 3000)} = 1", "nested too deeply"),
    ],
)
def test_a_config(refused, tmp_path, text, message):
    (tmp_path / "one.toml").write_text(text)
    assert message in refused("trial", "one.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"range = [1, {HUGE}]", "two numbers, the lower one first"),
        (f"value = 1\nwhen = 'Rate = {ENDLESS}'", "is not a valid condition"),
        (f"value = 1\nwhen = 'Rate in {'[' * 5000}'", "is not a valid condition"),
        (f"value = {ENDLESS}", "is not valid TOML: Exceeds the limit (4300 digits)"),
    ],
)
def test_a_space(refused, tmp_path, text, message):
    head = 'paper = "none"\ntables = ["T"]\n["Rate"]\nfield = "training.clip"\n'
    (tmp_path / "one.toml").write_text(head + text)
    assert message in refused("spaces", "./one.toml")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["status", "--workspace", "/tmp/\udcff"], 4, "has a name that is not UTF-8"),
        (["status", "--store", "s3://\udcff"], 4, "has a name that is not UTF-8"),
        (["query", "SELECT 1", "--mlflow", "sqlite:////\udcff"], 4, "name that is not UTF-8"),
        (["status", "--store", "s3://"], 4, "it names no bucket or folder"),
        (["sync", "--mlflow", "http://[::1"], 6, "records cannot be stored in 'http://[::1'"),
        (["sync", "--mlflow", "http://host:99999999"], 6, "cannot be stored in 'http://host:9"),
        (["data", "get", "ptb", "--from", "~nosuchuser/x"], 3, "no home folder ~nosuchuser"),
    ],
)
def test_a_place(refused, arguments, status, message):
    assert message in refused(*arguments, status=status)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed", HUGE],
        ["--seed", ENDLESS],
        ["--threads", "0"],
    ],
)
def test_an_option(arguments, capsys):
    with pytest.raises(SystemExit):
        cli.main(["trial", "one.toml", *arguments])
    assert f"error: argument {arguments[0]}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (MemoryError(), 5, "out of memory"),
        (ImportError("libx.so: failed to map segment from shared object"), 5, "out of memory"),
        (RecursionError(), 2, "nested too deeply"),
    ],
)
def test_a_machine_without_enough_memory(refused, monkeypatch, error, status, message):
    from ablate.commands import status as command

    def run(options):
        raise error

    monkeypatch.setattr(command, "run", run)
    assert message in refused("status", status=status)


@pytest.mark.parametrize("rate", ["1e308", "inf", "-1e39"])
def test_a_number_beyond_float32(refused, tmp_path, rate):
    """torch cannot multiply by it: a trial failed with torch's own error."""
    text = "backbone = 'lstm'\nhead = 'softmax'\nloss = 'cross_entropy'\n"
    text += f"[optimizer]\nname = 'sgd'\nlearning_rate = {rate}\n"
    (tmp_path / "one.toml").write_text(text)
    message = refused("trial", "./one.toml")
    assert "No number may be larger than 3.4e+38" in message


def test_a_name_of_any_length_is_shown_in_part(refused, tmp_path):
    (tmp_path / "one.toml").write_text(f"{'x' * 9000} = 1\n")
    assert len(refused("trial", "./one.toml")) < 1000


def test_a_folder_that_was_deleted(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.main(["status"]) == 2
    assert capsys.readouterr().err == (
        "ablate: the current folder has been deleted. Change to another one: cd\n"
    )
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("epoch", ["abc", "-1", "9" * 40])
def test_a_date_that_libraries_cannot_read(tmp_path, monkeypatch, capsys, epoch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    assert cli.main(["status", "--workspace", str(tmp_path)]) == 2
    assert "the environment: SOURCE_DATE_EPOCH = " in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--except=--", "--format=--"])
def test_an_option_whose_value_ends_the_options(capsys, word):
    assert cli.main(["compare", word]) == 2
    assert f"{word} has no value. Expected: {word[:-2]}VALUE." in capsys.readouterr().err
