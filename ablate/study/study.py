"""A study, made of the words of a study file, and the checks that need more than one of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ablate import papers
from ablate.config import registry
from ablate.config.identity import StageName
from ablate.config.tasks import runner_name, runners
from ablate.errors import StudyError, unknown, wrong_value
from ablate.results.sizes import check_size
from ablate.study.designs import check_num_arms
from ablate.study.several import check_several, single_scales
from ablate.study.words import Analyze, Design, Scale, Stage, Values, Word

RESERVED_STAGES = tuple(StageName)


@dataclass(frozen=True, kw_only=True)
class Study(Word):
    """A question, and the design that answers it.

    A study is known by its name and scale. Two files of one name are therefore one study: the
    second replaces the question and the arms on record, and the run says so. No trial is lost by
    this.

    Args:
        question: What the study asks, in a sentence.
        design: The arms, made by a design such as `table` or `factorial`.
        scales: The sizes at which it can be run, by name. `ablate study FILE` runs the first one.
        base: What all arms share: values, or a recipe's name, `"name"` or `"name:column"`.
        base_arm: The name of the arm that the others are compared with.
        paper: The paper whose numbers are shown next to ours, as `ablate table papers` lists them.
        tables: The tables of that paper.
        techniques: Files next to the study that register techniques of your own.
        metric: The name of the metric that decides, if not the first of the task.
        margin: The difference that does not matter: `"1%"` for a metric that is compared by ratios,
            or a number on the metric's scale (0.005 is half a point of accuracy). Arms that the
            tests find to differ by less are called the same.
        columns: Names of further metrics to show: `"loss"`, `"dynamic.nll"`.
        measure: Values of evaluators that measure each arm's finished models, for `columns`.
        analyses: Analyses of finished models, made when the study ends, each an `Analyze`.
        runner: `"stand_in"` trains nothing, to try a design in no time. To train with code of your
            own, see `task`.
        name: What the study is called in the store, if not like its file.
        file: Filled in when the file is loaded.
    """

    question: str
    design: Design
    scales: Mapping[str, Scale]
    base: str | Values
    base_arm: str
    paper: str = ""
    tables: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    metric: str = ""
    margin: str | float | None = None
    columns: tuple[str, ...] = ()
    measure: Values = field(default_factory=dict)
    analyses: tuple[Analyze, ...] = ()
    runner: str | None = None
    name: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runner is not None:  # version 0.1.0 named ours by their import paths
            object.__setattr__(self, "runner", runner_name(self.runner))
        check(self)

    def scale(self, name: str | None) -> tuple[str, Scale]:
        """Return the name and the scale; without a name, the first one."""
        chosen = name or next(iter(self.scales))
        known = {**self.scales, **single_scales(self.scales)}
        if chosen not in known:
            raise StudyError(unknown("scale", chosen, known, self.file))
        return chosen, known[chosen]


def check(study: Study) -> None:
    """Raise for a study that contradicts itself, before anything is planned."""
    _check_key("name", study.name or "study")
    if not study.scales:
        raise StudyError("a study needs at least one scale.")
    check_num_arms(len(study.design.arms), "design")
    names = [arm.name for arm in study.design.arms]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise StudyError(f"two arms are called '{twice}'. Names of arms must be unique.")
    _check_known("base_arm", [study.base_arm], names)
    for arm in study.design.arms:
        _check_known(
            "against", [] if arm.against is None else [arm.against], names, f"arm '{arm.name}'"
        )
    for look in study.analyses:
        where = f"analysis '{look.analysis}'"
        _check_known("arm", look.arms, names, where)
        if look.shows:
            tables = papers.load(study.paper).tables if study.paper else ()
            _check_known("table", [look.shows], tables, where)
    _check_runner(study.runner)
    _check_metrics(study)
    check_size("margin", study.margin, study.file or study.name or "Study")
    check_several(study.scales, study.design.arms)
    single = single_scales(study.scales)
    for name, scale in single.items():
        _check_key("scale", name)
        _check_scale(scale, names, f"scale '{name}'")
        _check_settings_of(scale, single, f"scale '{name}': settings_of")
        _check_inheritance(study, scale, names, f"scale '{name}': inherit")
    stages = list(dict.fromkeys(s.name for scale in study.scales.values() for s in scale.stages))
    stages += [StageName.MEASURE] if study.measure else []
    everywhere = [*stages, *(stage.name for arm in study.design.arms for stage in arm.then)]
    for name, scale in study.scales.items():
        _check_known("stage", scale.stage_changes, everywhere, f"scale '{name}'")
    for arm in study.design.arms:
        _check_known("stage", arm.stages, stages, f"arm '{arm.name}'")
        for scale in study.scales.values():
            _check_stages((*scale.stages, *arm.then), f"arm '{arm.name}'")
            if len(scale.looks) > 1 and any(stage.over == "seeds" for stage in arm.then):
                raise StudyError(
                    f"arm '{arm.name}': a stage over all seeds needs every seed, and an arm that a "
                    f"look decides trains no more seeds. Instead: leave out looks={scale.looks}."
                )


def _check_metrics(study: Study) -> None:
    """Check the names of metrics, as far as is possible before any arm is resolved."""
    for name in study.measure:
        if name.partition(".")[0] != "evaluator":
            expected = "'evaluator' or 'evaluator.<name>.<field>'"
            raise StudyError(wrong_value("measure", name, expected))
    twice = next((n for n, times in Counter(study.columns).items() if times > 1), None)
    if twice is not None or study.metric in study.columns:
        expected = "each metric once, and not the one that decides"
        raise StudyError(wrong_value("columns", list(study.columns), expected))
    if not study.techniques:  # such files may register evaluators
        for word, names in (("metric", [study.metric]), ("columns", study.columns)):
            named = [name.partition(".")[0] for name in names if "." in name]
            _check_known("evaluator", named, registry.names("evaluator"), word)


def _check_known(kind: str, names: Iterable[str], valid: Sequence[str], where: str = "") -> None:
    for name in names:
        if name not in valid:
            raise StudyError(unknown(kind, name, valid, where))


def _check_scale(scale: Scale, arms: Sequence[str], where: str) -> None:
    _check_known("arm", scale.arms or (), arms, where)
    _check_stages(scale.stages, where)
    if scale.not_comparable and not scale.published:
        raise StudyError(
            f"{where}: not_comparable says why numbers are not comparable with published ones, and "
            "at this scale none stand next to these. Instead: set published=True, or leave out "
            "not_comparable."
        )


def _check_settings_of(scale: Scale, scales: Mapping[str, Scale], where: str) -> None:
    """Check that settings come from a scale that searches."""
    if not scale.settings_of:
        return
    searched = [name for name, other in scales.items() if other.search is not None]
    if scale.settings_of not in searched:
        raise StudyError(unknown("scale with a search", scale.settings_of, searched, where))


def _check_inheritance(study: Study, scale: Scale, arms: Sequence[str], where: str) -> None:
    """Check that inheriting arms, and those they inherit from, are tuned and form no cycle."""
    inherit = scale.search.inherit if scale.search else {}
    tuned = arms if scale.arms is None else {study.base_arm, *scale.arms}
    for heir, source in inherit.items():
        _check_known("arm", (heir, source.arm), arms, where)
        if heir in tuned and source.arm not in tuned:
            raise StudyError(
                f"{where}: '{heir}' starts from the winner of '{source.arm}', which this scale "
                "leaves out and does not tune. Instead: inherit from an arm of the scale."
            )
        chain = [heir]
        while chain[-1] in inherit:
            chain.append(inherit[chain[-1]].arm)
            if chain[-1] in chain[:-1]:
                cycle = " -> ".join(chain[chain.index(chain[-1]) :])
                raise StudyError(
                    f"{where}: these arms wait for each other: {cycle}. Instead: tune one of them "
                    "from scratch."
                )


def _check_stages(stages: Sequence[Stage], where: str) -> None:
    """Check that names are unique, and that only the last stage evaluates or joins seeds."""
    names = [*RESERVED_STAGES, *(stage.name for stage in stages)]
    for stage in stages:
        if names.count(stage.name) > 1:
            expected = f"a unique name, and none of {', '.join(RESERVED_STAGES)}"
            raise StudyError(wrong_value("stage", stage.name, expected, where))
    for stage in stages[:-1]:
        if stage.kind == "evaluate" or stage.over == "seeds":
            raise StudyError(
                f"{where}: no stage can continue from stage '{stage.name}', which trains no model "
                "for each seed. Instead: make it the last one."
            )


def _check_key(word: str, name: str) -> None:
    """Check the name of a study or scale: together they name a folder, `name@scale`."""
    if not re.fullmatch(r"[^./\\@\s\x00-\x1f][^/\\@\x00-\x1f]*", name):
        expected = "text without / \\ @ that does not start with . or a space"
        raise StudyError(wrong_value(word, name, expected))


def _check_runner(runner: str | None) -> None:
    if runner is not None and runner not in runners():
        wrong = wrong_value("runner", runner, f"one of {', '.join(runners())}")
        raise StudyError(
            f"{wrong} A study can no longer name a class. Instead: register the function that "
            "trains with @task (docs/your_own_training.md)."
        )
