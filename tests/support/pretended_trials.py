"""Trials of the pretended device, in a process of their own: what was noted, as JSON.

    python -m tests.support.pretended_trials DATA < MODELS.json

For each kind, the models are the values of each by its name, and DATA has encoded texts. Code that
must be noticed runs before them.
"""

from __future__ import annotations

import functools
import json
import math
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import torch

from ablate.config import streams
from ablate.lm.training.sentence_pairs import Pairs
from ablate.lm.training.stream import Stream
from ablate.lm.training.training import Training
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial import checkpoint
from ablate.trial.run import TrialRun
from ablate.trial.task import Place
from tests.support import pretended, trials

PHASES = {
    (Training, "_train"): "step",
    (Stream, "update"): "step",
    (Pairs, "update"): "step",
    (Stream, "valid_nll"): "validation",
    (Pairs, "valid_nll"): "validation",
}


Models = Mapping[str, Mapping[str, Any]]


def main(kinds: Mapping[str, Models], data: str) -> dict[str, Any]:
    border = pretended.Border()
    noticed = twins(border)
    _adapt(border)
    found = {kind: of_kind(models, data, border) for kind, models in kinds.items()}
    return {"twins": noticed, **found}


def of_kind(models: Models, data: str, border: pretended.Border) -> dict[str, Any]:
    border.notes.clear()
    said = {name: compared(values, data, border) for name, values in models.items()}
    wrong = {name: what for name, what in said.items() if what is not None}
    return {"wrong": wrong, "notes": sorted(border.notes)}


def compared(values: Mapping[str, Any], data: str, border: pretended.Border) -> Any:
    """What is wrong with a trial of the device, whose checkpoint the processor trains on, too:
    None, what stayed on the processor, the outcome, or the two losses."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        trial = trials.made(values, data, device=pretended.NAME)
        with border:
            run = TrialRun(trial, store, data)
            run.advance(0)
            run.save()
            if left := left_behind(run):
                return left
        saved = checkpoint.read(store, checkpoint.last_key(trial.id))
        with border:
            ended = trials.finish(trial, store, data)  # on the device, from the checkpoint
        if saved is None or not ended.epochs or ended.status != Status.COMPLETED:
            return str(ended.outcome)
        task: Any = Training(trials.made(values, data), Place(store, data))
        task.restore(saved[0], saved[1]["task"])
        task.advance(60)  # on the processor
        losses = task.valid_history[-1], ended.epochs[-1].metrics["valid_nll"]
        return None if math.isclose(*losses, rel_tol=1e-4) else losses


def left_behind(run: TrialRun) -> list[str]:
    """The tensors of a training that are not on the device, but for counts of updates."""
    task: Any = run._task
    if task is None:
        return [str(run.journal.outcome)]
    named = {**task.saved()[0], **dict(task.model.named_buffers())}
    return [n for n, x in named.items() if not isinstance(x, pretended.Pretended) and x.dim()]


def twins(border: pretended.Border) -> dict[str, str]:
    """Code that must be caught, and as what it was."""
    planted = {
        "item": lambda x: x.sum().item(),
        "branch": lambda x: bool(x.sum() > 0),
        "list": lambda x: x.tolist(),
        "cpu": lambda x: x.cpu(),
        "to": lambda x: torch.ones(3).to(x.device),
        "mask": lambda x: x[x > 0],
        "put": lambda x: x.__setitem__(x > 0, torch.ones(3, device=x.device)),
        "nonzero": lambda x: x.nonzero(),
        "unique": lambda x: x.unique(),
        "created": lambda x: torch.ones(3) + 1,
        "mixed": lambda x: x + torch.ones(3),
        "none": lambda x: torch.where(x > 0, x, 0.0).sum() * 2,
    }
    found = {}
    for name, code in planted.items():
        border.notes.clear()
        with border, border.during("step"):
            try:
                code(torch.ones(3, device=pretended.NAME))
            except RuntimeError as error:
                found[name] = str(error).partition(";")[0]
                continue
        found[name] = ", ".join(sorted({what for _, what, _ in border.notes}))
    return found


def _adapt(border: pretended.Border) -> None:
    """Note the phases; and the device draws the processor's numbers."""
    for (owner, name), phase in PHASES.items():
        setattr(owner, name, _during(border, phase, getattr(owner, name)))

    def generator(self: streams.Streams, purpose: str, update: int = 0) -> torch.Generator:
        made = torch.Generator() if self.device == "cpu" else pretended.Generator()
        return made.manual_seed(streams.derived_seed(self.seed, purpose, update))

    streams.Streams.generator = generator
    torch.cuda.manual_seed = lambda seed: None


def _during(border: pretended.Border, phase: str, function: Any) -> Any:
    @functools.wraps(function)
    def inside(*arguments: Any) -> Any:
        with border.during(phase):
            return function(*arguments)

    return inside


if __name__ == "__main__":
    kept = pretended.set_up()  # as long as this process
    print(json.dumps(main(json.load(sys.stdin), sys.argv[1])))
