"""The contracts of every technique: a frozen config of documented fields with valid defaults."""

from __future__ import annotations

import dataclasses
from typing import Any

from ablate.config.fields import REQUIRED, build, describe
from ablate.lm.testing.subject import Subject, require


def config_is_frozen(subject: Subject) -> None:
    """The config is a frozen dataclass of keyword-only fields."""
    config: Any = subject.technique.config
    require(config.__dataclass_params__.frozen, f"{config.__name__} is not frozen.")
    names = [field.name for field in dataclasses.fields(config) if not field.kw_only]
    require(not names, f"not keyword-only: {', '.join(names)}.")


def fields_are_explained(subject: Subject) -> None:
    """Every field has a doc, and limits if its type has many values."""
    for field in describe(subject.technique.config):
        require(bool(field.limits.doc), f"{field.name} has no doc. Instead: setting(doc=...).")
        if field.type in ("number", "whole number", "text"):  # a yes or no has two values anyway
            bounded = field.limits.low is not None or field.limits.choices is not None
            require(bounded, f"{field.name} takes any {field.type}. Instead: low= or choices=.")


def defaults_are_allowed(subject: Subject) -> None:
    """Every default is a value that the field allows."""
    config = subject.technique.config
    fields = {f.name: f.default for f in describe(config) if f.default is not REQUIRED}
    if len(fields) == len(describe(config)):  # `config()` needs every field to have a default
        same = build(config, fields, subject.name) == config()
        require(same, "setting the defaults changes the config.")
