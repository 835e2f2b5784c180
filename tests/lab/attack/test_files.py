"""A short slice of the attack on files; what an error advises about a damaged file works."""

from __future__ import annotations

import random
import shutil

import pytest

from ablate.commands.doctor import places
from ablate.commands.doctor.finding import FAIL, OK
from tests.lab.attack.files import KINDS, attack, zero_last_quarter
from tests.lab.attack.workspace import KEY, Pristine, ablate, build, results, runs_by_trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # minutes on a busy machine
SEED, TRIES = 17, 1  # of each kind


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Pristine:
    return build(tmp_path_factory.mktemp("attack"))


def test_damaged_files_give_the_right_result_or_a_clear_error(made):
    tallies = attack(SEED, TRIES, made)
    assert {tally.kind: tally.tried for tally in tallies} == {f"files: {k}": TRIES for k in KINDS}
    assert [example for tally in tallies for example in tally.examples] == []


STORE = "store/trials/{trial}"
ADVICE = {  # a damaged file -> a command that reads it, what to delete
    f"{STORE}/journal.json": (("table", KEY), STORE),
    f"{STORE}/weights.safetensors": (("analyze", "rank", "{trial}"), STORE),
    f"{STORE}/tokens/valid.arrow": (("tokens", "{trial}", "{other}"), STORE),
    "store/studies/asked@s/study.json": (("status", KEY), "store/studies/asked@s/study.json"),
}
FILE = {  # the same, where the damaged file itself is to be deleted and another command helps
    f"{STORE}/readings.json": (("tokens", "{trial}", "{other}", "--split", "test"), "status"),
    "store/studies/asked@s/results/state.json": (("sync",), "study"),
    "store/studies/asked@s/results/files/table.txt": (("sync",), "study"),
    "store/tables/{table}.json": (("provenance", "{table}"), "table"),
}


@pytest.mark.parametrize("file", [*ADVICE, *FILE])
def test_what_is_advised_about_a_damaged_file_works(made, file):
    trial, other = made.finals
    names = {"trial": trial, "other": other, "table": made.table}
    helping = {
        "study": ("study", made.study, "--local"),
        "status": ("status", KEY),
        "table": ("table", KEY, "--format", "latex"),
    }
    words, more = ADVICE.get(file) or FILE[file]
    command = (*(word.format(**names) for word in words), "--workspace", str(made.work))
    remedy = (*helping["study" if file in ADVICE else more], "--workspace", str(made.work))
    made.restore("finished")
    path = made.work / file.format(**names)
    path.write_bytes(zero_last_quarter(path.read_bytes(), random.Random(1), []))
    said = ablate(*command)
    assert said.status == 4 and "Delete the f" in said.error, said
    deleted = made.work / more.format(**names) if file in ADVICE else path
    if deleted.is_dir():
        assert f"Delete the folder trials/{trial} " in said.error
        shutil.rmtree(deleted)
    else:
        deleted.unlink()
    assert ablate(*remedy).status == 0
    assert ablate(*command).status == 0
    assert results(made.workspace.store) == made.results


def test_what_doctor_advises_about_damaged_records_works(made):
    made.restore("finished")
    file = made.work / "mlflow.db"
    file.write_bytes(b"no line of it is as it was\n" * 50)
    (finding,) = places.mlflow(made.workspace)
    assert finding.state == FAIL and "Move it away" in finding.remedy
    file.rename(file.with_suffix(".away"))
    assert ablate("sync", "--workspace", str(made.work)).status == 0
    assert [finding.state for finding in places.mlflow(made.workspace)] == [OK]
    assert results(made.workspace.store) == made.results
    assert runs_by_trial(file) == made.runs
