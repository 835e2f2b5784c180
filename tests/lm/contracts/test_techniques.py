"""Beyond the contracts, every shipped technique has its own file and a complete page."""

from __future__ import annotations

from ablate.commands.components import show_components
from ablate.config import registry
from ablate.config.fields import describe

EVERY = [registry.get(slot, name) for slot in registry.slots() for name in registry.names(slot)]


def test_each_is_one_file_named_as_it_is():
    for technique in EVERY:
        own = f"ablate.lm.components.{technique.slot}.{technique.name}"
        assert technique.module == own
        assert technique.version_of(technique.config()) >= 1, own
        assert technique.doc and getattr(technique.build, "__final__", False), own


def test_a_published_one_says_where():
    for technique in EVERY:
        assert bool(technique.paper) == bool(technique.equation), technique.module
        assert all(isinstance(text, str) and text for text in technique.departures)


def test_its_page_says_all_about_it():
    for technique in EVERY:
        page = show_components(technique.slot, technique.name)
        heading, shown = page.splitlines()[0], " ".join(page.split())
        assert technique.paper in heading and technique.equation in heading
        assert technique.formula.splitlines()[0] in page
        assert all(f" {field.name} " in shown for field in describe(technique.config)), heading
        assert all(" ".join(text.split()) in shown for text in technique.departures), heading


def test_the_list_of_a_slot_says_what_each_does(monkeypatch):
    monkeypatch.setattr("ablate.compare.formats.text.terminal_width", lambda: 400)
    lists = {slot: show_components(slot, None).splitlines() for slot in registry.slots()}
    for technique in EVERY:
        (own,) = (row for row in lists[technique.slot] if row.startswith(f"{technique.name} "))
        assert technique.summary in own and technique.summary.endswith((".", ".)"))


def test_a_technique_is_found_by_its_name_alone():
    assert show_components("doc", None) == show_components("head", "doc")
    both = show_components("lstm", None)
    assert both.startswith("backbone lstm") and "\nencoder lstm" in both
