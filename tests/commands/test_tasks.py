"""Commands that read records, on a study of a function: no word of language models."""

from __future__ import annotations

import json
import os
import re
import shlex

import pytest

from ablate import cli
from ablate.config import tasks
from ablate.store import journal as journals
from ablate.store.workspace import open_workspace
from tests.support.no_export import NoExport

CODE = """
from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Search, Study, setting, table, task


@dataclass(frozen=True, kw_only=True)
class CoinConfig:
    rate: float = setting(0.1, doc="learning rate", low=0)
    bent: bool = setting(False, doc="bend it")


@task(
    "coin",
    config=CoinConfig,
    metrics=Metric("heads", better="higher", shown="heads in %", factor=100),
)
def train(run):
    for epoch in (1, 2):
        heads = 0.5 + 0.2 * run.config.bent - (run.config.rate - 0.3) ** 2 + run.seed % 10 / 1000
        yield {"train_heads": heads / 2, "valid_heads": heads * (1 - 0.1 / epoch)}
    return {"test_heads": heads}


study = Study(
    question="Does bending it help?",
    base={"task": "coin"},
    base_arm="straight",
    design=table(Arm("straight"), Arm("bent", {"coin.bent": True})),
    scales={
        "laptop": Scale(seeds=3),
        "tuned": Scale(seeds=1, search=Search(space="rates", trials=5)),
    },
)
"""
SPACE = """
paper = "ours"
task = "coin"
tables = []

["Learning rate"]
field = "coin.rate"
range = [0.1, 0.9]
"""
FOREIGN = re.compile(
    r"perplexity|\bppl\b|\bnats?\b|\bbits\b|\btokens?\b|corpus|corpora|\bnll\b", re.I
)


@pytest.fixture(scope="module")
def coin(tmp_path_factory):
    """A folder with a study of a function that has run at both scales."""
    folder = tmp_path_factory.mktemp("coin")
    (folder / "coin.py").write_text(CODE)
    (folder / "search_spaces").mkdir()
    (folder / "search_spaces" / "rates.toml").write_text(SPACE)
    known = dict(tasks._kinds)
    with pytest.MonkeyPatch.context() as patch:  # no page and no runs: they take ten times as long
        patch.setattr("ablate.engine.run._report", lambda summary, store, note: {})
        patch.setattr("ablate.record.background.BackgroundExport", NoExport)
        for scale in ("laptop", "tuned"):
            arguments = ["study", str(folder / "coin.py"), "--scale", scale, "--local"]
            assert cli.main([*arguments, "--workspace", str(folder / "w")]) == 0
    yield folder
    tasks._kinds.clear()
    tasks._kinds.update(known)


@pytest.fixture
def printed(coin, capsys):
    """What a command prints."""

    def run(*arguments: str) -> str:
        assert cli.main([*arguments, "--workspace", str(coin / "w")]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def trial_ids(coin) -> list[str]:
    known = journals.read_all(open_workspace(str(coin / "w")).store)
    return [trial for trial, journal in known.items() if journal.trial.scale == "laptop"]


def table_hash(printed) -> str:
    return (
        printed("table", "coin@laptop", "--format", "latex").split("provenance ")[1].split("}")[0]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        *("status", "status coin@laptop", "status coin@tuned", "importance coin@tuned"),
        *("compare coin@laptop", "compare --except coin.bent", "compare --except coin"),
        *("compare coin@laptop coin@tuned", "compare --except coin --split test"),
        *(
            f"table coin@laptop --format {form}"
            for form in ("text", "csv", "latex", "html", "json")
        ),
        *("table coin@tuned", "report coin@laptop", "report coin@tuned", "plot coin@tuned"),
        "provenance HASH",
        "rerun TRIAL",
    ],
)
def test_no_word_of_language_models(coin, printed, command):
    pytest.importorskip("matplotlib")
    trial, table = trial_ids(coin)[0], table_hash(printed) if "HASH" in command else ""
    text = printed(*command.replace("TRIAL", trial).replace("HASH", table).split())
    if "report" in command:
        text = (coin / "w" / "studies" / command.split()[1] / "report.html").read_text()
        text = re.sub(r"base64,[^\"]*|<(style|script).*?</\1>", "", text, flags=re.S)
    if command.endswith(("csv", "json")):
        text = text.replace("tokens", "")  # programs find what every study may have
    assert text and not FOREIGN.findall(text), FOREIGN.findall(text)


def test_a_study_is_resumed_from_where_it_was_started(printed, monkeypatch, tmp_path):
    here = os.getcwd()

    def resume() -> str:
        (study,) = json.loads(printed("status", "coin@laptop", "--format", "json"))["studies"]
        return study["resume"]

    assert resume().startswith("ablate study")
    monkeypatch.chdir(tmp_path)
    assert resume().startswith(f"cd {here} && ablate study")


