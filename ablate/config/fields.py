"""Declaring and checking the fields of a config: frozen dataclasses whose fields know their limits.

    @dataclass(frozen=True, kw_only=True)
    class WeightDropConfig:
        rate: float = setting(0.0, doc="share of recurrent weights dropped", low=0, high=1)

`build` turns plain values (from TOML, a study, a sampler) into such a dataclass, or raises an error
that says what is wrong with them. `non_defaults` is its inverse, and the basis of a trial's id.
`check` validates a dataclass that was built directly, as those of a study file are.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from ablate.config.contents import digest_of_contents
from ablate.errors import AblateError, ConfigError, nearest, unknown, wrong_value

REQUIRED = dataclasses.MISSING
LARGEST = 2**63 - 1  # whole numbers beyond it fit in no tensor, Parquet file or database
LARGEST_NUMBER = (2 - 2**-23) * 2.0**127  # of float32, in which models compute


@dataclass(frozen=True)
class Limits:
    """A field's documentation and the values that it accepts."""

    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] | None = None
    # Part of a trial's id? False: the field cannot change a result. A function: it maps the value
    # as written to the part that can.
    identity: bool | Callable[[Any], Any] = True
    file: bool = False  # the path of a file or folder, whose contents are part of the id
    # A length of windows: part of the id only if the backbone remembers no more than its window.
    window: bool = False


def setting(
    default: Any = REQUIRED,
    *,
    doc: str,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[Any, ...] | None = None,
    identity: bool | Callable[[Any], Any] = True,
    file: bool = False,
    window: bool = False,
) -> Any:
    """Declare a setting of a task or a technique: a field of its config, a frozen dataclass.

    Args:
        default: The value of an arm that does not set the field. Without it, every arm must.
        doc: What the setting is, for messages and pages.
        low: The smallest value that is allowed.
        high: The largest value that is allowed.
        choices: The values that are allowed, if only some are.
        identity: `False` for a setting that cannot change a result, such as a number of threads:
            it is no part of a trial's id.
        file: The setting is the path of a file or folder, relative to the study's file. Its
            contents are part of a trial's id, and its place is not.
        window: The setting is the length of windows that a text is evaluated in: it changes the
            result of a backbone whose `memory` is a window, and of no other.
    """
    limits = Limits(doc, low, high, choices, False if window else identity, file, window)
    return dataclasses.field(default=default, metadata={"limits": limits})


limited = partial(setting, doc="")  # for classes whose docstring says what each field means


@dataclass(frozen=True)
class FieldInfo:
    """A field as it is shown to a user."""

    name: str
    type: str
    default: Any
    limits: Limits

    @property
    def required(self) -> bool:
        """Return whether the field has no default."""
        return self.default is REQUIRED

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        return _expected(self.type, self.limits)


def describe(config_type: type) -> list[FieldInfo]:
    """Return every field of a config, in the order of its definition."""
    hints = _hints(config_type)
    return [
        FieldInfo(field.name, _type_name(hints[field.name]), field.default, _limits(field))
        for field in dataclasses.fields(config_type)
    ]


def build(config_type: type, values: Mapping[str, Any], where: str) -> Any:
    """Build a config from `values`, checking each; other fields take their defaults."""
    fields = {field.name: field for field in dataclasses.fields(config_type)}
    for name in values:
        if name not in fields:
            raise ConfigError(unknown("field", name, fields, where))
    missing = [n for n, f in fields.items() if f.default is REQUIRED and n not in values]
    if missing:
        raise ConfigError(f"{where}: the field '{missing[0]}' is required and was not given.")
    return config_type(**{n: check_field(config_type, n, v, where) for n, v in values.items()})


def check_field(config_type: type, name: str, value: Any, where: str) -> Any:
    """Return a value converted to the type of the field `name`, and checked against its limits."""
    limits = next(_limits(field) for field in dataclasses.fields(config_type) if field.name == name)
    hint, path = _hints(config_type)[name], f"{where}.{name}"
    converted = _convert(value, hint)
    items = converted if isinstance(converted, tuple) else (converted,)
    if converted is REQUIRED or not all(_within(item, limits) for item in items):
        raise ConfigError(_refusal(path, value, hint, limits))
    return converted


