"""`ablate study --ui`: the page is a child that lives as long as the study runs."""

from __future__ import annotations

import re
import urllib.request

import pytest

from ablate.commands.study import _page
from tests.support.live_pages import KEY, eventually


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.cluster
def test_the_page_is_there_while_the_study_runs_and_not_after(place, capsys):
    with _page(place.workspace):
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", capsys.readouterr().out)
        eventually(lambda: answers(f"{address}study/{KEY}"), seconds=60)
    assert not answers(address)
