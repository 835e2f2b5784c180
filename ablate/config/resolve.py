"""A resolved trial configuration, and the flat `{"slot.field": value}` form it is made from.

Recipes, arms and samplers all give flat values; later ones override earlier ones:

    {"backbone": "lstm", "backbone.units": 960, "regularizer.weight_drop.rate": 0.5}
    {"task": "digits", "digits.learning_rate": 0.1}

Without a `task` the trial is of a language model, or of an n-gram model by `"model": "ngram"`.

`resolve` checks every value against the registry and returns a `Config`; `Config.identity` is the
part that determines a trial's result. A regularizer whose fields are all at their defaults is the
identity and leaves no trace, so that a new technique never changes an old id. A regularizer may
define the property `off` to decide this itself (its weight is 0, whichever formula it has).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ablate.config import fields, registry
from ablate.config.contents import locate, missing
from ablate.config.metrics import Metric
from ablate.config.registry import WINDOW
from ablate.config.sections import (
    CorpusConfig,
    DataConfig,
    EmbeddingConfig,
    PairsConfig,
    PairTrainingConfig,
    TrainingConfig,
)
from ablate.config.tasks import COUNTS, DATA, LANGUAGE, NGRAM, PAIRS, TEXT, Kind, find_kind
from ablate.errors import CombinationError, ConfigError, unknown, wrong_value

Values = Mapping[str, Any]

VERSION, CONTENTS, COUNTS_TOO = "version", "contents", "counts"  # ends of names in `Config.beside`
READ = {TEXT: "a text", PAIRS: "pairs of sentences", COUNTS: "counts"}  # by `Kind.reads`
NEWER = WORDS, SCHEDULE = "words", "schedule"  # slots
NONE = "none"  # the value that empties a listed slot
SECTIONS = LANGUAGE.sections
SINGLE_SLOTS = tuple(slot for slot in registry.SLOTS if slot not in registry.LISTED_SLOTS)
DEFAULT_TECHNIQUES = {
    "words": "table",
    "bridge": "none",
    "gate": "none",
    "loss": "cross_entropy",
    "schedule": "constant",
    "encoder": "lstm",
    "attention": "luong",
}


@dataclass(frozen=True)
class Choice:
    """A technique chosen for a slot, with its checked config."""

    slot: str
    name: str
    config: Any

    @property
    def technique(self) -> registry.Technique:
        """The technique that is registered under the name."""
        return registry.get(self.slot, self.name)

    def make(self, *shapes: Any) -> Any:
        """Create the technique's object, from the config and what its slot is built over."""
        return self.technique.build(self.config, *shapes)

    def identity(self, by_window: bool) -> dict[str, Any]:
        """The choice's part of a trial's id: name, version, and values."""
        values = fields.identity_fields(self.config, by_window)
        return {"name": self.name, "version": self.technique.version, **values}


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of a trial except its seed and where it runs."""

    kind: Kind
    sections: Mapping[str, Any]
    slots: Mapping[str, Choice] = field(default_factory=dict)  # of a language model
    listed: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)

    def __getitem__(self, slot: str) -> Choice:
        return self.slots[slot]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What such trials are judged by, the most important first; then what others of their
        evaluators report."""
        own = self.kind.metrics_at(getattr(self.data, "level", ""))
        chosen = self.listed.get("evaluator", ())
        others = (c for c in chosen if c.name != self.first_evaluator)
        return (*own, *(m for choice in others for m in _metrics_beside(choice, own[0])))

    @property
    def first_evaluator(self) -> str:
        """The evaluator that gives the trial's own numbers: the first that evaluates every token,
        or `standard` if none does."""
        chosen = self.listed.get("evaluator", ())
        return next((c.name for c in chosen if c.technique.build.gives_log_probs), "standard")

    @property
    def num_epochs(self) -> int | None:
        """The epochs that a trial is planned to have, if a setting says so."""
        section = self.sections.get("training" if self.kind.assembles else self.kind.name)
        epochs = getattr(section, "epochs", None)
        return epochs if isinstance(epochs, int) and epochs > 0 else None

    @property
    def data(self) -> DataConfig | None:
        """The section on what trials read; a task of your own may have none."""
        return self.sections.get(DATA)

    @property
    def corpus(self) -> CorpusConfig | PairsConfig:
        """The section on the text or the pairs that a language model reads."""
        return self.sections[DATA]

    @property
    def embedding(self) -> EmbeddingConfig:
        """The section on word vectors."""
        return self.sections["embedding"]

    @property
    def words(self) -> Choice:
        """What makes the word vectors: a table, if there is none in `slots`."""
        return self.slots.get(WORDS) or _default(WORDS)

    @property
    def schedule(self) -> Choice:
        """The schedule of the learning rate: that in `slots`, or what the optimizer's own fields
        say, which older recipes and records set. A constant one gives these its warm-up."""
        chosen, own = self.slots.get(SCHEDULE, _default(SCHEDULE)), _own_schedule(self["optimizer"])
        if own is None:
            return chosen
        return replace(own, config=replace(own.config, warmup=chosen.config.warmup))

    @property
    def training(self) -> TrainingConfig | PairTrainingConfig:
        """The section on training."""
        return self.sections["training"]

    @property
    def by_window(self) -> bool:
        """Whether results depend on the windows that a text is evaluated in."""
        if not self.kind.assembles:
            return False
        backbone = self["backbone"]
        technique: Any = backbone.technique.build
        return technique.memory_of(backbone.config) == WINDOW

    @property
    def techniques(self) -> list[registry.Technique]:
        """The techniques that it chooses."""
        listed = (choice for choices in self.listed.values() for choice in choices)
        return [choice.technique for choice in (*self.slots.values(), *listed)]

    @property
    def identity(self) -> dict[str, Any]:
        """Plain data that is equal for two configs exactly when their results are."""
        by = self.by_window
        sections = {name: fields.identity_fields(own, by) for name, own in self.sections.items()}
        slots = {slot: choice.identity(by) for slot, choice in self.slots.items()}
        listed = {slot: [c.identity(by) for c in choices] for slot, choices in self.listed.items()}
        parts = {**sections, **slots, **{k: v for k, v in listed.items() if v}}
        if self.kind in (LANGUAGE, NGRAM):  # the sections tell these apart
            return parts
        return {"task": {"name": self.kind.name, "version": self.kind.version}, **parts}

    @property
    def parts(self) -> dict[str, Any]:
        """The config of every section and technique, by the beginning of its fields' names."""
        chosen = {choice.slot: choice.config for choice in self.slots.values()}
        for slot, choices in self.listed.items():
            chosen |= {f"{slot}.{choice.name}": choice.config for choice in choices}
        return {**self.sections, **chosen}

    @property
    def files(self) -> dict[str, str]:
        """The files and folders that its values name, by field."""
        parts = self.parts.items()
        return {
            k: v for name, part in parts for k, v in _prefixed(name, fields.files(part)).items()
        }

    @property
    def beside(self) -> dict[str, Any]:
        """What a trial records in addition to its values: raised versions, digests of files, and
        lengths of windows that its result depends on.

        Names have a space, as no value's has: `task version`, `head version`, `digits.words
        contents`, `training.valid_window counts`.
        """
        chosen = {choice.slot: choice for choice in self.slots.values()}
        chosen |= {f"{slot}.{c.name}": c for slot, several in self.listed.items() for c in several}
        versions = {name: choice.technique.version for name, choice in chosen.items()}
        versions["task"] = self.kind.version
        raised = {f"{name} {VERSION}": number for name, number in versions.items() if number != 1}
        contents = {f"{key} {CONTENTS}": self._contents(key) for key in self.files}
        return raised | contents | (self._windows if self.by_window else {})

    @property
    def _windows(self) -> dict[str, int]:
        """The lengths of windows, under names that are compared where the fields' own are not."""
        return {
            f"{part}.{name} {COUNTS_TOO}": length
            for part, config in self.parts.items()
            for name, length in fields.window_lengths(config).items()
        }

    def _contents(self, key: str) -> str:
        part, _, name = key.rpartition(".")
        return str(fields.identity_fields(self.parts[part]).get(name, ""))[:16]

    @property
    def neutral(self) -> list[str]:
        """The fields of a task's own config that cannot change a result."""
        if self.kind.function is None:
            return []  # those of language models are known without a record
        return [
            f"{section}.{info.name}"
            for section, config in self.kind.sections.items()
            for info in fields.describe(config)
            if not info.limits.identity
        ]

    @property
    def flat(self) -> dict[str, Any]:
        """Every value, defaults included, by its dotted name."""
        values = dict(_CHOSEN_BY.get(self.kind.name, {"task": self.kind.name}))
        for name, section in self.sections.items():
            values |= _prefixed(name, fields.all_fields(section))
        for choice in self.slots.values():
            values[choice.slot] = choice.name
            values |= _prefixed(choice.slot, fields.all_fields(choice.config))
        for slot, choices in self.listed.items():
            for choice in choices:
                values |= _prefixed(f"{slot}.{choice.name}", fields.all_fields(choice.config))
        return values


