"""The kinds of trials: those of plug-ins, and every task that a study registers.

    @task("digits", config=DigitsConfig, metrics=(Metric("accuracy", better="higher"),))
    def train(run): ...

A trial's id hashes the name of what runs it, never the path of the code, so that files may move.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from ablate.config import fields, registry
from ablate.config.data_source import DataConfig
from ablate.config.metrics import BITS_PER_BYTE, SPLIT, Metric
from ablate.config.plugins import plugins
from ablate.config.registry import revision_of
from ablate.errors import ConfigError, unknown, wrong_value

TRAINING, EVALUATION, COUNTING, FUNCTION = "training", "evaluation", "counting", "function"
RUNNERS = {  # and those of plug-ins
    FUNCTION: "ablate.trial.user.function:Function",
    "stand_in": "ablate.trial.stand_in:StandIn",
    "noise": "ablate.trial.stand_in:Noise",
    "slow": "ablate.trial.stand_in:Slow",
}
# Ids, journals and records of format 1 contain these import paths instead of names.
_PATHS = {
    TRAINING: "ablate.train.loop:Training",
    EVALUATION: "ablate.train.evaluation:Evaluation",
    COUNTING: "ablate.train.counting:Counting",
    "stand_in": "ablate.train.stand_in:StandIn",
    "noise": "ablate.train.stand_in:Noise",
    "slow": "ablate.train.stand_in:Slow",
}
_NAMES = {path: name for name, path in _PATHS.items()}


NEURAL = "neural"  # the value of `model` that older configs have for a language model
DATA = "corpus"  # the section that says what trials read, of every kind that has one
ONE_EPOCH = {"training.epochs": 1}  # of a kind that assembles a model

MAIN = "__main__"  # what Python calls a script that it runs, and the cells of a notebook


class Facts(Protocol):
    """What the platform asks of a kind of task whose models are assembled from techniques.

    A module with these functions, which a kind names. They may import torch.
    """

    def count_parameters(self, config: Any, *vocabulary: int) -> int:
        """Count the parameters of the model that a config describes."""
        ...

    def training_tokens(self, config: Any, num_train: int) -> int:
        """Count the training tokens of all epochs, of a text with `num_train`."""
        ...

    def operations(
        self, config: Any, vocabulary: int, source_vocabulary: int = 0, sentence: int = 0
    ) -> float:
        """Estimate the operations of a training token; `sentence` is the mean length of one."""
        ...

    def check_stated(self, config: Any, stated: Collection[str]) -> None:
        """Refuse fields that an arm states, and that would do nothing in its model."""
        ...

    def values_of_data(self, name: str, folder: str) -> dict[str, Any]:
        """Return the values, besides the name, with which a config reads the data of a name."""
        ...

    def check_text(self, config: Any, folder: str, seed: int = 0) -> None:
        """Refuse, before anything trains, data that the config's evaluators cannot read."""
        ...


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of trial: what its config consists of, what runs it, and what judges it."""

    name: str
    sections: Mapping[str, type]  # config sections by name
    runner: str
    metrics: tuple[Metric, ...]  # the first one judges, unless a study names another
    by_level: Mapping[str, tuple[Metric, ...]] = field(default_factory=dict)  # of some texts
    slots: tuple[str, ...] = ()  # of the registry, in which it has techniques
    reads: str = ""  # what its evaluators have to read, if it has slots ...
    reading: str = ""  # ... as a sentence says it
    chosen_by: Mapping[str, str] | None = None  # the values that choose it; None: its name as task
    facts: str = ""  # the module of its `Facts`, if it assembles a model
    why_not: Mapping[str, str] = field(default_factory=dict)  # why trials may lack a metric
    version: int = 1  # part of trials' ids, if not 1
    # Of code that is sent by value: its digests, and those of all that it uses, by name.
    values: Mapping[str, str | None] = field(default_factory=dict)
    brief: Mapping[str, Any] = field(default_factory=dict)  # changes that make a trial brief
    function: Callable[..., Any] | None = field(default=None, compare=False)
    where: tuple[str, int] = ("", 0)  # file and line that register it
    module: str = ""  # the module or the script whose statement registers it ...
    caller: str = ""  # ... and the module that calls `task`, if that statement calls its function

    @property
    def file(self) -> str:
        """The file that registers it."""
        return self.where[0]

    @property
    def place(self) -> str:
        """Where it was registered; registering it there again replaces it."""
        return MAIN if self.caller == MAIN else self.where[0]

    @property
    def revision(self) -> str:
        """The digest of all values that the task uses; empty if an import finds its code."""
        return revision_of(self.values)

    def metrics_of(self, data: Any) -> tuple[Metric, ...]:
        """Return what judges trials that read these data. A text that is changed before it is read
        has no bits per byte."""
        own = self.by_level.get(getattr(data, "level", ""), self.metrics)
        as_written = getattr(data, "as_written", True)
        return own if as_written else tuple(m for m in own if m is not BITS_PER_BYTE)

    @property
    def assembles(self) -> bool:
        """Return whether its model is assembled from techniques, and has parameters."""
        return "backbone" in self.slots

    @property
    def asked(self) -> Facts:
        """What answers for models of this kind."""
        module: Any = importlib.import_module(self.facts)
        return module

    @property
    def choosing(self) -> Mapping[str, str]:
        """The values that choose this kind."""
        return {"task": self.name} if self.chosen_by is None else self.chosen_by


_kinds: dict[str, Kind] = {}


def task(
    name: str,
    *,
    config: type,
    metrics: Metric | Sequence[Metric],
    corpus: type[DataConfig] | None = None,
    version: int = 1,
    where: tuple[str, int] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as a task, which a study names as `{"task": name}`.

    The function gets a `Run`, yields its metrics after each epoch, and returns the last ones.

    Args:
        name: What studies call the task, in snake_case.
        config: A frozen dataclass of `setting`s. A study sets them as `"<name>.<field>"`.
        metrics: What the function reports: one `Metric` or several. The first one decides, unless
            the study names another.
        corpus: A `DataConfig` that says what trials read. A study sets its fields as
            `"corpus.<field>"`, and the data's digest is part of trials' ids.
        version: Raise it when an edit of the function changes what is computed: trials of an
            earlier version are not reused.
        where: A file and a line to name in errors, instead of the function's.
    """
    listed = _listed(metrics)
    _check_task(name, config, listed, version)
    _check_corpus(name, corpus)

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        modules = _calling_modules()
        made = Kind(
            name=name,
            sections={name: config, **({DATA: corpus} if corpus else {})},
            runner=FUNCTION,
            metrics=listed,
            version=version,
            brief={f"{name}.epochs": 1} if fields.accepts(config, "epochs", 1) else {},
            function=function,
            where=_resolved(where or _location(function)),
            module=next((name for name, at_top in modules if at_top), function.__module__),
            caller=modules[0][0],
        )
        known = _known().get(name)
        if known is not None and made.place not in (known.place, known.where[0]):
            raise ConfigError(_taken(made, known))
        _kinds[name] = made
        return function

    return add


