"""`ablate new`: each template runs as its user would run it, and nothing is overwritten."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from ablate.cli import main
from ablate.config import registry
from ablate.lm.slots import EXAMPLES
from ablate.lm.testing.check import check_technique
from ablate.study.file import load
from ablate.trial.run import load_own

LOSSES = {"base": 3.0, "dropout": 2.9}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "epochs", "arm"),
    [([], "training.epochs=1", "*0.1"), (["--task"], "my_question.epochs=2", "*0.5")],
)
@pytest.mark.usefixtures("without_pages", "without_mlflow")
def test_a_study_runs_in_an_empty_folder(folder, capsys, kind, epochs, arm):
    assert main(["new", "my_question.py", *kind]) == 0
    assert "ablate study my_question.py" in capsys.readouterr().out
    # Two seeds of two arms: the tests have no time for the whole.
    changes = ["--seeds", "2", "--set", epochs, "--arms", arm]
    assert main(["study", "my_question.py", "--local", *changes]) == 0
    assert "Changed on the command line: --seeds 2" in capsys.readouterr().out
    assert main(["status", "my_question.py"]) == 0
    assert re.search(r"^all arms +4 of 4$", capsys.readouterr().out, re.M)


def test_the_instructions_for_agents_are_those_of_the_commands(folder, capsys):
    """Their question is asked as it stands there, and the answer has the keys that they name."""
    assert main(["new", "AGENTS.md", "--agents"]) == 0
    (command,) = re.findall(r"```sh\nablate (.*)\n```", (folder / "AGENTS.md").read_text())
    rows = [f"{arm},{seed},{loss + seed / 10}" for arm, loss in LOSSES.items() for seed in range(6)]
    (folder / "runs.csv").write_text("\n".join(["variant,seed,loss", *rows]))
    capsys.readouterr()
    assert main(shlex.split(command)) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "next" in answer
    assert all({"verdict", "more"} <= set(arm) for arm in answer["arms"])
    assert main(["new", "AGENTS.md", "--agents"]) != 0  # nothing is overwritten


@pytest.mark.parametrize("slot", EXAMPLES)
def test_a_technique_of_any_slot_keeps_its_contract(folder, slot):
    name = f"my_{slot}"
    assert main(["new", f"{name}.py", "--technique", slot]) == 0
    load_own((str(folder / f"{name}.py"),))
    made = registry.get(slot, name)
    assert (made.paper, made.equation, made.departures, made.version) == ("", "", (), 1)
    check_technique(slot, name)


@pytest.mark.slow
def test_its_test_passes_as_its_user_runs_it(folder):
    main(["new", "my_gate.py", "--technique", "gate"])
    command = [sys.executable, "-m", "pytest", "-q", "test_my_gate.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["there.py"], "there.py already exists and is left as it is"),
        (["a.py", "--technique", "heed"], "unknown slot 'heed'. Did you mean 'head'?"),
        (["a-b.py", "--task"], "a name in snake_case"),
        (["class.py", "--technique", "head"], "a name in snake_case"),
        (["study"], "a name that ends in .py"),
        (["no/where.py"], "there is no folder no"),
        (["b.py", "--corpus", "ptbb"], "unknown corpus 'ptbb'. Did you mean 'ptb'? Expected one"),
        (["b.py", "--corpus", "folder:gone"], "A folder of text needs train.txt, valid.txt and"),
        (["b.py", "--corpus", "multi30k"], "'multi30k' has pairs of sentences"),
    ],
)
def test_what_is_refused_writes_nothing(folder, capsys, words, message):
    (folder / "there.py").write_text("mine")
    assert main(["new", *words]) == (3 if "--corpus" in words else 2)  # the errors' own statuses
    assert message in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["there.py"]
    assert (folder / "there.py").read_text() == "mine"


def test_a_study_reads_the_corpus_that_is_named(folder):
    (folder / "text.txt").write_text("a b c\n" * 100)
    assert main(["data", "add", "my_text", "text.txt"]) == 0
    assert main(["new", "mine.py", "--corpus", "my_text"]) == 0
    (scale,) = load(folder / "mine.py").scales.values()
    assert scale.corpus == "my_text"
    with pytest.raises(SystemExit):
        main(["new", "other.py", "--task", "--corpus", "mine"])


@pytest.mark.parametrize("corpus", ["grammar_trees", "treebank"])
def test_a_study_reads_trees_as_trees(folder, corpus, capsys):
    assert main(["new", "mine.py", "--corpus", corpus]) == 0
    if corpus == "grammar_trees":  # the other one is not fetched
        assert main(["plan", "mine.py"]) == 0
    assert load("mine.py").base["corpus.level"] == "tree"
