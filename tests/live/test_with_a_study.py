"""`ablate study --ui`: the page is a child that lives as long as the study runs."""

from __future__ import annotations

import re

import pytest

from ablate.commands.study import _page
from tests.support.live_pages import KEY, eventually, text_at

LATER = "later@laptop"


@pytest.mark.slow
@pytest.mark.cluster
def test_the_page_is_there_while_the_study_runs_and_not_after(place, capsys):
    with _page(place.workspace, LATER):
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/study/\S+", capsys.readouterr().out)
        eventually(lambda: f"{LATER} is being planned" in text_at(address), seconds=60)
        assert f"<title>{KEY} " in text_at(address.replace(LATER, KEY))
        assert text_at(address.partition("?")[0]) == ""  # without its token
        log = (place.workspace.folder / "ui.log").read_text()
        assert address.partition("token=")[2] not in log
    assert text_at(address) == ""