def add(kind: Kind) -> None:
    """Register a kind that another process has registered, or one with the digests of its code."""
    _kinds[kind.name] = kind


def _calling_modules() -> list[tuple[str, bool]]:
    """The modules of the calls under way, the last call first, and whether each is at its top."""
    frame, modules = inspect.currentframe(), list[tuple[str, bool]]()
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if modules or module.partition(".")[0] != "ablate":
            modules.append((module, frame.f_locals is frame.f_globals))
        frame = frame.f_back
    return modules


def _taken(made: Kind, known: Kind) -> str:
    by = ":".join(map(str, known.where)) if known.where[0] else "ablate"
    return (
        f"{':'.join(map(str, made.where))}: the task '{made.name}' is already registered by {by}. "
        "Instead: another name for one of the two."
    )


def _listed(metrics: Any) -> tuple[Any, ...]:
    """The metrics as a tuple, whatever they are; `_check_task` says what is wrong with them."""
    several = isinstance(metrics, Sequence) and not isinstance(metrics, str)
    return tuple(metrics) if several else (metrics,)


def _location(function: Callable[..., Any]) -> tuple[str, int]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        raise ConfigError(wrong_value("@task", function, "a function"))
    return code.co_filename, code.co_firstlineno


def _resolved(where: tuple[str, int]) -> tuple[str, int]:
    return str(Path(where[0]).resolve()), where[1]


