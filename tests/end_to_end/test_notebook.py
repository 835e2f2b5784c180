"""A notebook in a real kernel: what its cells show, and cells that are executed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.store import journal as journals
from ablate.store.store import Store
from tests.end_to_end.test_code_files import SCALED, STUDY, TASK, WORDS

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

RUN = "summary = ablate.run(study, local=True)\nsummary"


def journals_in(folder: Path) -> dict[str, journals.Journal]:
    return journals.read_all(Store(str(folder / ".ablate" / "store")))


def test_what_cells_show_and_what_they_reuse(cell, tmp_path) -> None:
    head = "import warnings; warnings.simplefilter('error', UserWarning)"
    for code in (head, WORDS, "FACTOR = 2.0", SCALED, TASK, STUDY):
        assert not cell(code).error
    reply = cell(RUN)
    assert (reply.printed, reply.error, reply.text) == ("", "", "")
    *progress, table = reply.shown
    assert "study@s: Does it arrive?" in progress[0]["text/html"]
    assert "<progress" in progress[0]["text/html"]
    assert "study@s: 2 of 2 trials done" in progress[-1]["text/html"]
    assert "<progress" not in progress[-1]["text/html"]
    assert "<td>a</td>" in table["text/html"] and "<style>" in table["text/html"]
    assert "Does it arrive?" in table["text/html"] and "<html" not in table["text/html"]
    assert table["text/plain"].startswith("study@s: Does it arrive?\n")
    known = journals_in(tmp_path)
    assert len(known) == 2
    files = [Path(file).name for journal in known.values() for file in journal.trial.modules]
    assert {*files} == {"notebook.pickle"}

    # The same code, or the same with other comments: nothing is trained again.
    for code in (TASK, f"{TASK.rstrip()}  # so far", RUN):
        assert not cell(code).error
    assert journals_in(tmp_path).keys() == known.keys()

    # What a task uses is a part of its code.
    cell("FACTOR = 3.0")
    (reply,) = [cell(f"{RUN}.arm('a').cells['test'].mean")]
    assert reply.shown[-1]["text/plain"] == "3.0" and not reply.error
    assert len(journals_in(tmp_path)) == 4
    cell("FACTOR = 2.0")
    assert cell(RUN).error == "" and len(journals_in(tmp_path)) == 4

    says = "print('about to'); warnings.warn('careful'); logging.error('wrong')"
    cell("import logging")
    cell(TASK.replace("return", f"{says}; raise ValueError(run.seed);"))
    reply = cell(RUN.replace("local=True", "workers=1"))  # a worker has what the cells defined
    assert (reply.printed, reply.error) == ("", "TrialError")
    assert "2 of 2 trials failed" in reply.text and "ValueError: 1" in reply.text
    assert "Its last output:\n    about to" in reply.text
    assert "careful" in reply.text and "wrong" in reply.text
    assert "--log\nThe same call tries failed trials again; run(..., check=False)" in reply.text
    assert "failed" in cell(RUN.replace("True)", "True, check=False)")).text  # a warning is raised
    figure = cell(f"{TASK}\n{RUN}.plot()").shown[-1]
    assert "application/vnd.plotly.v1+json" in figure
