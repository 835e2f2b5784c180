"""A resolved trial configuration, and the flat `{"slot.field": value}` form it is made from.

Recipes, arms and samplers all speak in flat values, later ones over earlier ones:

    {"backbone": "lstm", "backbone.units": 960, "regularizer.weight_drop.rate": 0.5}

`resolve` checks every one against the registry and gives a `Config`; `Config.identity` is the
part that determines what a trial finds. A regularizer whose fields are all defaults is the
identity and leaves no trace, so that a new technique never changes an old id; one of several
fields may say by a property `off` when it is (its weight is 0, whatever formula it has).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate import fields, registry
from ablate.errors import ConfigError, unknown, wrong_value
from ablate.fields import setting
from ablate.ngram_config import NgramConfig

Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Which text, and how it is cut into tokens."""

    name: str = setting("grammar", doc="a corpus of `ablate data list`, or a folder of text files")
    level: str = setting("word", doc="what a token is", choices=("word", "character"))
    lowercase: bool = setting(False, doc="lower-case the text first (002's WikiText-2 is)")
    min_count: int = setting(1, doc="rarer training words become <unk>", low=1)
    train_tokens: int | None = setting(None, doc="only the first so many training tokens", low=100)
    eval_tokens: int | None = setting(None, doc="only the first so many of valid and test", low=100)


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """The word vectors that the backbone reads, and a tied head writes with."""

    size: int = setting(400, doc="units of a word vector", low=1)
    initial_range: float = setting(0.1, doc="word vectors start uniform in +- this", low=0)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Truncated backpropagation through time over one continuous stream."""

    epochs: int = setting(1, doc="passes over the training text", low=0)
    batch_size: int = setting(20, doc="rows the stream is cut into", low=1)
    window: int = setting(70, doc="steps of a window (BPTT)", low=1)
    batching: str = setting(
        "awd",
        doc="rows cut one after another and windows to their end, or by Zaremba's script: rows "
        "spread evenly, whole windows only",
        choices=("awd", "zaremba"),
    )
    variable_window: bool = setting(
        False, doc="AWD: lengths ~ N(window, 5), 5% of them around half; the rate follows"
    )
    max_window_excess: int | None = setting(
        None, doc="longest variable window, as steps above `window` (MoS, DOC: 40)", low=0
    )
    clip: float | None = setting(None, doc="largest global norm of the gradient", low=0)
    loss_reduction: str = setting(
        "mean",
        doc="mean over tokens (AWD), or sum over time of the mean over rows (Zaremba)",
        choices=("mean", "sum_time_mean_batch"),
    )
    only_gate: bool = setting(
        False, doc="train the gate alone; the rest is frozen and runs without dropout (000)"
    )
    accumulate: int = setting(1, doc="sub-batches whose gradients are added up", low=1)
    valid_batch_size: int = setting(10, doc="rows for validation after an epoch", low=1)
    valid_window: int = setting(200, doc="steps of a window in evaluation", low=1, identity=False)
    stop_after_worse: int | None = setting(
        None, doc="stop once validation exceeds the best of all but the last so many epochs", low=0
    )
    repeat_while_better: bool = setting(
        False, doc="then begin again from the best weights, as long as a round helps (DOC's fin)"
    )


NONE = "none"  # as the value of a listed slot: none of them
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
    """Everything that a trial is told, but for its seed and where it runs."""

    corpus: CorpusConfig
    embedding: EmbeddingConfig
    training: TrainingConfig
    slots: Mapping[str, Choice]
    listed: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    ngram: NgramConfig | None = None  # an n-gram model: then there is nothing in the slots

    def __getitem__(self, slot: str) -> Choice:
        return self.slots[slot]

    @property
    def identity(self) -> dict[str, Any]:
        """Plain data that two configs share exactly when they find the same."""
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


def resolve(values: Values, place: str = "config") -> Config:
    """The config that flat values describe, or an error that says which value is wrong."""
    grouped = _grouped(_expanded(values, place), place)
    if _is_ngram(values, place):
        corpus = fields.build(CorpusConfig, grouped.get("corpus", {}), f"{place}: corpus")
        ngram = fields.build(NgramConfig, grouped.get("ngram", {}), f"{place}: ngram")
        nothing = {"embedding": EmbeddingConfig(), "training": TrainingConfig()}
        return Config(corpus=corpus, **nothing, slots={}, ngram=ngram)
    sections = {
        name: fields.build(section, grouped.get(name, {}), f"{place}: {name}")
        for name, section in SECTIONS.items()
    }
    slots = {slot: _single(slot, grouped, values, place) for slot in SINGLE_SLOTS}
    listed = {
        slot: _listed(slot, grouped.get(slot, {}), values.get(slot), place)
        for slot in registry.LISTED_SLOTS
    }
    return Config(**sections, slots=slots, listed=listed)


def merge(base: Values, changes: Values, place: str = "changes") -> dict[str, Any]:
    """`changes` over `base`. A slot given another technique keeps the fields both have."""
    merged = _cleared(base, changes)
    for slot in SINGLE_SLOTS:
        if slot in changes and changes[slot] != base.get(slot):
            valid = {
                info.name for info in fields.describe(_config_type(slot, changes[slot], place))
            }
            for key in [k for k in merged if k.startswith(f"{slot}.")]:
                if key.split(".", 1)[1].split("[")[0] not in valid:
                    del merged[key]
    for key in changes:  # a whole list replaces its elements, and an element a whole list's
        if "[" not in key:
            merged = {k: v for k, v in merged.items() if not k.startswith(f"{key}[")}
    return {**merged, **changes}


def _cleared(base: Values, changes: Values) -> dict[str, Any]:
    """Without what the changes take away: a whole list by `"regularizer": "none"`, and all that
    is neither corpus nor n-gram by `"model": "ngram"`."""
    kept = dict(base)
    for slot in registry.LISTED_SLOTS:
        if changes.get(slot) == NONE:
            kept = {k: v for k, v in kept.items() if k.partition(".")[0] != slot}
    if changes.get("model") == "ngram":
        kept = {k: v for k, v in kept.items() if k.partition(".")[0] in ("corpus", "ngram")}
    return kept


def _config_type(slot: str, name: Any, place: str) -> type:
    return registry.get(slot, str(name), place).config


def _single(slot: str, grouped: Mapping[str, dict], values: Values, place: str) -> Choice:
    name = values.get(slot, DEFAULT_TECHNIQUES.get(slot))
    if name is None:
        raise ConfigError(
            f"{place}: no {slot} was chosen. Allowed: {', '.join(registry.names(slot))}."
        )
    technique = registry.get(slot, str(name), place)
    config = fields.build(technique.config, grouped.get(slot, {}), f"{place}: {slot} {name}")
    return Choice(slot, technique.name, config)


def _is_ngram(values: Values, place: str) -> bool:
    """What kind of model is asked for. A neural one has no n-grams, and the other way round."""
    kind = values.get("model", "neural")
    if kind not in ("neural", "ngram"):
        raise ConfigError(unknown("model", kind, ("neural", "ngram"), place))
    wrong = ("ngram",) if kind == "neural" else (*SECTIONS, *registry.SLOTS)
    for key in values:
        if key.partition(".")[0] in wrong and not key.startswith("corpus."):
            raise ConfigError(f"{place}: '{key}' has no meaning where model = '{kind}'.")
    return kind == "ngram"


def _listed(
    slot: str, given: Mapping[str, Any], first: str | None, place: str
) -> tuple[Choice, ...]:
    """The techniques of a listed slot that do something: `first`, then in alphabetical order.

    The first evaluator's numbers are the trial's; `standard` is first where none is named.
    """
    by_name: dict[str, dict[str, Any]] = {}
    if first is not None and first != NONE:
        by_name[first] = {}
    for key, value in given.items():
        name, _, field_name = key.partition(".")
        by_name.setdefault(name, {})
        if field_name:
            by_name[name][field_name] = value
    choices = []
    for name in sorted(by_name, key=lambda name: (name != first, name != "standard", name)):
        chosen = by_name[name]
        technique = registry.get(slot, name, place)
        config = fields.build(technique.config, chosen, f"{place}: {slot} {name}")
        if slot != "regularizer" or not _is_off(config):
            choices.append(Choice(slot, name, config))
    return tuple(choices)


def _is_off(config: Any) -> bool:
    """Whether a regularizer is the identity: by its own word, or at its defaults."""
    return getattr(config, "off", not fields.non_defaults(config))


def _grouped(values: Values, place: str) -> dict[str, dict[str, Any]]:
    rooms = (*SECTIONS, *registry.SLOTS, "ngram", "model")
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        room, _, rest = key.partition(".")
        if room not in rooms:
            raise ConfigError(unknown("slot or section", room, rooms, place))
        if rest:
            grouped.setdefault(room, {})[rest] = value
        elif room in registry.LISTED_SLOTS:
            _check_first(room, value, place)
        elif room not in (*SINGLE_SLOTS, "model"):
            raise ConfigError(wrong_value(room, value, f"'{room}.<field>' keys only", place))
    return grouped


def _check_first(slot: str, value: Any, place: str) -> None:
    """A listed slot alone: "none" empties it, and an evaluator's name puts that one first."""
    allowed = [NONE, *(registry.names(slot) if slot == "evaluator" else ())]
    if value not in allowed:
        raise ConfigError(unknown(slot, str(value), allowed, place))


def _expanded(values: Values, place: str) -> dict[str, Any]:
    """`units[0]`, `units[1]`, ... gathered into the list `units`."""
    whole = {key: value for key, value in values.items() if "[" not in key}
    elements: dict[str, dict[int, Any]] = {}
    for key, value in values.items():
        if "[" in key:
            match = re.fullmatch(r"([a-z0-9_.]+)\[(\d+)\]", key)
            if match is None:
                raise ConfigError(f"{place}: '{key}' is no field; elements read 'units[0]'.")
            elements.setdefault(match[1], {})[int(match[2])] = value
    for key, items in elements.items():
        start = whole.get(key, [])
        filled = dict(enumerate(start)) if isinstance(start, list | tuple) else {}
        filled |= items
        if sorted(filled) != list(range(len(filled))):
            raise ConfigError(f"{place}: {key} has elements {sorted(filled)}; they start at 0.")
        whole[key] = [filled[index] for index in range(len(filled))]
    return whole


def _prefixed(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in values.items()}
