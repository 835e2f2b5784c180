"""A resolved trial configuration, and the flat `{"slot.field": value}` form it is made from.

Recipes, arms and samplers all give flat values; later ones override earlier ones:

    {"backbone": "lstm", "backbone.units": 960, "regularizer.weight_drop.rate": 0.5}

`resolve` checks every value against the registry and returns a `Config`; `Config.identity` is the
part that determines a trial's result. A regularizer whose fields are all at their defaults is the
identity and leaves no trace, so that a new technique never changes an old id. A regularizer may
define the property `off` to decide this itself (its weight is 0, whichever formula it has).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.config import fields, registry
from ablate.config.sections import CorpusConfig, EmbeddingConfig, NgramConfig, TrainingConfig
from ablate.errors import ConfigError, unknown, wrong_value

Values = Mapping[str, Any]

NONE = "none"  # the value that empties a listed slot
SECTIONS = {"corpus": CorpusConfig, "embedding": EmbeddingConfig, "training": TrainingConfig}
SINGLE_SLOTS = tuple(slot for slot in registry.SLOTS if slot not in registry.LISTED_SLOTS)
DEFAULT_TECHNIQUES = {"bridge": "none", "gate": "none", "loss": "cross_entropy"}


@dataclass(frozen=True)
class Choice:
    """A technique chosen for a slot, with its checked config."""

    slot: str
    name: str
    config: Any

    @property
    def technique(self) -> registry.Technique:
        return registry.get(self.slot, self.name)

    @property
    def identity(self) -> dict[str, Any]:
        version = self.technique.version
        return {"name": self.name, "version": version, **fields.identity_fields(self.config)}


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of a trial except its seed and where it runs."""

    corpus: CorpusConfig
    embedding: EmbeddingConfig
    training: TrainingConfig
    slots: Mapping[str, Choice]
    listed: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    ngram: NgramConfig | None = None  # set for an n-gram model, whose slots are empty

    def __getitem__(self, slot: str) -> Choice:
        return self.slots[slot]

    @property
    def identity(self) -> dict[str, Any]:
        """Plain data that is equal for two configs exactly when their results are."""
        if self.ngram is not None:
            corpus = fields.identity_fields(self.corpus)
            return {"corpus": corpus, "ngram": fields.identity_fields(self.ngram)}
        sections = {name: fields.identity_fields(getattr(self, name)) for name in SECTIONS}
        slots = {slot: choice.identity for slot, choice in self.slots.items()}
        listed = {slot: [c.identity for c in choices] for slot, choices in self.listed.items()}
        return {**sections, **slots, **{k: v for k, v in listed.items() if v}}

    @property
    def flat(self) -> dict[str, Any]:
        """Every value, defaults included, by its dotted name."""
        if self.ngram is not None:
            corpus = _prefixed("corpus", fields.all_fields(self.corpus))
            ngram = _prefixed("ngram", fields.all_fields(self.ngram))
            return {"model": "ngram", **corpus, **ngram}
        values = {
            f"{name}.{key}": value
            for name in SECTIONS
            for key, value in fields.all_fields(getattr(self, name)).items()
        }
        for choice in self.slots.values():
            values[choice.slot] = choice.name
            values |= _prefixed(choice.slot, fields.all_fields(choice.config))
        for slot, choices in self.listed.items():
            for choice in choices:
                values |= _prefixed(f"{slot}.{choice.name}", fields.all_fields(choice.config))
        return values


def resolve(values: Values, where: str = "config") -> Config:
    """Build the config that flat values describe, or raise an error that names the wrong value."""
    grouped = _group(_collect_elements(values, where), where)
    if _is_ngram(values, where):
        corpus = fields.build(CorpusConfig, grouped.get("corpus", {}), f"{where}: corpus")
        ngram = fields.build(NgramConfig, grouped.get("ngram", {}), f"{where}: ngram")
        unused = {"embedding": EmbeddingConfig(), "training": TrainingConfig()}
        return Config(corpus=corpus, **unused, slots={}, ngram=ngram)
    sections = {
        name: fields.build(section, grouped.get(name, {}), f"{where}: {name}")
        for name, section in SECTIONS.items()
    }
    slots = {slot: _choose(slot, grouped, values, where) for slot in SINGLE_SLOTS}
    listed = {
        slot: _choose_several(slot, grouped.get(slot, {}), values.get(slot), where)
        for slot in registry.LISTED_SLOTS
    }
    return Config(**sections, slots=slots, listed=listed)


