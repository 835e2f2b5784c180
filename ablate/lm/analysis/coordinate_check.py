"""Does the size of what a model computes depend on its width? (Yang et al. 2022, Appendix D.1)

size    mean |x_t|           x_t: a layer's output for the first tokens of the training text,
change  mean |x_t - x_0|     after t steps on these tokens

    slope = d log(size) / d log(width), by least squares over the widths, and alike for the change

The trial's model is built again at several widths, and trained without dropout, penalties and
clipping. All fields that are widths (`model/growth.py` says which) stay in proportion. If a setting
holds at every width (muP: `training.base_width`), no change after a step depends on the width: its
slope is near 0. A slope near 1/2 or 1 is a change that grows with the width. The logits of an
untrained model may fall with the width: what the first steps add does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ablate.compare.plots import style
from ablate.config.config import Config
from ablate.config.fields import all_fields, setting
from ablate.config.identity import Role
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import CombinationError, ConfigError
from ablate.lm.analysis import Analysis, Finding
from ablate.lm.analysis.drawing import label, scale
from ablate.lm.analysis.subject import Subject
from ablate.lm.model.assemble import assemble
from ablate.lm.model.flow import Pass
from ablate.lm.model.growth import is_width
from ablate.lm.model.mixture import expert_logits, summed_nll

FLAT = 0.1  # a slope up to this is no growth


@dataclass(frozen=True, kw_only=True)
class CoordinateCheckOptions:
    """The widths, and how the models are trained."""

    widths: tuple[int, ...] = setting((32, 64, 128, 256), doc="widths of the last layer", low=1)
    steps: int = setting(4, doc="updates", low=1)
    seeds: int = setting(2, doc="seeds to average over", low=1)
    learning_rate: float | None = setting(None, doc="none: the trial's", low=0)
    base_width: int | None = setting(None, doc="muP's base width; none: the trial's, if any", low=1)
    fields: tuple[str, ...] = setting((), doc="more fields to change in proportion")
    rows: int = setting(8, doc="rows of tokens", low=1)
    window: int = setting(20, doc="tokens in a row", low=1)


def run(subject: Subject, options: CoordinateCheckOptions) -> Finding:
    """Sizes of activations and logits after a few steps, at several widths."""
    _check(subject)
    widths = sorted(set(options.widths))
    if len(widths) < 2:
        raise ConfigError(
            f"coordinate_check.widths = {list(options.widths)} has one width, and a slope needs "
            "two at least. Instead: widths=32,64,128."
        )
    measured = [_measured(subject, options, width) for width in widths]
    layers, sizes_WTL = measured[0][0], np.stack([sizes for _, sizes, _ in measured])
    changes_WTL = np.stack([changes for _, _, changes in measured])
    slopes_TL, growths_TL = slopes(widths, sizes_WTL), slopes(widths, changes_WTL)

    rows = [
        [
            layer,
            step,
            *(float(size) for size in sizes_WTL[:, step, at]),
            float(slopes_TL[step, at]),
            float(growths_TL[step, at]) if step else None,
        ]
        for at, layer in enumerate(layers)
        for step in range(options.steps + 1)
    ]

    def draw(axes: Any) -> None:
        for at, layer in enumerate(layers):
            look = {**style.marker(at), "markersize": 4}
            axes.plot(widths, changes_WTL[:, -1, at], label=label(layer), **look)
        axes.set_xscale("log", base=2)
        axes.set_xticks(widths, [str(width) for width in widths])
        scale(axes, changes_WTL[:, -1].ravel())
        axes.set(xlabel="width", ylabel=f"mean |change| after {_steps(options.steps)}")

    return Finding(
        title=f"Coordinate check of {subject.name}",
        columns=["layer", "step", *(f"at {width}" for width in widths), "slope", "of the change"],
        rows=rows,
        notes=_notes(layers, growths_TL, _config(subject, options, widths[0])),
        draw=draw,
    )


def slopes(widths: Sequence[int], sizes_WTL: np.ndarray) -> np.ndarray:
    """The slope of log size over log width, by least squares, of every step and layer."""
    logs = np.log(np.asarray(widths, dtype=float))
    logs -= logs.mean()
    # What does not change at all (frozen word vectors) has no log.
    sizes = np.log(np.maximum(sizes_WTL, np.finfo(float).tiny))
    return np.tensordot(logs, sizes, 1) / (logs**2).sum()


def _check(subject: Subject) -> None:
    """Refuse a trial that is no model of its own."""
    trained = subject.config.kind.assembles and not subject.config.training.only_gate
    if not trained or subject.journal.trial.parent_ids(Role.BASE):
        raise CombinationError(
            f"trial {subject.id} trains no whole language model, and this analysis builds one at "
            "several widths. Instead: a trial that trains one."
        )


def _measured(
    subject: Subject, options: CoordinateCheckOptions, width: int
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The names of the layers, and their sizes and changes by step, averaged over seeds."""
    config = _config(subject, options, width)
    rows_BT = _tokens(subject, options)
    seeds = [_trained(config, subject, rows_BT, options.steps, n) for n in range(options.seeds)]
    sizes, changes = (np.mean(each, axis=0) for each in zip(*seeds, strict=True))
    bridge = ["bridge"] if config["bridge"].name != "none" else []
    layers = [f"layer {n}" for n in range(1, sizes.shape[1] - 1 - len(bridge))]
    return ["word vectors", *layers, *bridge, "logits"], sizes, changes


