"""Training and validation, epoch by epoch, from the journals of trials: perplexity, or whatever
judges their kind of task.

The training loss is the mean over the epoch, with dropout on and with weights that were still
changing, so it may well be above the validation loss. A loss other than cross entropy is no
perplexity: such a trial has no curve of training. A trial that diverged, was pruned or is still
running has a partial curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ablate.compare.plots import style
from ablate.config.fields import setting
from ablate.config.metrics import TRAIN, Metric, reported_name
from ablate.errors import CombinationError, TrialError
from ablate.lm.analysis import Analysis, Finding
from ablate.lm.analysis.drawing import label, scale
from ablate.lm.analysis.subject import Subject, distinct_names
from ablate.store.epoch import Epoch

PLAIN = "cross_entropy"  # the loss that evaluation reports too


@dataclass(frozen=True, kw_only=True)
class LearningCurveOptions:
    """The epochs to show."""

    first: int = setting(1, doc="first epoch to show", low=1)


def run(*subjects: Subject, options: LearningCurveOptions) -> Finding:
    """Training and validation by epoch."""
    names, metric = distinct_names(subjects), _metric(subjects)
    unit = next(iter(metric.published), metric.shown)  # the papers' short name, if they have one
    curves = [_curve(subject, options.first, metric) for subject in subjects]
    judged = {n: _shown(c, metric.key("valid"), metric) for n, c in zip(names, curves, strict=True)}
    losses = [subject.journal.trial.values.get("loss", PLAIN) for subject in subjects]
    trained = {
        name: _shown(curve, reported_name(metric.name, TRAIN, ""), metric) if loss == PLAIN else []
        for name, curve, loss in zip(names, curves, losses, strict=True)
    }

    rows = [
        [name, epoch.number, train, valid, epoch.metrics.get("learning_rate"), epoch.event or None]
        for name, curve in zip(names, curves, strict=True)
        for epoch, train, valid in zip(
            curve, trained[name] or [None] * len(curve), judged[name], strict=True
        )
    ]

    def draw(axes: Any) -> None:
        for index, (name, curve) in enumerate(zip(names, curves, strict=True)):
            epochs = [epoch.number for epoch in curve]
            # At most some forty markers on a curve.
            look = {**style.marker(index), "markersize": 3, "markevery": 1 + len(epochs) // 40}
            axes.plot(epochs, judged[name], label=label(f"{name}, valid"), **look)
            if trained[name]:
                thin = {**look, "linestyle": "--", "linewidth": 1}
                axes.plot(epochs, trained[name], label=label(f"{name}, train"), **thin)
        scale(axes, (row[column] for row in rows for column in (2, 3) if row[column] is not None))
        axes.set(xlabel="epoch", ylabel=metric.shown)
        axes.xaxis.get_major_locator().set_params(integer=True)

    return Finding(
        title=f"Learning curve: {'; '.join(names)}",
        columns=["trial", "epoch", f"train {unit}", f"valid {unit}", "learning rate", "event"],
        rows=rows,
        notes=[
            *(_best(name, curve, metric) for name, curve in zip(names, curves, strict=True)),
            *(
                f"{name}: trained by the loss '{loss}', which is no {metric.shown}"
                for name, loss in zip(names, losses, strict=True)
                if loss != PLAIN
            ),
        ],
        draw=draw,
    )


def _metric(subjects: Sequence[Subject]) -> Metric:
    """The metric that judges all of these trials."""
    metrics = [subject.config.metrics[0] for subject in subjects]
    for subject, metric in zip(subjects, metrics, strict=True):
        if metric != metrics[0]:
            raise CombinationError(
                f"trial {subject.id} is judged by {metric.shown}, and trial {subjects[0].id} by "
                f"{metrics[0].shown}. Instead: trials that one metric judges."
            )
    return metrics[0]


def _curve(subject: Subject, first: int, metric: Metric) -> list[Epoch]:
    epochs = subject.journal.epochs
    curve = [epoch for epoch in epochs if epoch.number >= first]
    if not curve:
        reason = f"it ended after epoch {len(epochs)}" if epochs else "it does not train"
        raise TrialError(
            f"trial {subject.id} ({subject.journal.trial.stage}) has no epoch from {first} on: "
            f"{reason}. Instead: a trial that trains, with `first` at most its last epoch."
        )
    key = metric.key("valid")
    if any(key not in epoch.metrics for epoch in curve):
        runner = subject.journal.trial.runner
        # A runner of version 0.1.0 may be a user's own class.
        raise TrialError(f"trial {subject.id}: its runner {runner} records no '{key}'.")
    return curve


def _shown(curve: list[Epoch], key: str, metric: Metric) -> list[float]:
    """The numbers that people read; none if an epoch lacks one, as training's may be."""
    if any(key not in epoch.metrics for epoch in curve):
        return []
    return [metric.show(metric.loss(float(epoch.metrics[key]))) for epoch in curve]


def _best(name: str, curve: list[Epoch], metric: Metric) -> str:
    key = metric.key("valid")
    best = min(curve, key=lambda epoch: metric.loss(float(epoch.metrics[key])))
    return f"{name}: best at epoch {best.number}, valid {_shown([best], key, metric)[0]:.2f}"


ANALYSIS = Analysis(run=run, options=LearningCurveOptions, num_subjects=(1, 8))