def _metrics_beside(choice: Choice, own: Metric) -> Iterator[Metric]:
    """Yield the metrics of an evaluator that is not the trial's first. One that evaluates text
    reports the trial's `own` metric once more, under its own name."""
    technique = choice.technique
    if technique.build.gives_log_probs:
        yield replace(own, shown=f"{own.shown}, {choice.name}").by(choice.name)
    for metric in technique.metrics:
        same = metric.name == own.name
        of_text = replace(own, of=metric.of, shown=f"{metric.of} {own.shown}") if same else metric
        yield of_text.by(choice.name)


# The values that choose a kind of task, where it is not `task = <its name>`.
_CHOSEN_BY = {LANGUAGE.name: {}, NGRAM.name: {"model": "ngram"}}


def kind_of(values: Values, where: str = "config") -> Kind:
    """Return the kind of task that the values describe."""
    model = values.get("model", "neural")
    if model not in ("neural", "ngram"):
        raise ConfigError(unknown("model", model, ("neural", "ngram"), where))
    default = NGRAM.name if model == "ngram" else LANGUAGE.name
    return find_kind(str(values.get("task", default)), where)


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
    single = [slot for slot in kind.slots if slot not in registry.LISTED_SLOTS]
    slots = {slot: _choose(slot, grouped, values, where) for slot in single}
    # These are newer than recorded ids, in which a default leaves no trace.
    slots = {slot: c for slot, c in slots.items() if slot not in NEWER or c != _default(slot)}
    if SCHEDULE in slots:
        _check_schedule(slots[SCHEDULE], slots["optimizer"], where)
    listed = {
        slot: _choose_several(slot, grouped.get(slot, {}), values.get(slot), where)
        for slot in registry.LISTED_SLOTS
        if slot in kind.slots
    }
    _check_readers(listed["evaluator"], kind, where)
    return Config(kind=kind, sections=sections, slots=slots, listed=listed)