def accepts(config_type: type, name: str, value: Any) -> bool:
    """Return whether there is a field `name`, and it may have this value."""
    if name not in {field.name for field in dataclasses.fields(config_type)}:
        return False
    try:
        check_field(config_type, name, value, "")
    except ConfigError:
        return False
    return True


def check(instance: Any, error: type[AblateError] = ConfigError) -> None:
    """Check every field of a dataclass against its annotation and limits.

    Lists are converted to tuples where the annotation is a tuple.
    """
    hints = _hints(type(instance))
    for field in dataclasses.fields(instance):
        where, value = type(instance).__name__, getattr(instance, field.name)
        checked = check_value(value, hints[field.name], field.name, error, where, _limits(field))
        object.__setattr__(instance, field.name, checked)


def check_value(
    value: Any,
    hint: Any,
    name: str,
    error: type[AblateError] = ConfigError,
    where: str = "",
    limits: Limits | None = None,
) -> Any:
    """Convert `value` to the type `hint`; `error` names the innermost part of the wrong type."""
    converted = _convert(value, hint)
    if converted is REQUIRED:
        name, value, hint = _wrong_part(name, value, hint)
        raise error(wrong_value(name, value, _type_name(hint), where) + _beyond(value))
    if limits is not None and not _within(converted, limits):
        raise error(_refusal(name, value, hint, limits, where))
    return converted


def _wrong_part(name: str, value: Any, hint: Any) -> tuple[str, Any, Any]:
    """Return the innermost part of a value that has the wrong type, or the whole value."""
    for option in _options(hint):
        for key, item, item_hint in _items(value, option):
            if _convert(item, item_hint) is REQUIRED:
                return _wrong_part(f"{name}[{key!r}]", item, item_hint)
    return name, value, hint


def _items(value: Any, hint: Any) -> list[tuple[Any, Any, Any]]:
    """Return key, item and expected type for each item of a container."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Mapping and isinstance(value, Mapping):
        return [(key, item, arguments[1]) for key, item in value.items() if isinstance(key, str)]
    if origin in (tuple, Sequence) and isinstance(value, list | tuple):
        hints = _item_hints(arguments, len(value))
        return [(i, item, h) for i, (item, h) in enumerate(zip(value, hints, strict=False))]
    return []


def non_defaults(config: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as plain data."""
    changed = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.default is REQUIRED or value != field.default:
            changed[field.name] = plain(value)
    return changed


def identity_fields(config: Any, by_window: bool = False) -> dict[str, Any]:
    """Return the non-default fields that can change a trial's result, and the files' contents.

    Lengths of windows can, if the model remembers no more than a window (`by_window`).
    """
    limits = {f.name: _limits(f) for f in dataclasses.fields(config)}
    identities = {n: by_window if own.window else own.identity for n, own in limits.items()}
    identified = {
        name: identity(value) if callable(identity := identities[name]) else value
        for name, value in non_defaults(config).items()
        if identities[name]
    }
    return {**identified, **contents(config)}


def window_lengths(config: Any) -> dict[str, Any]:
    """Return the fields that are lengths of windows."""
    named = (field.name for field in dataclasses.fields(config) if _limits(field).window)
    return {name: getattr(config, name) for name in named}


def files(config: Any) -> dict[str, str]:
    """Return the paths of the fields that name files, without those that are not set."""
    named = (field.name for field in dataclasses.fields(config) if _limits(field).file)
    return {name: value for name in named if isinstance(value := getattr(config, name), str)}


def contents(config: Any) -> dict[str, str]:
    """Return the digest of each such file, unless its field defines its own identity."""
    return {
        name: digest_of_contents(path)
        for name, path in files(config).items()
        if must_exist(config, name)
    }


def must_exist(config: Any, name: str) -> bool:
    """Return whether the file of this field is part of the id."""
    limits = next(_limits(f) for f in dataclasses.fields(config) if f.name == name)
    return limits.file and limits.identity is True


