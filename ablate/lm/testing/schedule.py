"""The contracts of every schedule: a share of the rate, which follows from the progress alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ablate.lm.model.schedule import Progress, Schedule, ScheduleConfig
from ablate.lm.testing.subject import Subject, require

EPOCHS, UPDATES = 12, 5  # of each
TOTAL = EPOCHS * UPDATES
WARMUP = 7  # updates: it ends within the second epoch


def _training(total: int = TOTAL) -> Iterator[Progress]:
    """Yield the progress before each update of a training whose validation goes up and down."""
    drawn = random.Random(0)
    losses = tuple(4 + drawn.random() for _ in range(EPOCHS))
    for update in range(total):
        yield Progress(update=update, total=total, losses=losses[: update // UPDATES])


def _rates(schedule: Schedule, total: int = TOTAL) -> list[float]:
    return [schedule.learning_rate(1.0, now) for now in _training(total)]


def _warmed(subject: Subject, warmup: int) -> Schedule:
    prefix = f"{subject.prefix}warmup"
    return Subject(subject.slot, subject.name, {**subject.values, prefix: warmup}).build()


def shares_are_from_0_to_1(subject: Subject) -> None:
    """Every share is from 0 to 1, and training starts above 0."""
    rates = _rates(subject.build())
    require(all(0 <= rate <= 1 for rate in rates), f"shares from {min(rates)} to {max(rates)}.")
    require(rates[0] > 0, "the first update is at rate 0.")


def progress_decides_alone(subject: Subject) -> None:
    """A fresh schedule gives the same bits in the middle of a training, as resuming needs."""
    whole = _rates(subject.build())
    alone = [subject.build().learning_rate(1.0, now) for now in _training()]
    backwards = [subject.build()]
    again = [backwards[0].learning_rate(1.0, now) for now in reversed(list(_training()))]
    require(whole == alone == again[::-1], "the share depends on earlier calls.")


def warmup_comes_before_any(subject: Subject) -> None:
    """With a warm-up the rate first rises from 0, and then is the schedule's own."""
    require(issubclass(subject.technique.config, ScheduleConfig), "its config has no `warmup`.")
    rates, plain = _rates(_warmed(subject, WARMUP), TOTAL), _rates(subject.build())
    # The first epoch alone: with its loss a schedule's own share may change.
    steps = [rates[update] * (WARMUP + 1) / (update + 1) for update in range(UPDATES)]
    even = all(abs(step - plain[0]) < 1e-12 for step in steps)
    require(even, f"the rate does not rise evenly: {rates[:WARMUP]}.")
    own = [_after(subject.build(), now) for now in _training()][WARMUP:]
    require(rates[WARMUP:] == own, "after its warm-up the rate is not the schedule's.")


def _after(schedule: Schedule, now: Progress) -> float:
    own = Progress(update=now.update - WARMUP, total=now.total - WARMUP, losses=now.losses)
    return schedule.learning_rate(1.0, own)


def updates_are_read_if_it_says_so(subject: Subject) -> None:
    """A schedule that reads no updates gives the same share without them."""
    schedule = subject.build()
    without = [
        schedule.learning_rate(1.0, Progress(update=0, total=0, losses=now.losses))
        for now in _training()
    ]
    same = without == _rates(schedule)
    require(same or schedule.reads_updates, "it reads updates; its `reads_updates` is False.")


def it_scales_with_the_rate(subject: Subject) -> None:
    """The learning rate is the share of the optimizer's."""
    schedule = subject.build()
    for now in _training():
        share, rate = schedule.learning_rate(1.0, now), schedule.learning_rate(30.0, now)
        require(abs(rate - 30 * share) < 1e-12, f"rate {rate} is not 30 times {share}.")
