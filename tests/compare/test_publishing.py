"""Somebody else goes on from published results: what is there is not trained again."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from ablate import Arm, Scale, Study, table
from ablate.compare import publishing
from ablate.engine import run as engine
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.workspace import open_workspace
from tests.support.small_studies import BASE

STUDY = Study(
    question="Is it kept?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.clip": 1.0})),
    scales={"s": Scale(seeds=2)},
    runner="stand_in",
    name="kept",
)
QUIETLY = engine.RunOptions(local=True, quiet=True)


@pytest.mark.slow
def test_only_what_is_missing_is_trained(workspace, tmp_path):
    engine.run_study(STUDY, None, workspace, QUIETLY)
    (record,) = publishing.publish(workspace.store, ["kept"], tmp_path / "published")
    elsewhere = open_workspace(str(tmp_path / "elsewhere"), store=str(tmp_path / "published"))
    assert (record.folder, study_record.read(elsewhere.store, "kept").folder) == (os.getcwd(), "")
    before = journals.read_all(elsewhere.store)
    assert set(before) == set(record.trial_ids()) and len(before) == 4
    larger = replace(STUDY, scales={"s": Scale(seeds=3)})
    engine.run_study(larger, None, elsewhere, QUIETLY)
    after = journals.read_all(elsewhere.store)
    assert len(after) == 6 and before == {trial: after[trial] for trial in before}
