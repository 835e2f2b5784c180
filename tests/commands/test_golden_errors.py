"""The commonest mistakes of a user, and what the command line answers: tests/golden/errors.txt.

Lists that grow with the registry are shortened, so that a new technique changes no golden text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ablate import cli, commands
from ablate.config import registry, tasks
from ablate.lm import analysis
from ablate.lm.data import sources
from ablate.lm.data.published import PUBLISHED
from ablate.lm.kinds import KINDS
from ablate.space.folders import folders
from tests.support import spaces
from tests.support.golden import golden

SHIPPED_TASKS = KINDS
CONFIG = """\
corpus.name = "grammar"
embedding.size = 8
backbone.name = "lstm"
backbone.num_layers = 2
backbone.units = [12, 8]
head.name = "doc"
head.experts = [2, 1, 0]
optimizer.name = "nt_asgd"
optimizer.learning_rate = 5.0
regularizer.weight_drop.rate = 0.2
training.epochs = 2
"""
STUDY = """\
from ablate import Arm, Scale, Search, Stage, Study, table

study = Study(
    question="Which?",
    base={
        "embedding.size": 8,
        "backbone": "lstm",
        "backbone.units": 8,
        "head": "softmax",
        "optimizer": "sgd",
        "optimizer.learning_rate": 1.0,
    },
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.window": 33})),
    scales={"small": Scale(corpus="grammar", seeds=2)},
)
"""
WRONG_CONFIGS = {  # mistake: (what the good config has, what it has instead)
    "a misspelt technique": ('head.name = "doc"', 'head.name = "dco"'),
    "a technique of another slot": ('head.name = "doc"', 'head.name = "lstm"'),
    "a misspelt field": ("training.epochs", "training.epoch"),
    "a misspelt slot": ("backbone.units", "bakcbone.units"),
    "a field of another technique": ("training.epochs", "head.tide"),
    "a misspelt regularizer": ("regularizer.weight_drop", "regularizer.weightdrop"),
    "no backbone": (
        'backbone.name = "lstm"\nbackbone.num_layers = 2\nbackbone.units = [12, 8]\n',
        "",
    ),
    "no head": ('head.name = "doc"\nhead.experts = [2, 1, 0]\n', ""),
    "text instead of a number": ("learning_rate = 5.0", 'learning_rate = "fast"'),
    "a fraction instead of a whole number": ("epochs = 2", "epochs = 2.5"),
    "a negative size": ("embedding.size = 8", "embedding.size = -8"),
    "a rate above 1": ("rate = 0.2", "rate = 20"),
    "not a number": ("learning_rate = 5.0", "learning_rate = nan"),
    "yes instead of true": ("training.epochs = 2", 'head.tied = "yes"'),
    "not one of the choices": ('corpus.name = "grammar"', 'corpus.level = "letter"'),
    "a value for a section": ("training.epochs = 2", "training = 2"),
    "more units than layers": ("[12, 8]", "[12, 10, 8]"),
    "more experts than layers": ("[2, 1, 0]", "[2, 1, 0, 5]"),
    "no experts": ("[2, 1, 0]", "[0, 0, 0]"),
    "a tied head of another width": (
        'head.name = "doc"\nhead.experts = [2, 1, 0]',
        'head.name = "softmax"\nhead.tied = true\nbackbone.last_units = 10',
    ),
    "an unknown corpus": ('"grammar"', '"gramar"'),
    "a corpus that was not fetched": ('"grammar"', '"wikitext-2"'),
    "not TOML": ("training.epochs = 2", "training.epochs: 2"),
    "a key twice": ("training.epochs = 2", "training.epochs = 2\ntraining.epochs = 3"),
}
WRONG_STUDIES = {
    "a syntax error": ('base_arm="a",', 'base_arm="a'),
    "an exception": ('base_arm="a"', "base_arm=A"),
    "no study in the file": ("study = Study", "question = Study"),
    "a misspelt word": ("base_arm=", "basearm="),
    "a word left out": ('    base_arm="a",\n', ""),
    "an unknown base arm": ('base_arm="a"', 'base_arm="aa"'),
    "two arms of one name": ('Arm("b"', 'Arm("a"'),
    "an unknown value of an arm": ("training.window", "training.windw"),
    "a wrong value of the base": ('"sgd"', '"sdg"'),
    "no seeds": ("seeds=2", "seeds=0"),
    "an unknown arm of a scale": ("seeds=2", 'seeds=2, arms=["c"]'),
    "an unknown sampler": (
        "seeds=2",
        'seeds=2, search=Search(space="x", trials=3, sampler="grid")',
    ),
    "an unknown search space": ("seeds=2", 'seeds=2, search=Search(space="nonsuch", trials=3)'),
    "an unknown recipe": ('Arm("a")', 'Arm("a", recipe="takase2018doc_tabel2")'),
    "a missing file of techniques": ('base_arm="a"', 'base_arm="a", techniques=("own.py",)'),
    "a published model that is not in the paper": ('"a")', '"a", published=("MoS", "v"))'),
}
WRONG_SPACES = {
    "a misspelt key": ('scale = "log"', 'sclae = "log"'),
    "an unknown scale": ('scale = "log"', 'scale = "lgo"'),
    "ends in the wrong order": ("[1, 5]", "[5, 1]"),
    "no choices": ("choices = [1, 2, 3]", "choices = []"),
    "an unknown field": ('"training.epochs"', '"training.epoch"'),
    "an unknown technique": ('["lstm", "mogrifier"]', '["lstm", "mogrifier", "ltsm"]'),
    "a row without a value": ('same_as = "Width"\n', ""),
    "a row twice": ('["Depth"]', '["Kind"]'),
    "a condition on an unknown row": ("Kind = mogrifier", "Kinds = mogrifier"),
    "a condition that never holds": ("Kind = mogrifier", "Kind = rhn"),
    "a row tied to an unknown one": ('same_as = "Width"', 'same_as = "Widht"'),
    "not TOML": ("choices = [1, 2, 3]", "choices: [1, 2, 3]"),
}
WRONG_COMMANDS = (
    "stduy good.py",
    "study",
    "study nonsuch.py",
    "plan good.py --scale papre",
    "plan good.toml",
    "study good.py --thread 2",
    "trial good.toml --threads none",
    "study good.py --local --mlflow htp://x",
    "trial nonsuch.toml",
    "table nonsuch",
    "status nonsuch",
    "rerun ffff",
    "components heads",
    "components head dcc",
    "spaces takase2018doc_tabel2",
    "data get ptbb",
    "data candidates grammar",
    "analyze next_word ffff",
)


@dataclass(frozen=True)
class Mistake:
    """A mistake of a user, and the command that reports it."""

    title: str
    command: str
    file: str = ""
    text: str = ""


def mistakes() -> Iterator[Mistake]:
    for kind, file, command, good, changes in (
        ("config", "wrong.toml", "trial", CONFIG, WRONG_CONFIGS),
        ("study", "wrong.py", "plan", STUDY, WRONG_STUDIES),
        ("space", "wrong.toml", "spaces --check", spaces.SMALL, WRONG_SPACES),
    ):
        for title, (old, new) in changes.items():
            assert good.count(old) == 1, old
            yield Mistake(f"{kind}: {title}", f"{command} {file}", file, good.replace(old, new))
    for command in WRONG_COMMANDS:
        yield Mistake("command", command)


class Terminal:
    """`ablate` in this process, in a folder with a good study and a good config."""

    def __init__(self, folder: Path, workspace, capsys) -> None:
        self.folder, self.workspace, self.capsys = folder, workspace, capsys
        (folder / "good.py").write_text(STUDY)
        (folder / "good.toml").write_text(CONFIG)

    def answer(self, mistake: Mistake) -> str:
        """Return the command, its exit status and what it wrote to stderr."""
        if mistake.file:
            (self.folder / mistake.file).write_text(mistake.text)
        try:
            status = cli.main(mistake.command.split())
        except SystemExit as left:  # argparse
            status = left.code
        error = self.capsys.readouterr().err.strip()
        assert status and "Traceback" not in error, mistake
        error = re.sub(r"usage: .*?\n(?=ablate)", "", error, flags=re.DOTALL)  # test_help.py has it
        return f"# {mistake.title}\n$ ablate {mistake.command}\n{error}\nexit status {status}\n"


def lists_that_grow() -> dict[str, str]:
    """Return the lists of names that grow with the product, and what to write instead."""
    listed = {f"the {slot}s": registry.names(slot) for slot in registry.every_slot()}
    shipped = {path.stem for folder in folders() for path in folder.glob("*.toml")}
    listed |= {"the search spaces": sorted(shipped), "the corpora": sources.fetched()}
    listed["the texts"] = list(PUBLISHED)
    listed["the analyses"] = analysis.names()
    listed["the commands"] = commands.names()
    return {", ".join(names): f"<{what}>" for what, names in listed.items() if len(names) > 1}


def shortened(text: str, folder: Path) -> str:
    for names, what in sorted(lists_that_grow().items(), key=lambda pair: -len(pair[0])):
        text = text.replace(names, what)
    return text.replace(str(folder), "DIR")


@pytest.fixture(autouse=True)
def shipped_tasks(monkeypatch: pytest.MonkeyPatch):
    """Other tests of this process may have left tasks, which no message of these names."""
    monkeypatch.setattr(tasks, "_kinds", {kind.name: kind for kind in SHIPPED_TASKS})


@pytest.fixture
def terminal(tmp_path, workspace, capsys, monkeypatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ABLATE_WORKSPACE", str(workspace.folder))
    return Terminal(tmp_path, workspace, capsys)


@pytest.fixture(autouse=True)
def _shipped_techniques_alone(monkeypatch):
    """Other tests of this process may have registered some of their own."""
    for technique in registry.of_users():
        monkeypatch.delitem(registry._techniques, (technique.slot, technique.name))


@pytest.mark.golden
def test_every_mistake_gets_its_golden_answer(terminal, tmp_path):
    text = "\n".join(terminal.answer(mistake) for mistake in mistakes())
    text = shortened(text, tmp_path)
    assert text == golden("errors.txt", text)
