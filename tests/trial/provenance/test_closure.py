"""What a trial's numbers come from is found: its code, packages, files and variables."""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import sys
import textwrap
from pathlib import Path

import pytest

from ablate.store.attempt import Attempt
from ablate.trial.provenance import changes, imported, syntax
from ablate.trial.provenance.closure import _named_in_code, named_by
from ablate.trial.provenance.imported import Found
from ablate.trial.provenance.opened import MOST_FILES, Opened, digest_of
from ablate.trial.user.user_code import executed

STUDY = """
import os
import numpy as np
from arms import MORE
from ablate import Arm, Scale, Study, table, task
from helpers import loss, plot

RATES = [0.1]
RATES.append(0.2)
SEEDS = 3

def adapt(values):
    return values

def main():
    study.plot(plot)

@task("digits", config=Config, metrics=())
def train(run):
    "Trains."
    return {"loss": loss(RATES)}

ARMS = [Arm("a"), *MORE]
study = Study(design=table(*ARMS), scales={"s": Scale(seeds=SEEDS, adapt=adapt)})

if __name__ == "__main__":
    main()
"""


def digest(folder: Path, text: str) -> str:
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.py"
    file.write_text(textwrap.dedent(text))
    return syntax.read(file).digest


OF_NO_ACCOUNT = {
    "a comment": ("SEEDS = 3", "SEEDS = 3  # enough"),
    "a docstring": ('"Trains."', '"Trains them all."'),
    "layout": ("RATES = [0.1]", "RATES = [\n    0.1,\n]"),
    "an arm": ('Arm("a")', 'Arm("a"), Arm("b")'),
    "seeds": ("SEEDS = 3", "SEEDS = 30"),
    "what only the study calls": ("return values", "return {**values}"),
    "what only the study imports": ("import MORE", "import MORE, LESS"),
    "a word of ablate": ("Scale, Study", "Search, Scale, Study"),
    "what happens to the results": ("study.plot(plot)", "print(study)"),
}


@pytest.mark.parametrize("edit", OF_NO_ACCOUNT.values(), ids=OF_NO_ACCOUNT)
def test_an_edit_that_changes_no_trial_changes_no_digest(tmp_path, edit) -> None:
    assert edit[0] in STUDY
    assert digest(tmp_path, STUDY.replace(*edit)) == digest(tmp_path, STUDY)


OF_ACCOUNT = {
    "the function": ("loss(RATES)", "2 * loss(RATES)"),
    "a value": ("RATES = [0.1]", "RATES = [0.3]"),
    "what is done to a value": ("append(0.2)", "append(0.4)"),
    "another import": ("from helpers import loss", "from others import loss"),
}


@pytest.mark.parametrize("edit", OF_ACCOUNT.values(), ids=OF_ACCOUNT)
def test_an_edit_that_may_change_a_trial_changes_the_digest(tmp_path, edit) -> None:
    assert edit[0] in STUDY
    assert digest(tmp_path, STUDY.replace(*edit)) != digest(tmp_path, STUDY)


def test_a_file_without_a_study_counts_as_a_whole(tmp_path) -> None:
    assert digest(tmp_path, "A = 1\nB = 2\n") != digest(tmp_path, "A = 1\nB = 3\n")


def test_what_python_cannot_read_counts_byte_by_byte(tmp_path) -> None:
    assert digest(tmp_path, "def (:\n") != digest(tmp_path, "def (:  \n")


def found(folder: Path, **texts: str) -> Found:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    all_found = Found()
    all_found.add(folder / "own.py")
    return all_found


def test_imports_are_followed_through_modules_and_packages(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "on_path"))
    (tmp_path / "on_path").mkdir()
    (tmp_path / "on_path" / "elsewhere_on_path.py").write_text("")
    files = found(
        tmp_path,
        own="import json, nowhere\nfrom beside import x\nfrom ablate import task\n",
        beside="def f():\n    import numpy, lib_of_ours.deep.layers\n",
        lib_of_ours__extra="",
        lib_of_ours__deep__layers="from . import more\nfrom ..extra import y\n",
        lib_of_ours__deep__more="import elsewhere_on_path\n",
    )
    for package in ("lib_of_ours", "lib_of_ours/deep"):
        (tmp_path / package / "__init__.py").write_text("")
    files = found(tmp_path)
    assert {*files.code} == {
        "own.py",
        "beside.py",
        "lib_of_ours/__init__.py",
        "lib_of_ours/extra.py",
        "lib_of_ours/deep/__init__.py",
        "lib_of_ours/deep/layers.py",
        "lib_of_ours/deep/more.py",
        "elsewhere_on_path.py",
    }
    assert {*files.distributions} == {"numpy"}


