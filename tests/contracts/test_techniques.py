"""What every registered technique owes, whatever its slot."""

from __future__ import annotations

import dataclasses

import pytest

from ablate import registry
from ablate.fields import REQUIRED, build, describe
from ablate.show_components import show_components

EVERY = [(slot, name) for slot in registry.SLOTS for name in registry.names(slot)]


@pytest.fixture(params=EVERY, ids=[f"{slot}-{name}" for slot, name in EVERY])
def technique(request) -> registry.Technique:
    return registry.get(*request.param)


def test_it_is_one_file_named_as_it_is(technique):
    assert technique.module == f"ablate.components.{technique.slot}.{technique.name}"
    assert technique.version >= 1
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
    told = " ".join(page.split())
    for field in describe(technique.config):
        assert f" {field.name} " in page
    assert all(" ".join(text.split()) in told for text in technique.departures)


def test_its_config_is_frozen_and_explained(technique):
    params = technique.config.__dataclass_params__
    assert params.frozen
    assert all(field.kw_only for field in dataclasses.fields(technique.config))
    for field in describe(technique.config):
        assert field.limits.doc, field.name
        if field.type in ("number", "whole number", "text"):
            bounded = field.limits.low is not None or field.limits.choices is not None
            assert bounded, f"{field.name} takes anything"


def test_its_defaults_are_allowed_values(technique):
    fields = describe(technique.config)
    given = {field.name: field.default for field in fields if field.default is not REQUIRED}
    if len(given) == len(fields):
        assert build(technique.config, given, "here") == technique.config()