def all_fields(config: Any) -> dict[str, Any]:
    """Return every field as plain data."""
    return {f.name: plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def plain(value: Any) -> Any:
    """Convert tuples to lists, so that values survive a round trip through JSON and TOML."""
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def _limits(field: dataclasses.Field) -> Limits:
    return field.metadata.get("limits", Limits(doc=""))


def _refusal(name: str, value: Any, hint: Any, limits: Limits, where: str = "") -> str:
    """Compose the message for a wrong value, with the closest valid choice."""
    text = wrong_value(name, value, _expected(_type_name(hint), limits), where) + _beyond(value)
    choices = [choice for choice in limits.choices or () if isinstance(choice, str)]
    match = nearest(value, choices) if isinstance(value, str) else None
    return f"{text} Did you mean '{match}'?" if match else text


def _beyond(value: Any) -> str:
    """The limit that any number or text has, if the value exceeds it."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return f" No whole number may be larger than 2**63 - 1 = {LARGEST}."
    if isinstance(value, float) and abs(value) > LARGEST_NUMBER:
        return f" No number may be larger than {LARGEST_NUMBER:.2g}, the largest of float32."
    if isinstance(value, str) and not is_text(value):
        return " Text must be valid UTF-8, without zero bytes."
    return ""


def is_text(value: str) -> bool:
    """Return whether files and databases can hold the text.

    What Python reads from file names and arguments that are not UTF-8 has lone surrogates.
    """
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def _convert(value: Any, hint: Any) -> Any:
    """Convert `value` to the type `hint`; return REQUIRED if it is not of that type."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = (_convert(value, option) for option in typing.get_args(hint))
        return next((option for option in options if option is not REQUIRED), REQUIRED)
    if hint is typing.Any:
        return value
    if hint is type(None):
        return None if value is None else REQUIRED
    if origin in (tuple, Sequence):
        return _convert_tuple(value, typing.get_args(hint))
    if origin is Mapping:
        return _check_mapping(value, *typing.get_args(hint))
    if origin is Callable:
        return value if callable(value) else REQUIRED
    if isinstance(value, int) and hint in (int, float):
        return REQUIRED if isinstance(value, bool) else _convert_whole(value, hint)
    if isinstance(value, str) and not is_text(value):
        return REQUIRED
    return value if isinstance(value, hint) else REQUIRED


def _convert_whole(value: int, hint: type[int] | type[float]) -> Any:
    if hint is int:
        return value if abs(value) <= LARGEST else REQUIRED
    try:
        return float(value)
    except OverflowError:
        return REQUIRED


def _convert_tuple(value: Any, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, list | tuple):
        return REQUIRED
    hints = _item_hints(arguments, len(value))
    if len(hints) != len(value):
        return REQUIRED
    items = tuple(map(_convert, value, hints))
    return REQUIRED if any(item is REQUIRED for item in items) else items


@cache
def _hints(config_type: type) -> dict[str, Any]:
    """Return annotations as types. Cached: parsing their text dominates the cost of a check."""
    return typing.get_type_hints(config_type)


def _item_hints(arguments: tuple[Any, ...], num: int) -> tuple[Any, ...]:
    """Return the types of a tuple's items: `num` times one type, or a type for each."""
    any_number = len(arguments) == 1 or arguments[1] is Ellipsis
    return arguments[:1] * num if any_number else arguments


def _check_mapping(value: Any, key_hint: Any, item_hint: Any) -> Any:
    """Return the mapping unchanged if all its keys and items have the right types."""
    if not isinstance(value, Mapping):
        return REQUIRED
    parts = [_convert(key, key_hint) for key in value]
    parts += [_convert(item, item_hint) for item in value.values()]
    return REQUIRED if any(part is REQUIRED for part in parts) else value


def _within(value: Any, limits: Limits) -> bool:
    if value is None:
        return True
    if limits.choices is not None and value not in limits.choices:
        return False
    if isinstance(value, float) and not abs(value) <= LARGEST_NUMBER:  # also neither nan nor inf
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
    """Return the alternatives of a union, or the type itself."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def _expected(type_name: str, limits: Limits) -> str:
    if limits.choices is not None:
        return "one of " + ", ".join(repr(choice) for choice in limits.choices)
    if limits.low is not None and limits.high is not None:
        return f"{type_name} from {limits.low:g} to {limits.high:g}"
    if limits.low is not None:
        return f"{type_name}, at least {limits.low:g}"
    return type_name if limits.high is None else f"{type_name}, at most {limits.high:g}"
