"""Declaring and checking the fields of a config: frozen dataclasses whose fields know their limits.

    @dataclass(frozen=True, kw_only=True)
    class WeightDropConfig:
        rate: float = setting(0.0, doc="share of recurrent weights dropped", low=0, high=1)

`build` turns plain values (from TOML, a study, a sampler) into such a dataclass or says what is
wrong with them; `non_defaults` is its inverse and what a trial's id is made from.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ablate.errors import ConfigError, unknown, wrong_value

REQUIRED = dataclasses.MISSING


@dataclass(frozen=True)
class Limits:
    """What a field is for and which values it takes."""

    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] | None = None
    identity: bool = True  # False: a field that cannot change what a trial finds


def setting(
    default: Any = REQUIRED,
    *,
    doc: str,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[Any, ...] | None = None,
    identity: bool = True,
) -> Any:
    """A dataclass field with its documentation and limits."""
    limits = Limits(doc, low, high, choices, identity)
    return dataclasses.field(default=default, metadata={"limits": limits})


@dataclass(frozen=True)
class FieldInfo:
    """A field as it is shown to a user."""

    name: str
    type: str
    default: Any
    limits: Limits

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def allowed(self) -> str:
        return _allowed(self.type, self.limits)


def describe(config_type: type) -> list[FieldInfo]:
    """Every field of a config, in the order of its definition."""
    hints = typing.get_type_hints(config_type)
    return [
        FieldInfo(field.name, _type_name(hints[field.name]), field.default, _limits(field))
        for field in dataclasses.fields(config_type)
    ]


def build(config_type: type, values: Mapping[str, Any], place: str) -> Any:
    """The config that `values` describe, every one checked; the rest take their defaults."""
    hints = typing.get_type_hints(config_type)
    fields = {field.name: field for field in dataclasses.fields(config_type)}
    for name in values:
        if name not in fields:
            raise ConfigError(unknown("field", name, fields, place))
    missing = [n for n, f in fields.items() if f.default is REQUIRED and n not in values]
    if missing:
        raise ConfigError(f"{place}: the field '{missing[0]}' is required and was not given.")
    checked = {
        name: _checked(value, hints[name], _limits(fields[name]), f"{place}.{name}")
        for name, value in values.items()
    }
    return config_type(**checked)


def non_defaults(config: Any) -> dict[str, Any]:
    """The fields that differ from their defaults, as plain data, by name."""
    changed = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.default is REQUIRED or value != field.default:
            changed[field.name] = plain(value)
    return changed


def identity_fields(config: Any) -> dict[str, Any]:
    """The non-default fields that can change what a trial finds."""
    free = {f.name for f in dataclasses.fields(config) if not _limits(f).identity}
    return {name: value for name, value in non_defaults(config).items() if name not in free}


def all_fields(config: Any) -> dict[str, Any]:
    """Every field as plain data, by name."""
    return {f.name: plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def plain(value: Any) -> Any:
    """Tuples as lists, so that JSON and TOML give back what they were given."""
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def _limits(field: dataclasses.Field) -> Limits:
    return field.metadata.get("limits", Limits(doc=""))


def _checked(value: Any, hint: Any, limits: Limits, place: str) -> Any:
    converted = _converted(value, hint)
    if converted is REQUIRED:
        raise ConfigError(wrong_value(place, value, _allowed(_type_name(hint), limits)))
    items = converted if isinstance(converted, tuple) else (converted,)
    if not all(_within(item, limits) for item in items):
        raise ConfigError(wrong_value(place, value, _allowed(_type_name(hint), limits)))
    return converted


def _converted(value: Any, hint: Any) -> Any:
    """`value` as the type `hint`, or REQUIRED if it is not of that type."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = (_converted(value, option) for option in typing.get_args(hint))
        return next((option for option in options if option is not REQUIRED), REQUIRED)
    if hint is type(None):
        return None if value is None else REQUIRED
    if origin is tuple:
        return _converted_tuple(value, typing.get_args(hint)[0])
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, bool):
        return REQUIRED
    return value if isinstance(value, hint) else REQUIRED


def _converted_tuple(value: Any, item_hint: Any) -> Any:
    if not isinstance(value, list | tuple):
        return REQUIRED
    items = tuple(_converted(item, item_hint) for item in value)
    return REQUIRED if any(item is REQUIRED for item in items) else items


def _within(value: Any, limits: Limits) -> bool:
    if value is None:
        return True
    if limits.choices is not None and value not in limits.choices:
        return False
    if isinstance(value, float) and value != value:  # NaN is in no range
        return False
    above = limits.low is None or value >= limits.low
    return above and (limits.high is None or value <= limits.high)


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_type_name(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"list of {_type_name(typing.get_args(hint)[0])}"
    names = {float: "number", int: "whole number", str: "text", bool: "true or false"}
    return "none" if hint is type(None) else names.get(hint, getattr(hint, "__name__", str(hint)))


def _allowed(type_name: str, limits: Limits) -> str:
    if limits.choices is not None:
        return "one of " + ", ".join(repr(choice) for choice in limits.choices)
    if limits.low is not None and limits.high is not None:
        return f"{type_name} from {limits.low:g} to {limits.high:g}"
    if limits.low is not None:
        return f"{type_name}, at least {limits.low:g}"
    return type_name if limits.high is None else f"{type_name}, at most {limits.high:g}"
