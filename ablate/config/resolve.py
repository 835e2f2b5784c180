"""Makes a `Config` of flat values, and refuses those that have no meaning.

Recipes, arms and samplers all give flat values, `{"slot.field": value}`:

    {"backbone": "lstm", "backbone.units": 960, "regularizer.weight_drop.rate": 0.5}
    {"task": "digits", "digits.learning_rate": 0.1}

Without a `task`, the kind is that which `"model"` chooses, or the one that needs no choice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.config import fields, registry
from ablate.config.config import (
    SCHEDULE,
    WORDS,
    Choice,
    Config,
    default_choice,
    own_schedule,
)
from ablate.config.contents import locate, missing
from ablate.config.tasks import NEURAL, Kind, kind_chosen_by, shipped_kinds
from ablate.errors import CombinationError, ConfigError, unknown, wrong_value

Values = Mapping[str, Any]

NEWER = WORDS, SCHEDULE  # slots
NO_TASK = f"model = '{NEURAL}'"
NONE = "none"  # the value that empties a listed slot


def kind_of(values: Values, where: str = "config") -> Kind:
    """Return the kind of task that the values describe."""
    return kind_chosen_by(values, where)


def resolve(values: Values, where: str = "config") -> Config:
    """Build the config that flat values describe, or raise an error that names the wrong value."""
    kind = kind_of(values, where)
    grouped = _group(_collect_elements(values, where), kind, where)
    sections = {
        name: fields.build(section, grouped.get(name, {}), f"{where}: {name}")
        for name, section in kind.sections.items()
    }
    if not kind.slots:
        return Config(kind=kind, sections=sections)
    single = [slot for slot in kind.slots if slot not in registry.listed_slots()]
    slots = {slot: _choose(slot, grouped, values, where) for slot in single}
    # These are newer than recorded ids, in which a default leaves no trace.
    slots = {slot: c for slot, c in slots.items() if slot not in NEWER or c != default_choice(slot)}
    if SCHEDULE in slots:
        _check_schedule(slots[SCHEDULE], slots["optimizer"], where)
    listed = {
        slot: _choose_several(slot, grouped.get(slot, {}), values.get(slot), where)
        for slot in registry.listed_slots()
        if slot in kind.slots
    }
    _check_readers(listed["evaluator"], kind, where)
    return Config(kind=kind, sections=sections, slots=slots, listed=listed)


def resolve_near(values: Values, folder: Path, where: str) -> Config:
    """`resolve`, with the files that values name found in the folder of the study, or refused.

    A field that identifies its file itself may name one that does not exist (yet).
    """
    config = resolve(values, where)
    located = {key: locate(path, folder) for key, path in config.files.items()}
    for key, path in located.items():
        part, _, name = key.rpartition(".")
        if path is None and fields.must_exist(config.parts[part], name):
            raise ConfigError(missing(config.files[key], folder, f"{where}: {key}"))
    # Resolved again, because it is absolute paths that workers, in other folders, have to read.
    found = {key: path for key, path in located.items() if path is not None}
    return resolve({**values, **found}, where) if found else config


def _choose(slot: str, grouped: Mapping[str, dict], values: Values, where: str) -> Choice:
    name = values.get(slot, registry.defaults().get(slot))
    if name is None:
        known = ", ".join(registry.names(slot))
        raise ConfigError(f"{where}: no {slot} was chosen. Expected one of: {known}.")
    return choice(slot, str(name), grouped.get(slot, {}), where)


def choice(slot: str, name: str, values: Values, where: str) -> Choice:
    """Return the technique with its config made of `values`, or raise an error for a wrong one."""
    config_type = registry.get(slot, name, where).config
    return Choice(slot, name, fields.build(config_type, values, f"{where}: {slot} {name}"))


def _choose_several(
    slot: str, values: Mapping[str, Any], first: str | None, where: str
) -> tuple[Choice, ...]:
    """Return the active techniques of a listed slot: `first`, then the others by name.

    A trial is judged by its first evaluator; `standard` is first unless another one is named.
    """
    by_name: dict[str, dict[str, Any]] = {}
    if first is not None and first != NONE:
        by_name[first] = {}
    for key, value in values.items():
        name, _, field_name = key.partition(".")
        if not field_name:
            raise ConfigError(_missing_field(slot, name, value, where))
        by_name.setdefault(name, {})[field_name] = value
    names = sorted(by_name, key=lambda name: (name != first, name != "standard", name))
    choices = [choice(slot, name, by_name[name], where) for name in names]
    # One that does nothing leaves no trace: adding a regularizer to ablate changes no old id.
    return tuple(c for c in choices if slot != "regularizer" or not _is_off(c.config))


def _missing_field(slot: str, name: str, value: Any, where: str) -> str:
    """Compose the message for a listed technique that was set to a value itself."""
    config, key = registry.get(slot, name, where).config, f"{slot}.{name}"
    names = [info.name for info in fields.describe(config)]
    expected = _fields_of(slot, name)
    if slot == "evaluator":
        expected += f", or {slot} = '{name}' for its defaults"
    match = next((n for n in names if fields.accepts(config, n, value)), None)
    hint = f" Did you mean '{key}.{match}'?" if match else ""
    return wrong_value(key, value, expected, where) + hint


def _fields_of(slot: str, name: str) -> str:
    names = [info.name for info in fields.describe(registry.get(slot, name).config)]
    return "a field, one of " + ", ".join(f"'{slot}.{name}.{each}'" for each in names)


def _is_off(config: Any) -> bool:
    """Return whether a regularizer is the identity: by its property `off`, or at its defaults."""
    return getattr(config, "off", not fields.non_defaults(config))


def _check_schedule(schedule: Choice, chosen: Choice, where: str) -> None:
    """Refuse a schedule beside an optimizer whose own fields are another."""
    if own_schedule(chosen) is None or schedule.name == registry.defaults()[SCHEDULE]:
        return
    optimizer = chosen.config
    both = [name for name in ("schedule", "decay") if name in fields.non_defaults(optimizer)]
    theirs = ", ".join(f"optimizer.{name} = {getattr(optimizer, name)!r}" for name in both)
    defaults = ", ".join(f"optimizer.{name} = {getattr(type(optimizer), name)!r}" for name in both)
    raise CombinationError(
        f"{where}: schedule = '{schedule.name}' and {theirs} both change the learning rate. "
        f"Instead: set {defaults}, or no schedule."
    )


def _check_readers(evaluators: Sequence[Choice], kind: Kind, where: str) -> None:
    """Refuse an evaluator that cannot read what such trials read."""
    for choice in evaluators:
        if not can_read(choice.name, kind):
            able = [name for name in registry.names("evaluator") if can_read(name, kind)]
            raise CombinationError(
                f"{where}: evaluator '{choice.name}' does not read {kind.reading}, as the task "
                f"'{kind.name}' does. Instead: {', '.join(able)}."
            )


def can_read(evaluator: str, kind: Kind) -> bool:
    """Return whether the evaluator of this name reads what trials of this kind read."""
    return kind.reads in registry.get("evaluator", evaluator).build.reads


def _collect_elements(values: Values, where: str) -> dict[str, Any]:
    """Collect `units[0]`, `units[1]`, ... into the list `units`."""
    whole = {key: value for key, value in values.items() if "[" not in key}
    elements: dict[str, dict[int, Any]] = {}
    for key, value in values.items():
        if "[" in key:
            match = re.fullmatch(r"([a-z0-9_.]+)\[(\d+)\]", key)
            if match is None:
                raise ConfigError(f"{where}: '{key}' is not a field. Elements read 'units[0]'.")
            elements.setdefault(match[1], {})[int(match[2])] = value
    for key, items in elements.items():
        # A search of `units[1]` alone leaves the other elements as the arm has them.
        start = whole.get(key, [])
        filled = dict(enumerate(start)) if isinstance(start, list | tuple) else {}
        filled |= items
        if sorted(filled) != list(range(len(filled))):
            raise ConfigError(
                f"{where}: {key} has elements {sorted(filled)}. Indices must start at 0, without "
                "gaps."
            )
        whole[key] = [filled[index] for index in range(len(filled))]
    return whole


def _group(values: Values, kind: Kind, where: str) -> dict[str, dict[str, Any]]:
    """Group values by section or slot, without that prefix; refuse those of another kind."""
    prefixes = (*kind.sections, *kind.slots)
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        prefix, _, rest = key.partition(".")
        if key in ("task", "model"):
            continue
        if prefix not in prefixes:
            raise ConfigError(_wrong_prefix(key, prefix, prefixes, kind, where))
        if rest:
            grouped.setdefault(prefix, {})[rest] = value
        elif prefix in registry.listed_slots():
            _check_first(prefix, value, where)
        elif prefix not in registry.single_slots():
            raise ConfigError(wrong_value(prefix, value, f"'{prefix}.<field>' keys", where))
    return grouped


def _wrong_prefix(key: str, prefix: str, prefixes: Sequence[str], kind: Kind, where: str) -> str:
    """Compose the message for a value that this kind of task does not have."""
    others = {section for other in shipped_kinds() for section in other.sections}
    if prefix in {*others, *registry.slots()}:
        of = " and ".join(f"{key} = '{value}'" for key, value in kind.choosing.items())
        return f"{where}: '{key}' has no meaning with {of or NO_TASK}."
    return unknown("slot or section", prefix, (*prefixes, "model", "task"), where)


def _check_first(slot: str, value: Any, where: str) -> None:
    """Check a listed slot's own value: "none" empties it; an evaluator's name comes first."""
    names = registry.names(slot)
    if value != NONE and value not in names:
        raise ConfigError(unknown(slot, str(value), [NONE, *names], where))
    if value != NONE and slot == "regularizer":
        expected = f"{_fields_of(slot, value)}, which switches it on beside others, or '{NONE}'"
        raise ConfigError(wrong_value(slot, value, expected, where))
