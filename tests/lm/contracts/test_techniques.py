"""Beyond the contracts, every shipped technique has its own file and a complete page."""

from __future__ import annotations

import pytest

from ablate.commands.components import show_components
from ablate.config import registry
from ablate.config.fields import describe

EVERY = [(slot, name) for slot in registry.slots() for name in registry.names(slot)]


@pytest.fixture(params=EVERY, ids=[f"{slot}-{name}" for slot, name in EVERY])
def technique(request) -> registry.Technique:
    return registry.get(*request.param)


def test_it_is_one_file_named_as_it_is(technique):
    assert technique.module == f"ablate.lm.components.{technique.slot}.{technique.name}"
    assert technique.version_of(technique.config()) >= 1
    assert technique.doc
    assert getattr(technique.build, "__final__", False)


def test_a_published_one_says_where(technique):
    assert bool(technique.paper) == bool(technique.equation)
    assert all(isinstance(text, str) and text for text in technique.departures)


def test_its_page_says_all_about_it(technique):
    page = show_components(technique.slot, technique.name)
    heading = page.splitlines()[0]
    assert technique.paper in heading and technique.equation in heading
    assert technique.formula.splitlines()[0] in page
    shown = " ".join(page.split())
    for field in describe(technique.config):
        assert f" {field.name} " in shown
    assert all(" ".join(text.split()) in shown for text in technique.departures)


def test_the_list_of_a_slot_says_what_each_does(technique, monkeypatch):
    monkeypatch.setattr("ablate.compare.formats.text.terminal_width", lambda: 400)
    rows = show_components(technique.slot, None).splitlines()
    (own,) = (row for row in rows if row.startswith(f"{technique.name} "))
    assert technique.summary in own and technique.summary.endswith((".", ".)"))


def test_a_technique_is_found_by_its_name_alone():
    assert show_components("doc", None) == show_components("head", "doc")
    both = show_components("lstm", None)
    assert both.startswith("backbone lstm") and "\nencoder lstm" in both
