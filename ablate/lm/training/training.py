"""Training by gradients, which resumes bit for bit.

Everything random comes from streams named by purpose and update (`ablate/config/streams.py`),
so the state of a run is its tensors, the epoch, and how many of the epoch's updates are done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ablate.config.config import Config
from ablate.config.identity import OFF, Role, Trial
from ablate.config.metrics import perplexity
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.data.corpus import AnyCorpus, open_corpus
from ablate.lm.kinds import PAIRS
from ablate.lm.model.assemble import check_packages
from ablate.lm.model.fast.precision import products_in
from ablate.lm.model.flow import Pass, State
from ablate.lm.model.language_model import is_auxiliary
from ablate.lm.model.masks import Chance, Masks, SiteRecorder
from ablate.lm.model.native import library
from ablate.lm.model.operations import per_training_token
from ablate.lm.model.regularizer import Regularizer, num_passes
from ablate.lm.model.sites import check_sites
from ablate.lm.training.averaging import Averaging
from ablate.lm.training.compiled import Compiled, DrawnMasks, Forward, Forwarded
from ablate.lm.training.drawn import drawn
from ablate.lm.training.evaluation import judge, per_byte, reading_of
from ablate.lm.training.finished import assembled, base_models, check_parents
from ablate.lm.training.rates import Rates
from ablate.lm.training.sentence_pairs import Pairs
from ablate.lm.training.stream import CircularStream, Stream
from ablate.lm.training.updates import Part, Reader, Update
from ablate.trial.checkpoint import prefixed, read_weights, within
from ablate.trial.task import Conclusion, Diverged, Place

PROGRESS = ("epoch", "update", "seconds", "valid_history", "round_start", "start_nll")


class Training:
    """One model trained on one corpus; a `Task`."""

    def __init__(self, trial: Trial, place: Place) -> None:
        torch.set_num_threads(trial.threads)
        self._uses = library.uses()
        self.trial = trial
        self.config: Config = trial.config
        self.corpus: AnyCorpus = open_corpus(self.config.corpus, place.data, trial.seed)
        self.streams = Streams(trial.seed, trial.device)
        self.reader: Reader = _reader(trial, self.corpus, self.streams)
        self._assemble(place)
        self.epoch, self.update, self.seconds = 0, 0, 0.0
        self.valid_history: list[float] = []
        self.start_nll: float | None = None  # validation loss of the weights of another trial
        self.round_start = 0  # the epoch after which the round started
        self.best: dict[str, Tensor] = {}
        self.without_effect: list[str] | None = None  # known after the first update
        self._asked = SiteRecorder()
        compiled = Compiled(trial, self.model, self._forward, self._backward)
        self.compiled = None if trial.compile == OFF else compiled
        self._begin_epoch()

    def _assemble(self, place: Place) -> None:
        trial, config = self.trial, self.config
        check_parents(trial, config)
        check_packages(config)
        check_sites(config)
        where = (self.corpus, trial.device)
        bases = base_models(place.store, trial.parent_ids(Role.BASE), *where, config)
        assembly = drawn(lambda: assembled(config, bases, *where), self.streams, config)
        self.model, self.loss = assembly.model, assembly.loss
        self.regularizers = assembly.regularizers
        starts = trial.parent_ids(Role.START)
        taken = [
            _take_over(self.model, read_weights(place.store, start), start) for start in starts
        ]
        self.takes_over = any(taken)
        if config.training.only_gate:
            self.model.train_only_gate()
        each = self.loss, self.regularizers, config.training, self.reader.steps
        self.operations = per_training_token(self.model, *each)
        self.rates = Rates(config.schedule.make(), self.reader, config.training.epochs)
        self._make_optimizer()

    def _make_optimizer(self) -> None:
        self.optimizer = self.config["optimizer"].make(self.model)
        self.optimizer.prepare(self.reader.tokens_per_update)
        self.averaging = Averaging(self.config.training, self.model)

    def _begin_epoch(self) -> None:
        self.reader.begin_epoch(self.epoch, self.model)
        self.done_updates = 0
        self.nll_sum = torch.zeros((), dtype=torch.float64, device=self.trial.device)
        self.num_tokens = 0

    @property
    def finished(self) -> bool:
        """Return whether all epochs are trained, or validation has been worse for long."""
        return self.epoch >= self.config.training.epochs or self._worse_for_long()

    @property
    def computed_by(self) -> list[str]:
        """In which other ways than eagerly updates were computed, for records."""
        own = [] if self.compiled is None else self.compiled.computed_by
        return [*library.computed_by(self._uses), *own]

    @property
    def not_compiled(self) -> str | None:
        """Why training is eager although it should be compiled."""
        return None if self.compiled is None else self.compiled.why_not

    @property
    def epoch_share(self) -> float:
        """The share of the current epoch that is trained."""
        return self.done_updates / self.reader.num_updates

    def advance(self, seconds: float) -> dict[str, Any] | None:
        """Train for about `seconds`, or to the end of the epoch; return its metrics if it ended."""
        start = time.monotonic()
        self._train_until(start + seconds)
        self.seconds += time.monotonic() - start
        if not torch.isfinite(self.nll_sum):
            raise Diverged(f"the training loss became {self.nll_sum.item()}")
        if self.done_updates < self.reader.num_updates:
            return None
        return self._end_epoch()

    def _train_until(self, until: float) -> None:
        if self.takes_over and self.start_nll is None:
            self._keep_start()
        while self.done_updates < self.reader.num_updates:
            if not self.model.training:
                self.model.train()
            self._train(self.reader.update(self.done_updates, self.model))
            if time.monotonic() > until:
                break  # after at least one update, however short the slice

    def _keep_start(self) -> None:
        """Keep the parents' weights as the best so far: training on must not end worse."""
        self.start_nll = self._validate()
        self._keep_best()

    def _keep_best(self) -> None:
        weights = self.model.state_dict()
        self.best = {name: tensor.detach().clone() for name, tensor in weights.items()}

    def _train(self, update: Update) -> None:
        """One update: forward, backward, clip, step."""
        # For custom modules that draw from the global generators.
        self.streams.seed_global("update", self.update)
        backward = self._backward if self.compiled is None else self.compiled.backward
        for nll in backward(update, Chance(self.streams, self.update)):
            self.nll_sum += nll
        self._step(update)

    def _step(self, update: Update) -> None:
        """Clip the gradients of an update, and step."""
        if clip := self.config.training.clip:
            _clip(self.model, clip)
        self.optimizer.step(update.rate, rate=self._rate(self.done_updates))
        self.model.zero_grad(set_to_none=True)
        self._project()
        if self.without_effect is None:
            self.without_effect = self._unanswered()
        self.averaging.updated()
        self.num_tokens += update.num_tokens
        self.done_updates += 1
        self.update += 1

    def _unanswered(self) -> list[str]:
        """The settings of regularizers that are on, and for which the model has no place."""
        chosen = zip(self.config.listed.get("regularizer", ()), self.regularizers, strict=True)
        return [
            f"regularizer.{choice.name}.{setting}"
            for choice, regularizer in chosen
            for setting, site in regularizer.acts_on.items()
            if site not in self._asked.sites
        ]

    def _project(self) -> None:
        """Project the parameters back within their bounds, and let regularizers take steps of
        their own. The model's frozen parameters stay as they are."""
        if not self.model.only_gate:
            self.model.backbone.project()
        projecting = [r for r in self.regularizers if type(r).project is not Regularizer.project]
        frozen = [
            parameter
            for name, parameter in (self.model.named_parameters() if projecting else ())
            if not parameter.requires_grad and not is_auxiliary(name)
        ]
        before = [parameter.detach().clone() for parameter in frozen]
        for regularizer in projecting:
            regularizer.project(self.model)
        for parameter, weights in zip(frozen, before, strict=True):
            parameter.data.copy_(weights)

    def _bound(self) -> None:
        """Put averages of weights from before projections back within their bounds."""
        if not self.model.only_gate:
            self.model.backbone.project()
        for regularizer in self.regularizers:
            if regularizer.bounds:
                regularizer.project(self.model)

    def _backward(
        self, update: Update, chance: Chance, forward: Forward | None = None
    ) -> list[Tensor]:
        """Add up the gradients of the update's parts (usually one with all rows), each under its
        own masks; return their losses."""
        states, nlls = list[State](), list[Tensor]()
        for number, part in enumerate(update.parts):
            own = replace(chance, part=number)
            total, nll, state = self._loss_of(part, update, own, forward)
            total.backward()
            nlls.append(nll.detach().double())
            states.append(state)
        update.ended(states)
        return nlls

    def _loss_of(
        self, part: Part, update: Update, chance: Chance, forward: Forward | None = None
    ) -> tuple[Tensor, Tensor, State]:
        """What a part adds to the update's loss, the part's summed loss, and the state after it."""
        with products_in(self.trial.precision, self.trial.device):
            state, nll, penalties = (forward or self._forward)(part, chance)
        total = nll * update.per_token
        if penalties is not None:
            total = total + penalties * part.share
        return total, nll, state

    def _forward(self, part: Part, chance: Chance) -> Forwarded:
        """The state after a part's first pass, its loss, and its penalties. Further passes are only
        compared: no state of theirs is carried on."""
        passes = self._passes(part, chance)
        nll = self._losses(passes, part.targets_N, chance)
        return passes[0].state, nll, self._penalties(passes)

    def _passes(self, part: Part, chance: Chance) -> list[Pass]:
        """One forward pass, or as many as a regularizer compares, under masks of their own."""
        passes = num_passes(self.regularizers)
        chances = [chance, *(replace(chance, twin=twin) for twin in range(1, passes))]
        # What is compiled leaves no notes.
        first = not isinstance(chance, DrawnMasks) and self.without_effect is None
        asked = (self._asked,) if self.regularizers and first else ()
        return [part.run(Masks((*self.regularizers, *asked), c)) for c in chances]

    def _losses(self, passes: Sequence[Pass], targets_N: Tensor, chance: Chance) -> Tensor:
        embedding = self.model.words_for(self.loss)
        losses = [self.loss(passed, targets_N, embedding, chance) for passed in passes]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def _penalties(self, passes: Sequence[Pass]) -> Tensor | None:
        """The regularizers' terms: of each pass, averaged, and between passes."""
        terms = [
            penalty / len(passes) if len(passes) > 1 else penalty
            for regularizer in self.regularizers
            for passed in passes
            if (penalty := regularizer.penalty(passed, self.model)) is not None
        ]
        between = (r.between(passes) for r in self.regularizers if r.num_passes > 1)
        terms += [term for term in between if term is not None]
        return sum(terms[1:], terms[0]) if terms else None

    def _end_epoch(self) -> dict[str, Any]:
        """Validate, adapt to the result, and begin the next epoch; return the metrics."""
        start = time.monotonic()
        chosen = self.optimizer.evaluated_weights(self.model)
        with chosen as averaged, self.averaging.evaluated_weights():
            if averaged:
                self._bound()
            valid_nll = self._validate()
            if all(valid_nll < earlier for earlier in self._bars()):
                self._keep_best()
        self.epoch += 1
        # Before the epoch's loss is added: the rate of its last update.
        rate = self._rate(max(0, self.done_updates - 1))
        self.valid_history.append(valid_nll)
        changes = (
            self.optimizer.epoch_ended(self.epoch - self.round_start, valid_nll),
            self._new_rate(rate),
            self.averaging.epoch_ended(self.valid_history[self.round_start :]),
        )
        change = "; ".join(filter(None, changes))
        self.seconds += time.monotonic() - start
        if self._repeats_round():
            change = f"round ended after epoch {self.epoch}: again from the best weights"
            self._begin_round()
        metrics = self._epoch_metrics(valid_nll, rate) | ({"event": change} if change else {})
        self._begin_epoch()
        return metrics

    def _rate(self, update: int) -> float:
        """The learning rate of an update of the epoch."""
        return self.rates.at(self.optimizer.rate, update, self.valid_history, self.round_start)

    def _new_rate(self, before: float) -> str | None:
        """The line to log if only epochs change the rate, and the rate `before` is over."""
        after = before if self.rates.schedule.counts_updates else self._rate(0)
        return None if after == before else f"learning rate {before:.6g} -> {after:.6g}"

    def _repeats_round(self) -> bool:
        """Return whether a round has ended, and its best is better than anything before it."""
        if not self.config.training.repeat_while_better or not self._worse_for_long():
            return False
        best = min(self.valid_history[self.round_start :])
        return all(best < earlier for earlier in self._bars(self.round_start))

    def _bars(self, epochs: int | None = None) -> list[float]:
        """The validation losses of the first `epochs` epochs, and of the weights at the start."""
        start = [] if self.start_nll is None else [self.start_nll]
        return start + self.valid_history[:epochs]

    def _begin_round(self) -> None:
        """Start over from the best weights, with a fresh optimizer."""
        self.round_start = self.epoch
        self.model.load_state_dict(self.best)
        self._make_optimizer()

    def _validate(self) -> float:
        nll = self.reader.valid_nll(self.model)
        if not math.isfinite(nll):
            raise Diverged(f"the validation loss became {nll}")
        return nll

    def _epoch_metrics(self, valid_nll: float, rate: float) -> dict[str, Any]:
        train_nll = self.nll_sum.item() / max(self.num_tokens, 1)
        return {
            "epoch": self.epoch,
            "train_nll": train_nll,
            "valid_nll": valid_nll,
            "valid_ppl": perplexity(valid_nll),
            **{f"valid_{k}": v for k, v in per_byte(self.corpus, valid_nll, "valid").items()},
            "learning_rate": rate,
            "tokens": self.num_tokens,
            "seconds": round(self.seconds, 3),
        }

    def _worse_for_long(self) -> bool:
        """AWD's fine-tuning rule: the loss exceeds the best of all but the last few epochs."""
        patience = self.config.training.stop_after_worse
        history = self.valid_history[self.round_start :]
        if patience is None or len(history) <= patience + 1:
            return False
        return history[-1] > min(history[: -1 - patience])

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that the next update depends on: tensors, and plain values."""
        optimizer_tensors, optimizer_plain = self.optimizer.saved()
        means, averaging = self.averaging.saved()
        tensors = {
            **prefixed("model", self.model.state_dict()),
            **prefixed("best", self.best),
            **prefixed("optimizer", optimizer_tensors),
            **prefixed("mean", means),
            **self.reader.saved(),
            "nll_sum": self.nll_sum,
        }
        plain = {name: getattr(self, name) for name in ("num_tokens", *PROGRESS)}
        plain |= {"optimizer": optimizer_plain, "averaging": averaging}
        # The name is older than batches of pairs: checkpoints of earlier versions have it.
        return tensors, {**plain, "done_windows": self.done_updates}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Load a checkpoint; training resumes at the next update of its epoch."""
        device = self.trial.device
        tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        self.model.load_state_dict(within("model", tensors))
        self.optimizer.restore(within("optimizer", tensors), plain["optimizer"])
        self.best = within("best", tensors)
        if "averaging" in plain:  # not in checkpoints made before there was any
            self.averaging.restore(within("mean", tensors), plain["averaging"])
        for name in PROGRESS:
            setattr(self, name, plain[name])
        self._begin_epoch()  # which resets the counts and the reader's state that follow
        self.done_updates, self.num_tokens = plain["done_windows"], plain["num_tokens"]
        self.nll_sum = tensors["nll_sum"]
        self.reader.restore(tensors)

    def conclude(self) -> Conclusion:
        """Evaluate the weights that were best on validation, once."""
        if self.best:
            self.model.load_state_dict(self.best)
        weights = {name: tensor.detach() for name, tensor in self.model.state_dict().items()}
        self.model.auxiliary.clear()  # after its weights were taken: a next stage trains them on
        self.model.eval()
        reading = reading_of(self.trial, self.corpus, [self.model], [self.regularizers])
        return judge(self.trial, reading, weights)


