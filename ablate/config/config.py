"""A resolved trial configuration: the techniques and settings of a trial, and what they determine.

`Config.identity` is the part that determines a trial's result. A regularizer whose fields are all
at their defaults is the identity and leaves no trace, so that a new technique never changes an old
id. A regularizer may define the property `off` to decide this itself (its weight is 0, whichever
formula it has).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablate.config import fields, registry
from ablate.config.data_source import DataConfig
from ablate.config.metrics import Metric
from ablate.config.registry import WINDOW
from ablate.config.tasks import DATA, Kind

VERSION, CONTENTS, COUNTS_TOO = "version", "contents", "counts"  # ends of names in `Config.extras`
WORDS, SCHEDULE = "words", "schedule"  # slots


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
        revision = {"revision": self.technique.revision} if self.technique.revision else {}
        return {"name": self.name, "version": self.version, **revision, **values}

    @property
    def version(self) -> int:
        """The technique's version."""
        return self.technique.version_of(self.config)


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
        own = self.kind.metrics_of(self.data)
        chosen = self.listed.get("evaluator", ())
        others = (c for c in chosen if c.name != self.first_evaluator)
        return (*own, *(m for choice in others for m in _metrics_beside(choice, own)))

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
    def corpus(self) -> Any:
        """The section on the text or the pairs that a language model reads."""
        return self.sections[DATA]

    @property
    def embedding(self) -> Any:
        """The section on word vectors."""
        return self.sections["embedding"]

    @property
    def words(self) -> Choice:
        """What makes the word vectors: a table, if there is none in `slots`."""
        return self.slots.get(WORDS) or default_choice(WORDS)

    @property
    def schedule(self) -> Choice:
        """The schedule of the learning rate: that in `slots`, or what the optimizer's own fields
        say, which older recipes and records set. A constant one gives these its warm-up."""
        chosen = self.slots.get(SCHEDULE) or default_choice(SCHEDULE)
        own = own_schedule(self["optimizer"])
        if own is None:
            return chosen
        return replace(own, config=replace(own.config, warmup=chosen.config.warmup))

    @property
    def training(self) -> Any:
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
    def choices(self) -> dict[str, Choice]:
        """The chosen techniques, by the beginning of their fields' names."""
        listed = ((f"{slot}.{c.name}", c) for slot, chosen in self.listed.items() for c in chosen)
        return {**self.slots, **dict(listed)}

    @property
    def techniques(self) -> list[registry.Technique]:
        """The techniques that it chooses."""
        return [choice.technique for choice in self.choices.values()]

    @property
    def identity(self) -> dict[str, Any]:
        """Plain data that is equal for two configs exactly when their results are."""
        by = self.by_window
        sections = {name: fields.identity_fields(own, by) for name, own in self.sections.items()}
        slots = {slot: choice.identity(by) for slot, choice in self.slots.items()}
        listed = {slot: [c.identity(by) for c in choices] for slot, choices in self.listed.items()}
        parts = {**sections, **slots, **{k: v for k, v in listed.items() if v}}
        if self.kind.chosen_by is not None:  # the sections tell these apart
            return parts
        task = {"name": self.kind.name, "version": self.kind.version}
        revision = {"revision": self.kind.revision} if self.kind.revision else {}
        return {"task": {**task, **revision}, **parts}

    @property
    def parts(self) -> dict[str, Any]:
        """The config of every section and technique, by the beginning of its fields' names."""
        return {**self.sections, **{name: c.config for name, c in self.choices.items()}}

    @property
    def files(self) -> dict[str, str]:
        """The files and folders that its values name, by field."""
        parts = self.parts.items()
        return {
            k: v for name, part in parts for k, v in _prefixed(name, fields.files(part)).items()
        }

    @property
    def extras(self) -> dict[str, Any]:
        """What a trial records in addition to its values: raised versions, digests of files, and
        lengths of windows that its result depends on.

        Names have a space, as no value's has: `task version`, `head version`, `digits.words
        contents`, `training.valid_window counts`.
        """
        versions = {name: choice.version for name, choice in self.choices.items()}
        versions["task"] = self.kind.version
        raised: dict[str, Any] = {
            f"{name} {VERSION}": number for name, number in versions.items() if number != 1
        }
        owners = {name: choice.technique for name, choice in self.choices.items()}
        for name, owner in {**owners, "task": self.kind}.items():
            if owner.revision:
                raised[f"{name} {VERSION}"] = f"{versions[name]}+{owner.revision}"
        contents = {f"{key} {CONTENTS}": self._contents(key) for key in self.files}
        return raised | contents | (self._windows if self.by_window else {})

    @property
    def _windows(self) -> dict[str, int]:
        """The lengths of windows, under names that are compared where the fields' own are not."""
        return {
            f"{part}.{name} {COUNTS_TOO}": length
            for part, config in self.parts.items()
            for name, length in fields.window_lengths(config).items()
            if length is not None
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
    def deciding(self) -> dict[str, Any]:
        """The values of `flat` that can change a result."""
        by = self.by_window
        parts = (_prefixed(n, fields.deciding(part, by)) for n, part in self.parts.items())
        return {name: value for part in parts for name, value in part.items()}

    @property
    def flat(self) -> dict[str, Any]:
        """Every value, defaults included, by its dotted name."""
        values: dict[str, Any] = dict(self.kind.choosing)
        for name, part in self.parts.items():
            if name in self.slots:
                values[name] = self.slots[name].name
            values |= _prefixed(name, fields.all_fields(part))
        return values


def _metrics_beside(choice: Choice, own: Sequence[Metric]) -> Iterator[Metric]:
    """Yield the metrics of an evaluator that is not the trial's first. One that evaluates text
    reports the trial's `own` metrics once more, under its own name."""
    technique = choice.technique
    if technique.build.gives_log_probs:
        yield from (replace(m, shown=f"{m.shown}, {choice.name}").by(choice.name) for m in own)
    for metric in technique.metrics:
        of_text = any(metric.name == each.name for each in own)
        again = (replace(m, of=metric.of, shown=f"{metric.of} {m.shown}") for m in own)
        yield from (m.by(choice.name) for m in (again if of_text else (metric,)))


def default_choice(slot: str) -> Choice:
    """The technique that a slot has if no value chooses one."""
    name = registry.defaults()[slot]
    return Choice(slot, name, registry.get(slot, name).config())


def own_schedule(optimizer: Choice) -> Choice | None:
    """The schedule that an optimizer's own fields describe, if they describe any."""
    own = getattr(optimizer.config, "own_schedule", None)
    if own is None:
        return None
    name, values = own
    return Choice(SCHEDULE, name, registry.get(SCHEDULE, name).config(**values))


def _prefixed(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in values.items()}
