"""Declaring and checking the fields of a config: frozen dataclasses whose fields know their limits.

    @dataclass(frozen=True, kw_only=True)
    class WeightDropConfig:
        rate: float = setting(0.0, doc="share of recurrent weights dropped", low=0, high=1)

`build` turns plain values (from TOML, a study, a sampler) into such a dataclass or says what is
wrong with them; `non_defaults` is its inverse and what a trial's id is made from. `check` looks at
a dataclass that somebody built by hand, as the words of a study are.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ablate.errors import AblateError, ConfigError, nearest, unknown, wrong_value

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
    hints = _hints(config_type)
    return [
        FieldInfo(field.name, _type_name(hints[field.name]), field.default, _limits(field))
        for field in dataclasses.fields(config_type)
    ]


def build(config_type: type, values: Mapping[str, Any], place: str) -> Any:
    """The config that `values` describe, every one checked; the rest take their defaults."""
    hints = _hints(config_type)
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


def check(instance: Any, error: type[AblateError] = ConfigError) -> None:
    """Refuse a dataclass with a field that its annotation or its limits do not allow.

    Lists become the tuples that the annotations ask for.
    """
    hints = _hints(type(instance))
    for field in dataclasses.fields(instance):
        place, value = type(instance).__name__, getattr(instance, field.name)
        checked = check_value(value, hints[field.name], field.name, error, place, _limits(field))
        object.__setattr__(instance, field.name, checked)


def check_value(
    value: Any,
    hint: Any,
    name: str,
    error: type[AblateError] = ConfigError,
    place: str = "",
    limits: Limits | None = None,
) -> Any:
    """`value` as the type `hint`; `error` names the innermost part that is not."""
    converted = _converted(value, hint)
    if converted is REQUIRED:
        name, value, hint = _wrong_part(name, value, hint)
        raise error(wrong_value(name, value, _type_name(hint), place))
    if limits is not None and not _within(converted, limits):
        raise error(_refusal(name, value, hint, limits, place))
    return converted


def _wrong_part(name: str, value: Any, hint: Any) -> tuple[str, Any, Any]:
    """The part of a value of the wrong type that is to blame: an item, or the whole."""
    for option in _options(hint):
        for part, item, item_hint in _parts(value, option):
            if _converted(item, item_hint) is REQUIRED:
                return _wrong_part(f"{name}[{part!r}]", item, item_hint)
    return name, value, hint


def _parts(value: Any, hint: Any) -> list[tuple[Any, Any, Any]]:
    """Place, item and type of each item, of a container that is one of the type's kind."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Mapping and isinstance(value, Mapping):
        return [(key, item, arguments[1]) for key, item in value.items() if isinstance(key, str)]
    if origin in (tuple, Sequence) and isinstance(value, list | tuple):
        hints = _item_hints(arguments, len(value))
        return [(i, item, h) for i, (item, h) in enumerate(zip(value, hints, strict=False))]
    return []


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
        raise ConfigError(_refusal(place, value, hint, limits))
    items = converted if isinstance(converted, tuple) else (converted,)
    if not all(_within(item, limits) for item in items):
        raise ConfigError(_refusal(place, value, hint, limits))
    return converted


def _refusal(name: str, value: Any, hint: Any, limits: Limits, place: str = "") -> str:
    """What a field does not take, what it takes, and which choice was probably meant."""
    text = wrong_value(name, value, _allowed(_type_name(hint), limits), place)
    choices = [choice for choice in limits.choices or () if isinstance(choice, str)]
    meant = nearest(value, choices) if isinstance(value, str) else None
    return f"{text} Did you mean '{meant}'?" if meant else text


def _converted(value: Any, hint: Any) -> Any:
    """`value` as the type `hint`, or REQUIRED if it is not of that type."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = (_converted(value, option) for option in typing.get_args(hint))
        return next((option for option in options if option is not REQUIRED), REQUIRED)
    if hint is typing.Any:
        return value
    if hint is type(None):
        return None if value is None else REQUIRED
    if origin in (tuple, Sequence):
        return _converted_tuple(value, typing.get_args(hint))
    if origin is Mapping:
        return _converted_mapping(value, *typing.get_args(hint))
    if origin is Callable:
        return value if callable(value) else REQUIRED
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, bool):
        return REQUIRED
    return value if isinstance(value, hint) else REQUIRED


def _converted_tuple(value: Any, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, list | tuple):
        return REQUIRED
    hints = _item_hints(arguments, len(value))
    if len(hints) != len(value):
        return REQUIRED
    items = tuple(map(_converted, value, hints))
    return REQUIRED if any(item is REQUIRED for item in items) else items


@cache
def _hints(config_type: type) -> dict[str, Any]:
    """Annotations as types: they are text, and reading them takes most of checking a config."""
    return typing.get_type_hints(config_type)


def _item_hints(arguments: tuple[Any, ...], num: int) -> tuple[Any, ...]:
    """The types of a tuple's items: of any number of one type, or one by one."""
    any_number = len(arguments) == 1 or arguments[1] is Ellipsis
    return arguments[:1] * num if any_number else arguments


def _converted_mapping(value: Any, key_hint: Any, item_hint: Any) -> Any:
    """A mapping as it is, if all that is in it fits."""
    if not isinstance(value, Mapping):
        return REQUIRED
    parts = [_converted(key, key_hint) for key in value]
    parts += [_converted(item, item_hint) for item in value.values()]
    return REQUIRED if any(part is REQUIRED for part in parts) else value


def _within(value: Any, limits: Limits) -> bool:
    if value is None:
        return True
    if limits.choices is not None and value not in limits.choices:
        return False
    if isinstance(value, float) and not math.isfinite(value):  # no range, and no JSON, has it
        return False
    above = limits.low is None or value >= limits.low
    return above and (limits.high is None or value <= limits.high)


def _type_name(hint: Any) -> str:
    arguments = typing.get_args(hint)
    if len(_options(hint)) > 1:
        return " or ".join(_type_name(option) for option in arguments)
    if typing.get_origin(hint) in (tuple, Sequence):
        if _item_hints(arguments, 1) == arguments[:1]:
            return f"list of {_type_name(arguments[0])}"
        return f"({', '.join(map(_type_name, arguments))})"
    if typing.get_origin(hint) is Mapping:
        return f"dict of {_type_name(arguments[0])}: {_type_name(arguments[1])}"
    if typing.get_origin(hint) is Callable:
        return "function"
    names = {float: "number", int: "whole number", str: "text", bool: "true or false"}
    names |= {type(None): "none", typing.Any: "anything"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))


def _options(hint: Any) -> tuple[Any, ...]:
    """The types that a union leaves to choose from."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def _allowed(type_name: str, limits: Limits) -> str:
    if limits.choices is not None:
        return "one of " + ", ".join(repr(choice) for choice in limits.choices)
    if limits.low is not None and limits.high is not None:
        return f"{type_name} from {limits.low:g} to {limits.high:g}"
    if limits.low is not None:
        return f"{type_name}, at least {limits.low:g}"
    return type_name if limits.high is None else f"{type_name}, at most {limits.high:g}"
