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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from ablate.config import typed
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
            it is not part of a trial's id.
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
    hints, limits = typed.hints_of(config_type), _limits(config_type)
    return [
        FieldInfo(f.name, typed.name_of(hints[f.name]), f.default, limits[f.name])
        for f in dataclasses.fields(config_type)
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
    limits, hint = _limits(config_type)[name], typed.hints_of(config_type)[name]
    path = f"{where}.{name}"
    try:
        return check_value(value, hint, path, limits=limits)
    except ConfigError:  # of a setting, the whole value is shown, with all that is allowed
        raise ConfigError(_refusal(path, value, hint, limits)) from None


def accepts(config_type: type, name: str, value: Any) -> bool:
    """Return whether there is a field `name`, and it may have this value."""
    if name not in _limits(config_type):
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
    where, hints = type(instance).__name__, typed.hints_of(type(instance))
    for name, limits in _limits(type(instance)).items():
        checked = check_value(getattr(instance, name), hints[name], name, error, where, limits)
        object.__setattr__(instance, name, checked)


def check_value(
    value: Any,
    hint: Any,
    name: str,
    error: type[AblateError] = ConfigError,
    where: str = "",
    limits: Limits | None = None,
) -> Any:
    """Convert `value` to the type `hint`; `error` names the innermost part of the wrong type."""
    try:
        converted = typed.reader(hint, _storable)(value)
    except typed.Wrong as wrong:
        place = name + "".join(f"[{key!r}]" for key in wrong.path)
        text = wrong_value(place, wrong.value, typed.name_of(wrong.hint), where)
        raise error(text + _beyond(wrong.value)) from None
    items = converted if isinstance(converted, tuple) else (converted,)
    if limits is not None and not all(_within(item, limits) for item in items):
        raise error(_refusal(name, value, hint, limits, where))
    return converted


def _storable(kind: Any) -> typed.Reader:
    """What reads a value of a class, if tensors, files and databases can hold the value."""
    whole = typed.instance(kind)

    def reads(value: Any) -> Any:
        read = whole(value)
        if not isinstance(read, float) and _beyond(read):
            raise typed.Wrong(value, kind)
        return read

    return reads


def non_defaults(config: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as plain data."""
    return {  # no value equals the default of a field that has none
        field.name: plain(value)
        for field in dataclasses.fields(config)
        if (value := getattr(config, field.name)) != field.default
    }


def identity_fields(config: Any, by_window: bool = False) -> dict[str, Any]:
    """Return the non-default fields that can change a trial's result, and the files' contents.

    Lengths of windows can, if the model remembers no more than a window (`by_window`).
    """
    limits = _limits(type(config)).items()
    identities = {name: by_window if own.window else own.identity for name, own in limits}
    identified = {
        name: identity(value) if callable(identity := identities[name]) else value
        for name, value in non_defaults(config).items()
        if identities[name]
    }
    named = {name: path for name, path in files(config).items() if must_exist(config, name)}
    return {**identified, **{name: digest_of_contents(path) for name, path in named.items()}}


def deciding(config: Any, by_window: bool = False) -> dict[str, Any]:
    """Return the fields that can change a trial's result, defaults included, as plain data.

    Fields whose identity is a part of their value, or what a file contains, are left out.
    """
    limits = _limits(type(config)).items()
    identities = {n: by_window if own.window else own.identity for n, own in limits if not own.file}
    return {name: plain(getattr(config, name)) for name, own in identities.items() if own is True}


def window_lengths(config: Any) -> dict[str, Any]:
    """Return the fields that are lengths of windows."""
    return {
        name: getattr(config, name) for name, own in _limits(type(config)).items() if own.window
    }


def files(config: Any) -> dict[str, str]:
    """Return the paths of the fields that name files, without those that are not set."""
    named = (name for name, own in _limits(type(config)).items() if own.file)
    return {name: value for name in named if isinstance(value := getattr(config, name), str)}


def must_exist(config: Any, name: str) -> bool:
    """Return whether the contents of the field's file are part of the id, or its own identity."""
    limits = _limits(type(config))[name]
    return limits.file and limits.identity is True


def all_fields(config: Any) -> dict[str, Any]:
    """Return every field as plain data."""
    return {f.name: plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def plain(value: Any) -> Any:
    """Convert tuples to lists, so that values survive a round trip through JSON and TOML."""
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


@cache
def _limits(config_type: type) -> dict[str, Limits]:
    """The limits of every field."""
    none = Limits(doc="")
    return {f.name: f.metadata.get("limits", none) for f in dataclasses.fields(config_type)}


def _refusal(name: str, value: Any, hint: Any, limits: Limits, where: str = "") -> str:
    """Compose the message for a wrong value, with the closest valid choice."""
    text = wrong_value(name, value, _expected(typed.name_of(hint), limits), where) + _beyond(value)
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


def _within(value: Any, limits: Limits) -> bool:
    if value is None:
        return True
    if limits.choices is not None and value not in limits.choices:
        return False
    if isinstance(value, float) and not abs(value) <= LARGEST_NUMBER:  # also neither nan nor inf
        return False
    above = limits.low is None or value >= limits.low
    return above and (limits.high is None or value <= limits.high)


def _expected(type_name: str, limits: Limits) -> str:
    if limits.choices is not None:
        return "one of " + ", ".join(repr(choice) for choice in limits.choices)
    if limits.low is not None and limits.high is not None:
        return f"{type_name} from {limits.low:g} to {limits.high:g}"
    if limits.low is not None:
        return f"{type_name}, at least {limits.low:g}"
    return type_name if limits.high is None else f"{type_name}, at most {limits.high:g}"