def _default(slot: str) -> Choice:
    name = DEFAULT_TECHNIQUES[slot]
    return Choice(slot, name, registry.get(slot, name).config())


def _own_schedule(optimizer: Choice) -> Choice | None:
    """The schedule that an optimizer's own fields describe, if they describe any."""
    own = getattr(optimizer.config, "own_schedule", None)
    if own is None:
        return None
    name, values = own
    return Choice(SCHEDULE, name, registry.get(SCHEDULE, name).config(**values))


def _check_schedule(schedule: Choice, chosen: Choice, where: str) -> None:
    """Refuse a schedule beside an optimizer whose own fields are another."""
    if _own_schedule(chosen) is None or schedule.name == DEFAULT_TECHNIQUES[SCHEDULE]:
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
        if not _can_read(choice.name, kind):
            able = [name for name in registry.names("evaluator") if _can_read(name, kind)]
            raise CombinationError(
                f"{where}: evaluator '{choice.name}' does not read {READ[kind.reads]}, as the task "
                f"'{kind.name}' does. Instead: {', '.join(able)}."
            )


def _can_read(evaluator: str, kind: Kind) -> bool:
    return kind.reads in registry.get("evaluator", evaluator).build.reads


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
    found = {key: path for key, path in located.items() if path is not None}
    return resolve({**values, **found}, where) if found else config


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

    `"regularizer": "none"` clears the whole list; another kind of task clears what it has not.
    """
    remaining = dict(base)
    for slot in registry.LISTED_SLOTS:
        if changes.get(slot) == NONE:
            remaining = {k: v for k, v in remaining.items() if k.partition(".")[0] != slot}
    if "model" in changes or "task" in changes:
        kind = kind_of({**base, **changes})
        used = (*kind.sections, *kind.slots)
        remaining = {k: v for k, v in remaining.items() if k.partition(".")[0] in used}
        if "evaluator" in used:
            remaining = {k: v for k, v in remaining.items() if _is_readable(k, v, kind)}
    return remaining


def _is_readable(key: str, value: Any, kind: Kind) -> bool:
    """Return whether a value is of an evaluator that such trials can have, or of none at all."""
    slot, _, rest = key.partition(".")
    name = rest.partition(".")[0] or str(value)
    return slot != "evaluator" or name not in registry.names(slot) or _can_read(name, kind)


def _choose(slot: str, grouped: Mapping[str, dict], values: Values, where: str) -> Choice:
    name = values.get(slot, DEFAULT_TECHNIQUES.get(slot))
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
        elif prefix in registry.LISTED_SLOTS:
            _check_first(prefix, value, where)
        elif prefix not in SINGLE_SLOTS:
            raise ConfigError(wrong_value(prefix, value, f"'{prefix}.<field>' keys", where))
    return grouped


def _wrong_prefix(key: str, prefix: str, prefixes: Sequence[str], kind: Kind, where: str) -> str:
    """Compose the message for a value that this kind of task does not have."""
    if prefix in {*SECTIONS, *NGRAM.sections, *registry.SLOTS}:
        model = {LANGUAGE.name: "model = 'neural'", NGRAM.name: "model = 'ngram'"}
        of = model.get(kind.name, f"task = '{kind.name}'")
        return f"{where}: '{key}' has no meaning with {of}."
    return unknown("slot or section", prefix, (*prefixes, "model", "task"), where)


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
