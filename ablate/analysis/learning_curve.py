"""Training and validation perplexity, epoch by epoch, from the journals of trials.

The training loss is the mean over the epoch, with dropout on and with weights that were still
changing, so it may well be above the validation loss. A loss other than cross entropy is no
perplexity: such a trial has no curve of training. A trial that diverged, was pruned or is still
running has a partial curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ablate.analysis import Analysis, Finding
from ablate.analysis.drawing import label, scale
from ablate.analysis.subject import Subject, distinct_names
from ablate.compare.plots import style
from ablate.config.fields import setting
from ablate.config.metrics import PERPLEXITY
from ablate.errors import TrialError
from ablate.store.epoch import Epoch

PLAIN = "cross_entropy"  # the loss of which the exponential is the perplexity


@dataclass(frozen=True, kw_only=True)
class LearningCurveOptions:
    """The epochs to show."""

    first: int = setting(1, doc="first epoch to show", low=1)


def run(*subjects: Subject, options: LearningCurveOptions) -> Finding:
    """Training and validation perplexity by epoch."""
    names = distinct_names(subjects)
    curves = [_curve(subject, options.first) for subject in subjects]
    losses = [subject.journal.trial.values.get("loss", PLAIN) for subject in subjects]
    trained = {
        name: _ppl(curve, "train_nll") if loss == PLAIN else []
        for name, curve, loss in zip(names, curves, losses, strict=True)
    }

    rows = [
        [name, epoch.number, train, valid, epoch.metrics.get("learning_rate"), epoch.event or None]
        for name, curve in zip(names, curves, strict=True)
        for epoch, train, valid in zip(
            curve, trained[name] or [None] * len(curve), _ppl(curve, "valid_nll"), strict=True
        )
    ]

    def draw(axes: Any) -> None:
        for index, (name, curve) in enumerate(zip(names, curves, strict=True)):
            epochs = [epoch.number for epoch in curve]
            look = {**style.marker(index), "markersize": 3, "markevery": 1 + len(epochs) // 40}
            axes.plot(epochs, _ppl(curve, "valid_nll"), label=label(f"{name}, valid"), **look)
            if trained[name]:
                thin = {**look, "linestyle": "--", "linewidth": 1}
                axes.plot(epochs, trained[name], label=label(f"{name}, train"), **thin)
        scale(axes, (row[column] for row in rows for column in (2, 3) if row[column] is not None))
        axes.set(xlabel="epoch", ylabel="perplexity")
        axes.xaxis.get_major_locator().set_params(integer=True)

    return Finding(
        title=f"Learning curve: {'; '.join(names)}",
        columns=["trial", "epoch", "train ppl", "valid ppl", "learning rate", "event"],
        rows=rows,
        notes=[
            *(_best(name, curve) for name, curve in zip(names, curves, strict=True)),
            *(
                f"{name}: trained by the loss '{loss}', which is no perplexity"
                for name, loss in zip(names, losses, strict=True)
                if loss != PLAIN
            ),
        ],
        draw=draw,
    )


def _curve(subject: Subject, first: int) -> list[Epoch]:
    epochs = subject.journal.epochs
    curve = [epoch for epoch in epochs if epoch.number >= first]
    if not curve:
        reason = f"it ended after epoch {len(epochs)}" if epochs else "it does not train"
        raise TrialError(
            f"trial {subject.id} ({subject.journal.trial.stage}) has no epoch from {first} on: "
            f"{reason}. Instead: a trial that trains, with `first` at most its last epoch."
        )
    for name in ("train_nll", "valid_nll"):
        if any(name not in epoch.metrics for epoch in curve):
            runner = subject.journal.trial.runner
            raise TrialError(f"trial {subject.id}: its runner {runner} records no '{name}'.")
    return curve


def _ppl(curve: list[Epoch], key: str) -> list[float]:
    return [PERPLEXITY.show(float(epoch.metrics[key])) for epoch in curve]


def _best(name: str, curve: list[Epoch]) -> str:
    best = min(curve, key=lambda epoch: float(epoch.metrics["valid_nll"]))
    return f"{name}: best at epoch {best.number}, valid {_ppl([best], 'valid_nll')[0]:.2f}"


ANALYSIS = Analysis(run=run, options=LearningCurveOptions, num_subjects=(1, 8))