def _trained(
    config: Config, subject: Subject, rows_BT: Tensor, steps: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and changes, [steps + 1, layers], of a model that is trained on some tokens."""
    model = assemble(config, subject.corpus.num_words, text=subject.corpus).model
    model.initialize(Streams(seed))
    optimizer = config["optimizer"].make(model)
    optimizer.prepare(rows_BT[:, 1:].numel())
    inputs_TB, targets_N = rows_BT.t()[:-1], rows_BT.t()[1:].reshape(-1)
    outputs: list[list[Tensor]] = []
    for _ in range(steps + 1):
        passed = model(inputs_TB, model.initial_state(len(rows_BT)))
        outputs.append(_outputs(passed, config))
        model.zero_grad(set_to_none=True)
        (summed_nll(passed.mixture, targets_N) / len(targets_N)).backward()
        optimizer.step()
    sizes = [[x.abs().mean().item() for x in step] for step in outputs]
    changes = [
        [(x - first).abs().mean().item() for x, first in zip(step, outputs[0], strict=True)]
        for step in outputs
    ]
    return np.array(sizes), np.array(changes)


def _outputs(passed: Pass, config: Config) -> list[Tensor]:
    features = passed.features
    bridge = [features.output_TBH] if config["bridge"].name != "none" else []
    logits = expert_logits(passed.mixture, slice(None))
    return [x.detach() for x in (features.embedded_TBE, *features.raw, *bridge, logits)]


def _tokens(subject: Subject, options: CoordinateCheckOptions) -> Tensor:
    """The first tokens of the training text in rows; the last one of each is only predicted."""
    tokens = subject.corpus.stream("train")[: options.rows * (options.window + 1)].long()
    length = min(options.window + 1, len(tokens))
    return tokens[: len(tokens) // length * length].view(-1, length)


def _config(subject: Subject, options: CoordinateCheckOptions, width: int) -> Config:
    """The trial's config with its widths in proportion, so that its last layer has `width`."""
    config, values = subject.config, dict(subject.journal.trial.values)
    vocabulary = subject.corpus.num_words
    now = assemble(config, vocabulary, "meta").model.shapes.layers[-1]
    own = {name: all_fields(part) for name, part in config.parts.items()}
    known = {
        f"{name}.{field}"
        for name, part in config.parts.items()
        for field in own[name]
        # Parts with a "." are regularizers and evaluators.
        if "." not in name and is_width(field, part)
    }
    for field in sorted(known | set(options.fields)):
        part, _, name = field.rpartition(".")
        values[field] = _scaled(own.get(part, {}).get(name), width, now)
    given = {
        "optimizer.learning_rate": options.learning_rate,
        "training.base_width": options.base_width,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    return resolve({**values, **changed}, f"width {width} of trial {subject.id}")


def _scaled(value: Any, width: int, now: int) -> Any:
    if isinstance(value, list):
        return [_scaled(each, width, now) for each in value]
    return max(1, round(value * width / now)) if isinstance(value, int) else value


def _steps(steps: int) -> str:
    return "a step" if steps == 1 else f"{steps} steps"


def _notes(layers: Sequence[str], growths_TL: np.ndarray, config: Config) -> list[str]:
    trained = growths_TL[1:]
    step, at = map(int, np.unravel_index(np.argmax(trained), trained.shape))
    steepest = round(float(trained[step, at]), 2) + 0.0  # no -0.00
    base = config.training.base_width
    rule = "without muP" if base is None else f"muP with base width {base}"
    found = "no change grows with the width" if steepest <= FLAT else "changes grow with the width"
    return [
        f"{rule}: {found} (largest slope {steepest:.2f}: {layers[at]}, step {step + 1})",
        "slope: of log size over log width; of the change: of what the steps changed",
    ]


ANALYSIS = Analysis(
    run=run,
    options=CoordinateCheckOptions,
    paper="yang2022tensor",
    equation="Appendix D.1",
)