def _clip(model: nn.Module, largest: float) -> None:
    """torch's clipping. On a processor, gradients that it would multiply by 1 stay untouched."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if norm.device.type == "cpu" and largest / (norm + 1e-6) >= 1:
        return
    torch.nn.utils.clip_grads_with_norm_(model.parameters(), largest, norm)


def _reader(trial: Trial, text: Any, streams: Streams) -> Reader:
    """What reads the trial's training text."""
    if trial.config.kind.reads == PAIRS:
        return Pairs(trial, text, streams)
    circular = trial.config.sections["training"].batching == "circular"
    reader = CircularStream if circular else Stream
    return reader(trial, text, streams)


def _take_over(model: nn.Module, weights: Mapping[str, Tensor], trial_id: str) -> bool:
    """Load another trial's weights. Only a gate may be new, and keeps its initial values. Parts
    that only training uses may differ.

    Returns True if every parameter of the finished model was loaded.
    """
    unmatched = model.load_state_dict(weights, strict=False)
    new = [name for name in unmatched.missing_keys if not is_auxiliary(name)]
    missing = [name for name in new if not name.startswith("gate.")]
    unexpected = [name for name in unmatched.unexpected_keys if not is_auxiliary(name)]
    if missing or unexpected:
        wrong = ", ".join([*missing, *unexpected][:4])
        raise CombinationError(
            f"the model cannot start from trial {trial_id}: their parameters differ ({wrong}). "
            "Instead: start from a trial with the same techniques at the same sizes, and at most "
            "add a gate."
        )
    return not new
