"""One type for each column of configs, whose values are recorded as text.

The fields of a config's sections (`corpus.name`) have the types that their classes declare. Fields
of techniques and of users' tasks have the types that their values look like: their classes are in
files that import torch, or that are not here, and a reader imports neither.

A column of integers has an integer type, a column of integers and floats a float type; a column
that mixes numbers with lists or names (`head.experts`: 15, or [15, 5, 0, 0]) stays text.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ablate.config.tasks import find_kind
from ablate.results.facts import NUMBER, TEXT, TRUTH, WHOLE
from ablate.store.numbers import without_nan

SHIPPED = ("language", "encoder_decoder", "ngram")
TYPES = {bool: TRUTH, int: WHOLE, float: NUMBER, str: TEXT, type(None): None}
ENCODED = json.JSONEncoder(allow_nan=False).encode
LARGEST_WHOLE = 2**63 - 1  # of DuckDB's BIGINT
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|nan|[+-]?inf")


@cache
def declared() -> Mapping[str, str | None]:
    """Field -> its type, of the sections of the kinds of tasks that come with the package."""
    types: dict[str, str | None] = {}
    for section, config in (s for name in SHIPPED for s in find_kind(name).sections.items()):
        for field, hint in typing.get_type_hints(config).items():
            name = f"{section}.{field}"
            for option in typing.get_args(hint) or (hint,):
                types[name] = common_kind(types.get(name), TYPES.get(option, TEXT))
    return types


def kind_of(texts: Iterable[str]) -> str | None:
    """The type of a column with these texts; None if all are empty."""
    kind = None
    for text in set(texts):
        kind = common_kind(kind, _kind(text))
    return kind


def common_kind(one: str | None, other: str | None) -> str | None:
    """The type that can hold the values of both."""
    if one is None or other is None or one == other:
        return one or other
    return NUMBER if {one, other} == {WHOLE, NUMBER} else TEXT


def _kind(text: str) -> str | None:
    """The type of a value that was recorded as this text; None for no value."""
    if text in ("None", "True", "False"):
        return None if text == "None" else TRUTH
    if _WHOLE.fullmatch(text) and abs(int(text)) <= LARGEST_WHOLE:
        return WHOLE
    return NUMBER if _NUMBER.fullmatch(text) else TEXT


def line(row: dict[str, Any]) -> str:
    """A row as a line of JSON. NaN and infinity become text, which DuckDB reads as numbers."""
    try:
        return ENCODED(row)
    except ValueError:  # looking for NaN in a million rows takes longer than a second try for few
        return ENCODED(without_nan(row))