def merge(base: Values, changes: Values, where: str = "changes") -> dict[str, Any]:
    """Apply `changes` to `base`. If a slot's technique changes, fields that both have remain."""
    merged = _without_cleared(base, changes)
    for slot in SINGLE_SLOTS:
        if slot in changes and changes[slot] != base.get(slot):
            config_type = registry.get(slot, str(changes[slot]), where).config
            valid = {info.name for info in fields.describe(config_type)}
            for key in [k for k in merged if k.startswith(f"{slot}.")]:
                if key.split(".", 1)[1].split("[")[0] not in valid:
                    del merged[key]
    for key in changes:  # a whole list replaces single elements set before
        if "[" not in key:
            merged = {k: v for k, v in merged.items() if not k.startswith(f"{key}[")}
    return {**merged, **changes}


def _without_cleared(base: Values, changes: Values) -> dict[str, Any]:
    """Drop what the changes clear.

    `"regularizer": "none"` clears the whole list, and `"model": "ngram"` everything except corpus
    and n-gram settings.
    """
    remaining = dict(base)
    for slot in registry.LISTED_SLOTS:
        if changes.get(slot) == NONE:
            remaining = {k: v for k, v in remaining.items() if k.partition(".")[0] != slot}
    if changes.get("model") == "ngram":
        used = ("corpus", "ngram")
        remaining = {k: v for k, v in remaining.items() if k.partition(".")[0] in used}
    return remaining


def _choose(slot: str, grouped: Mapping[str, dict], values: Values, where: str) -> Choice:
    name = values.get(slot, DEFAULT_TECHNIQUES.get(slot))
    if name is None:
        known = ", ".join(registry.names(slot))
        raise ConfigError(f"{where}: no {slot} was chosen. Expected one of: {known}.")
    return _choice(slot, str(name), grouped.get(slot, {}), where)


def _choice(slot: str, name: str, values: Mapping[str, Any], where: str) -> Choice:
    config_type = registry.get(slot, name, where).config
    return Choice(slot, name, fields.build(config_type, values, f"{where}: {slot} {name}"))


def _is_ngram(values: Values, where: str) -> bool:
    """Return whether the model is an n-gram model; refuse values of the other kind of model."""
    kind = values.get("model", "neural")
    if kind not in ("neural", "ngram"):
        raise ConfigError(unknown("model", kind, ("neural", "ngram"), where))
    wrong = ("ngram",) if kind == "neural" else (*SECTIONS, *registry.SLOTS)
    for key in values:
        if key.partition(".")[0] in wrong and not key.startswith("corpus."):
            raise ConfigError(f"{where}: '{key}' has no meaning with model = '{kind}'.")
    return kind == "ngram"


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
    choices = [_choice(slot, name, by_name[name], where) for name in names]
    return tuple(c for c in choices if slot != "regularizer" or not _is_off(c.config))


def _missing_field(slot: str, name: str, value: Any, where: str) -> str:
    """Compose the message for a listed technique that was set to a value itself."""
    config, key = registry.get(slot, name, where).config, f"{slot}.{name}"
    names = [info.name for info in fields.describe(config)]
    expected = "a field, one of " + ", ".join(f"'{key}.{field_name}'" for field_name in names)
    if slot == "evaluator":
        expected += f", or {slot} = '{name}' for its defaults"
    match = next((n for n in names if fields.accepts(config, n, value)), None)
    hint = f" Did you mean '{key}.{match}'?" if match else ""
    return wrong_value(key, value, expected, where) + hint


def _is_off(config: Any) -> bool:
    """Return whether a regularizer is the identity: by its property `off`, or at its defaults."""
    return getattr(config, "off", not fields.non_defaults(config))


def _group(values: Values, where: str) -> dict[str, dict[str, Any]]:
    """Group values by section or slot, without that prefix."""
    prefixes = (*SECTIONS, *registry.SLOTS, "ngram", "model")
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        prefix, _, rest = key.partition(".")
        if prefix not in prefixes:
            raise ConfigError(unknown("slot or section", prefix, prefixes, where))
        if rest:
            grouped.setdefault(prefix, {})[rest] = value
        elif prefix in registry.LISTED_SLOTS:
            _check_first(prefix, value, where)
        elif prefix not in (*SINGLE_SLOTS, "model"):
            raise ConfigError(wrong_value(prefix, value, f"'{prefix}.<field>' keys", where))
    return grouped


def _check_first(slot: str, value: Any, where: str) -> None:
    """Check a listed slot's own value: "none" empties it; an evaluator's name comes first."""
    valid = [NONE, *(registry.names(slot) if slot == "evaluator" else ())]
    if value not in valid:
        raise ConfigError(unknown(slot, str(value), valid, where))


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


def _prefixed(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in values.items()}