def _check_task(name: str, config: type, metrics: tuple[Metric, ...], version: int) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"the task name '{name}' is not in snake_case.")
    where = f"task '{name}'"
    sections = {section for kind in shipped_kinds() for section in kind.sections}
    if name in {*registry.slots(), *sections, "task", "model"} - {*_known()}:
        raise ConfigError(
            f"a task cannot be called '{name}', which has a meaning for language models. "
            f"Instead: another name, such as 'my_{name}'."
        )
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        raise ConfigError(wrong_value("config", config, "a frozen dataclass", where))
    if not metrics or not all(isinstance(metric, Metric) for metric in metrics):
        expected = 'at least one Metric, such as Metric("accuracy", better="higher")'
        raise ConfigError(wrong_value("metrics", metrics, expected, where))
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise ConfigError(wrong_value("metrics", names, "a name for each of its own", where))
    for metric in metrics:
        if "." in metric.name:
            expected = "a name without a dot, which follows an evaluator's name"
            raise ConfigError(wrong_value("metric", metric.name, expected, where))
        if metric.of != SPLIT:
            raise ConfigError(wrong_value(f"{metric.name}.of", metric.of, f"'{SPLIT}'", where))
    if type(version) is not int or version < 1:
        raise ConfigError(wrong_value("version", version, "a whole number from 1 on", where))


def _check_corpus(name: str, corpus: Any) -> None:
    own = isinstance(corpus, type) and issubclass(corpus, DataConfig)
    if corpus is not None and not (own and hasattr(corpus, "reader")):
        expected = "a subclass of DataConfig whose `reader` is the DataSource that reads it"
        raise ConfigError(wrong_value("corpus", corpus, expected, f"task '{name}'"))


def kind_names() -> list[str]:
    """Return the names of all registered tasks."""
    _import_tasks()
    return sorted(_known())


def find_kind(name: str, where: str = "") -> Kind:
    """Return the kind of task of that name."""
    if name not in _known():
        _import_tasks()
    if name not in _known():
        raise ConfigError(unknown("task", name, kind_names(), where))
    return _known()[name]


def kind_chosen_by(values: Mapping[str, Any], where: str = "") -> Kind:
    """Return the kind of task that a config's values choose: by `task`, or as `chosen_by` says."""
    model = values.get("model", NEURAL)
    models = [NEURAL, *(kind.chosen_by["model"] for kind in shipped_kinds() if kind.chosen_by)]
    if model not in models:
        raise ConfigError(unknown("model", str(model), models, where))
    if "task" in values:
        return find_kind(str(values["task"]), where)
    chosen = {} if model == NEURAL else {"model": model}
    kind = next((kind for kind in shipped_kinds() if kind.chosen_by == chosen), None)
    if kind is None:
        names = ", ".join(kind_names()) or "none is registered"
        raise ConfigError(
            f"{where}: no task is named. Expected: task, one of: {names}. Language models, which "
            "need no name, are a plug-in that this installation does not list: after an update of "
            "a checkout, install it again (`pip install -e .`)."
        )
    return kind


def _import_tasks() -> None:
    """Import the plug-ins' modules that register tasks, which takes what they import."""
    for plugin in plugins():
        for module in plugin.tasks:
            importlib.import_module(module)


def _known() -> dict[str, Kind]:
    """Every kind by name: first those of plug-ins."""
    return {**{kind.name: kind for kind in shipped_kinds()}, **_kinds}


@cache
def shipped_kinds() -> tuple[Kind, ...]:
    """The kinds that plug-ins bring."""
    modules = (importlib.import_module(plugin.kinds) for plugin in plugins() if plugin.kinds)
    return tuple(kind for module in modules for kind in module.KINDS)


def runner_name(recorded: str) -> str:
    """Return the name of a recorded runner, which in format 1 is an import path."""
    return _NAMES.get(recorded, recorded)


def name_in_id(runner: str) -> str:
    """Return what ids of format 1 hash for this runner."""
    return _PATHS.get(runner, runner)


def runners() -> dict[str, str]:
    """Return what runs trials, `module:Class` by the name that records have."""
    return {**{k: v for plugin in plugins() for k, v in plugin.runners.items()}, **RUNNERS}


def find_runner(name: str) -> Any:
    """Import and return the class that runs such trials; a record may name only ours."""
    known = runners()
    if name not in known:
        raise ConfigError(
            f"runner '{name}' is none of ablate's own (older versions also ran a study's class). "
            "Whoever can write to the store can write any name there, so it was not run; tables "
            f"still show its trials. A record may name: {', '.join(known)}."
        )
    module, _, attribute = known[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
