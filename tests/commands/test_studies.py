"""Shipped studies: listed, described, copied; `tests/test_wheel.py` runs one from a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.cli import main
from ablate.study.file import load, shipped
from tests.support import places


@pytest.fixture
def studies(capsys):
    def command(*arguments: str) -> tuple[int, str]:
        status = main(["studies", *arguments])
        out, err = capsys.readouterr()
        return status, out + err

    return command


def test_every_study_is_listed_with_its_question_and_paper(studies):
    status, index = studies()
    assert status == 0
    assert shipped().keys() == {file.stem for file in places.STUDIES.glob("*.py")}
    rows = [line.split(maxsplit=2) for line in index.splitlines()]
    assert all(any(row[:1] == [name] for row in rows) for name in shipped())
    question = "From which layers should the mixture's distributions come?"
    assert ["doc_layer_mix", "takase2018doc", question] in rows


def test_one_is_described_by_its_docstring_and_its_commands(studies):
    _, page = studies("doc_rank")
    assert page.startswith("DOC's Table 5: the rank of the matrix of log-probabilities.")
    assert "ablate study doc_rank\n" in page


def test_one_is_copied_alone_and_is_the_same_study(studies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, printed = studies("doc_rank", "--copy", ".")
    assert status == 0 and "ablate study doc_rank.py" in printed
    assert list(tmp_path.iterdir()) == [tmp_path / "doc_rank.py"]
    copy, ours = load("doc_rank.py"), load("doc_rank")
    assert (copy.name, copy.design, copy.base) == (ours.name, ours.design, ours.base)
    assert Path(ours.file) == places.STUDIES / "doc_rank.py"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("doc_rnk",), "Did you mean 'doc_rank'?"),
        (("--copy", "."), "--copy needs a study's name"),
        (("doc_rank", "--copy", "no/such/folder"), "No such file or directory"),
    ],
)
def test_what_cannot_be(studies, arguments, expected):
    status, printed = studies(*arguments)
    assert status in (2, 4) and expected in printed


def test_a_file_is_preferred_to_a_shipped_study_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (places.STUDIES / "doc_rank.py").read_text()
    Path("doc_rank.py").write_text(text.replace('question="', 'question="Mine: '))
    assert load("doc_rank.py").question.startswith("Mine")
    assert not load("doc_rank").question.startswith("Mine")