@pytest.mark.usefixtures("without_pages", "without_mlflow")
def test_status_shows_each_traceback_once(coin, tmp_path, capsys):
    fails = CODE.replace('"coin', '"tossed').replace(
        "    return {", "    fails = 1 / 0\n    return {"
    )
    (tmp_path / "tossed.py").write_text(fails)
    where = ("--workspace", str(tmp_path / "w"))
    assert cli.main(["study", str(tmp_path / "tossed.py"), "--local", *where]) == 5
    capsys.readouterr()
    assert cli.main(["status", "tossed@laptop", *where]) == 0
    said = capsys.readouterr().out
    assert said.count("    fails = 1 / 0\n") == 1 and "tossed.py" in said
    assert said.count("(the same traceback as above)") == 2  # of three trials, then it stops


@pytest.mark.usefixtures("without_pages", "without_mlflow")
def test_where_to_look_names_the_scale(tmp_path, capsys):
    (tmp_path / "flipped.py").write_text(CODE.replace('"coin', '"flipped'))
    where = ("--workspace", str(tmp_path / "w"))
    assert cli.main(["study", str(tmp_path / "flipped.py"), "--local", *where]) == 0
    printed = capsys.readouterr().out
    details = printed.partition("details:  ablate ")[2].splitlines()[0]
    assert details.startswith("status flipped@laptop --workspace")
    assert cli.main(shlex.split(details)) == 0  # as it is printed
    assert f"ablate ui --workspace {where[1]}" in printed
    how = f"ablate table flipped@laptop --notes --workspace {where[1]}"
    assert how in " ".join(printed.split())
    assert cli.main(["table", "flipped", *where]) == 0
    assert how in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.usefixtures("without_pages", "without_mlflow")
def test_another_file_of_the_same_name_is_noted(tmp_path, capsys):
    code = CODE.replace('"coin', '"thrown')
    paths = (tmp_path / "thrown.py", tmp_path / "sub" / "thrown.py")
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    known = dict(tasks._kinds)
    said = []
    for path in (*paths, paths[1]):
        tasks._kinds.clear()
        tasks._kinds.update(known)
        assert cli.main(["study", str(path), "--local", "--workspace", str(tmp_path / "w")]) == 0
        said.append(" ".join("".join(capsys.readouterr()).split()))
    note = f"thrown@laptop was run from {paths[0]} before: the question and arms of {paths[1]}"
    assert [note in text for text in said] == [False, True, False]


@pytest.mark.slow
@pytest.mark.usefixtures("without_pages", "without_mlflow")
def test_a_copied_file_with_the_same_task_is_another_only_if_it_says_something_else(
    tmp_path, capsys
):
    known = dict(tasks._kinds)
    said = []
    for name, edit in (("one", ""), ("two", "# a copy"), ("three", "\nMORE = 1\n")):
        tasks._kinds.clear()
        tasks._kinds.update(known)
        (tmp_path / f"{name}.py").write_text(CODE.replace('"coin', '"copied') + edit)
        path = str(tmp_path / f"{name}.py")
        status = cli.main(["study", path, "--local", "--workspace", str(tmp_path / "w")])
        said.append((status, " ".join("".join(capsys.readouterr()).split())))
    assert [status for status, _ in said] == [0, 0, 2]
    assert "nothing is left to do, all 6 trials are done" in said[1][1]
    assert "three.py is part of it now: 3 trials of straight, 3 trials of bent" in said[2][1]


def test_a_space_that_passes_its_check_says_so(coin, capsys):
    space = str(coin / "search_spaces" / "rates.toml")
    assert cli.main(["spaces", space, "--check", "--code", str(coin / "coin.py")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Checked: every field exists")
    assert cli.main(["spaces", space]) == 0
    assert "Checked" not in capsys.readouterr().out


def test_a_config_of_it_runs_with_its_code(coin, printed):
    config = coin / "bent.toml"
    config.write_text('task = "coin"\ncoin = { bent = true }\n')
    text = printed("trial", str(config), "--code", str(coin / "coin.py"))
    assert "valid_heads 0.6279" in text and "parameters" not in text
    again = printed("trial", str(config), "--code", str(coin / "coin.py"))
    assert again.splitlines()[0].partition(":")[0] == text.splitlines()[0].partition(":")[0]
    (trial,) = {line.split()[1].rstrip(":") for line in (text.splitlines()[0],)}
    assert trial in trial_ids(coin)  # the study's own, which is not run again
