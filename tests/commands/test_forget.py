"""`ablate forget`: what only one study has is deleted, and everything else stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate import Scale, run
from ablate.cli import main
from ablate.errors import HeldError
from ablate.record import forget as forgetting
from ablate.record.server import Server
from ablate.store import study_record
from ablate.store.workspace import held
from ablate.study.overrides import Overrides, overridden
from tests.study.test_overrides import STUDY as LARGER
from tests.support.claiming import other_process

pytestmark = pytest.mark.usefixtures("without_pages")

ARMS = replace(LARGER.design, arms=LARGER.design.arms[:2])
STUDY = replace(LARGER, design=ARMS, scales={"s": Scale(seeds=3)})


@pytest.fixture
def both(workspace):
    """A study, and its first seed as another."""
    options = {"workspace": str(workspace.folder), "local": True}
    run(STUDY, "s", **options)
    fewer, scale = overridden(STUDY, "s", Overrides(seeds=1))
    run(replace(fewer, name="fewer"), scale, **options)
    return workspace


def runs(workspace):
    tracking = Server(workspace.tracking_uri, workspace.artifacts)
    client = tracking.client
    ids = [each.experiment_id for each in client.search_experiments()]
    return {one.data.tags["mlflow.runName"] for one in client.search_runs(ids, max_results=999)}


def test_it_says_first_what_it_deletes(both, capsys):
    place = ["--workspace", str(both.folder)]
    assert main(["forget", "q@s", *place]) == 0
    said = capsys.readouterr().out
    assert "Nothing has been deleted yet" in said
    assert "4 trials, with checkpoints and weights (2 more stay: other studies have them)" in said
    assert f"Do it: ablate forget q@s --yes --workspace {both.folder}" in said
    assert len(both.store.names("trials")) == 6


@pytest.mark.slow
def test_trials_of_other_studies_stay_with_their_runs(both, capsys):
    (other,) = [key for key in study_record.names(both.store) if key != "q@s"]
    before = runs(both)
    assert main(["forget", "q@s", "--yes", "--workspace", str(both.folder)]) == 0
    said = capsys.readouterr().out
    assert "q@s: deleted, with 4 trials" in said and "5 runs marked as deleted" in said
    record = study_record.read(both.store, other)
    assert sorted(both.store.names("trials")) == sorted(record.trial_ids())
    assert study_record.names(both.store) == [other]
    assert not both.study_folder("q@s").exists()
    assert len(before) - len(runs(both)) == 5
    for command in (["status"], ["table", other], ["sync"], ["query", "SELECT * FROM trials"]):
        assert main([*command, "--workspace", str(both.folder)]) == 0
    run(STUDY, "s", workspace=str(both.folder), local=True)  # and all of it comes back
    assert runs(both) == before


def test_what_another_process_runs_now_stays(both, monkeypatch):
    with monkeypatch.context() as locked, held(both, "q@s"):
        locked.setattr("ablate.store.locks.lock", lambda *args, **options: False)
        with pytest.raises(HeldError):
            forgetting.forget(both, "q@s")
    assert len(both.store.names("trials")) == 6
    found = forgetting.foresee(both, "q@s")
    with other_process(both.store, found.trials[0]):
        assert forgetting.forget(both, "q@s").running == found.trials[:1]
    assert found.trials[0] in both.store.names("trials")