def test_a_script_finds_what_lies_beside_it_first(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    for folder, text in (("other", "A = 1"), ("scripts", "A = 2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "of_both_folders.py").write_text(text)
    (tmp_path / "scripts" / "own.py").write_text("import of_both_folders")
    for script, folder in ((None, "other"), (tmp_path / "scripts", "scripts")):
        files = Found()
        files.add(tmp_path / "scripts" / "own.py", script)
        assert tmp_path / folder / "of_both_folders.py" in files.files


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """The only module of an installed distribution."""
    place = tmp_path / "site-packages"
    info = place / "pretended_dist-1.5.dist-info"
    info.mkdir(parents=True)
    module = place / "pretended_dist.py"
    module.write_text("A = 1\n")
    listed = base64.urlsafe_b64encode(hashlib.sha256(b"A = 1\n").digest()).decode().rstrip("=")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pretended-dist\nVersion: 1.5\n")
    (info / "RECORD").write_text(
        f"pretended_dist.py,sha256={listed},6\npretended_dist-1.5.dist-info/RECORD,,\n"
    )
    monkeypatch.syspath_prepend(str(place))
    for cached in (imported._version, imported._distribution):
        cached.cache_clear()
    return module


def test_of_an_installed_package_the_version_counts(tmp_path, installed) -> None:
    files = found(tmp_path, own="import pretended_dist\n")
    assert files.distributions == {"pretended-dist": "1.5"}
    assert {*files.code} == {"own.py"}


@pytest.mark.parametrize("text", ["A = 2\n", "A = 1; B = 1\n"])
def test_an_installed_package_that_was_edited_says_so(tmp_path, installed, text) -> None:
    installed.write_text(text)
    later = os.stat(installed).st_mtime + 10
    os.utime(installed, (later, later))
    versions = found(tmp_path, own="import pretended_dist\n").distributions
    assert versions["pretended-dist"].startswith("1.5 edited ")


def test_variables_that_code_reads_by_name_are_found(tmp_path) -> None:
    text = """
    import os
    from os import environ
    a = os.environ["A"], environ.get("B", "1"), os.getenv("C"), {}["D"], {}.get("E")
    b = "F" in os.environ, "G" not in environ, "H" in {}
    """
    assert found(tmp_path, own=text).variables == {"A", "B", "C", "F", "G"}


def test_scripts_and_data_that_code_names_count(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("near.db", "data/far.db", "data/unnamed.db", ".hidden"):
        (tmp_path / name).write_text("1")
    text = """
    run("train.py"); open("data" / "far.db"); "near.db", ".hidden", "../x", "nowhere", ""
    """
    all_found = found(tmp_path, own=text, train="import helpers", helpers="A = 1")
    named = dict(_named_in_code(all_found.file_names, [tmp_path], all_found))
    assert {*named} == {"near.db", "data/far.db"}
    assert {*all_found.code} == {"own.py", "train.py", "helpers.py"}


def heard(opened: Opened, read) -> tuple[dict[str, str], dict[str, str]]:
    with opened.listening():
        read()
    return opened.digests()


def test_files_that_are_read_beside_the_study_are_noticed(tmp_path) -> None:
    beside, store = tmp_path / "study", tmp_path / "study" / "store"
    store.mkdir(parents=True)
    for path in (beside / "a.csv", beside / "both", store / "journal", tmp_path / "far.csv"):
        path.write_text("1")
    (beside / ".hidden").write_text("1")

    def read() -> None:
        for path in (beside / "a.csv", beside / "both", beside / ".hidden", store / "journal"):
            path.read_text()
        (tmp_path / "far.csv").read_bytes()
        (beside / "both").write_text("2")
        (beside / "out").write_text("2")
        os.close(os.open(os.fsencode(beside / "a.csv"), os.O_RDONLY))
        with pytest.raises(FileNotFoundError):
            (beside / "none").read_text()

    opened = Opened([beside], [store])
    assert heard(opened, read) == ({}, {"a.csv": digest_of(beside / "a.csv")})
    (beside / "out").read_text()  # outside of the block
    assert {*opened.digests()[1]} == {"a.csv"}


def test_code_that_is_imported_by_a_computed_name_is_noticed(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_plugin_of_ours.py").write_text("A = 1\n")
    code, data = heard(Opened([tmp_path], []), lambda: __import__("a_plugin" + "_of_ours"))
    assert (code, data) == ({"a_plugin_of_ours.py": digest(tmp_path, "A = 1\n")}, {})
    del sys.modules["a_plugin_of_ours"]


def test_a_folder_of_many_files_is_one_entry(tmp_path) -> None:
    (tmp_path / "photos").mkdir()
    paths = [tmp_path / "photos" / f"{number}.jpg" for number in range(MOST_FILES + 1)]
    for path in paths:
        path.write_text("1")
    _, data = heard(Opened([tmp_path], []), lambda: [path.read_text() for path in paths])
    assert data == {"photos/": digest_of(tmp_path / "photos")}
    paths[0].write_text("22")
    assert data != {"photos/": digest_of(tmp_path / "photos")}


def test_a_large_file_is_not_read_whole(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("ablate.trial.provenance.opened.WHOLE", 10)
    monkeypatch.setattr("ablate.trial.provenance.opened.PIECE", 3)
    file = tmp_path / "large"
    digests = []
    for text in ("abc...........xyz", "abd...........xyz", "abc...........xyy", "abc" * 9):
        file.write_text(text)
        os.utime(file, (1e9, 1e9))
        digests.append(digest_of(file))
    assert len({*digests}) == 4


def test_of_values_and_attempts_those_count_that_are_in_the_result() -> None:
    then = {"same": "1", "other": "1", "unknown": None, "gone": "1"}
    today = {"same": "1", "other": "2", "unknown": None}
    told = [str(change) for change in changes._values(then, today)]
    assert told == [
        "other has another value",
        "unknown cannot be compared: its value has no digest",
    ]
    cut, resumed, anew = Attempt(), Attempt(from_epoch=2), Attempt()
    assert changes._that_count([cut, resumed]) == [cut, resumed]
    assert changes._that_count([cut, resumed, anew]) == [anew]
    assert changes._that_count([]) == []


def test_what_a_process_has_read_counts_for_its_later_trials(tmp_path) -> None:
    """A table that a function keeps was once credited to the first trial alone: after an edit, the
    others were taken for today's."""
    (tmp_path / "kept.csv").write_text("1")
    (tmp_path / "loaded.txt").write_text("1")
    (tmp_path / "unread.csv").write_text("1")
    code = "from pathlib import Path\nHERE = Path(__file__).parent\n"
    (tmp_path / "mine.py").write_text(f"{code}X = (HERE / 'loaded.txt').read_text()\n")
    executed(tmp_path / "mine.py", "mine_of_this_test")
    _, first = heard(Opened([tmp_path], []), lambda: (tmp_path / "kept.csv").read_text())
    assert {*first} == {"kept.csv", "loaded.txt"}
    for name in first:
        (tmp_path / name).write_text("edited")
    later = Opened([tmp_path], [])
    assert heard(later, lambda: None) == ({}, first), "as they were when they were read"
    again = Opened([tmp_path], [])
    _, data = heard(again, lambda: (tmp_path / "kept.csv").read_text())
    assert data == {**first, "kept.csv": digest_of(tmp_path / "kept.csv")}
    paused = Opened([tmp_path], [])
    with paused.listening():
        (tmp_path / "unread.csv").read_text()
    _, beside = heard(Opened([tmp_path], []), lambda: None)
    assert beside["unread.csv"] == digest_of(tmp_path / "unread.csv"), "of a trial that goes on"
    with paused.listening():
        (tmp_path / "unread.csv").write_text("an output")
    assert "unread.csv" not in heard(Opened([tmp_path], []), lambda: None)[1]
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert heard(Opened([other], []), lambda: None) == ({}, {})
    del sys.modules["mine_of_this_test"]


@pytest.mark.parametrize(
    ("command", "code", "files"),
    [
        ("sh -c 'python3 train.py {seed} 2>&1 | tee log.txt'", {"train.py", "mine.py"}, set()),
        ("bash -c 'cd .; python -m train --seed={seed} > log.txt'", {"train.py", "mine.py"}, set()),
        ("sh run.sh {seed}", {"train.py", "mine.py"}, {"run.sh"}),
        ("sh -c 'sh run.sh {seed}'", {"train.py", "mine.py"}, {"run.sh"}),
        ("sh -c 'echo \"{seed}'", set(), set()),
    ],
)
def test_the_scripts_that_a_shell_runs_count(tmp_path, command, code, files) -> None:
    (tmp_path / "train.py").write_text("import mine\n")
    (tmp_path / "mine.py").write_text("A = 1\n")
    (tmp_path / "log.txt").write_text("what the command writes\n")
    (tmp_path / "run.sh").write_text("# one run\nexec python train.py --seed $1 # | tee log.txt\n")
    found = Found()
    named = dict(named_by(shlex.split(command), tmp_path, found))
    assert ({file.name for file in found.files}, {*named}) == (code, files)
