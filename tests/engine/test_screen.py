"""The live view and the plain lines of a running study, on a clock of the test's own."""

from __future__ import annotations

import builtins
import io
import threading
from dataclasses import replace

import pytest
from rich.console import Console

from ablate.config.identity import Trial
from ablate.engine.screen import Lines, Screen
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.study_record import ArmRecord, PlannedTrial, SearchRecord, StudyRecord

ARMS = ("base", "doc [15,5]", "balance β")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def record_of(num_seeds: int = 2, arms=ARMS, **fields) -> StudyRecord:
    trials = tuple(
        PlannedTrial(id=f"{a}-{i}", arm=a, stage="train", seed=i + 1, seed_index=i, final=True)
        for i in range(num_seeds)
        for a in arms
    )
    known = {
        "name": "layers",
        "scale": "laptop",
        "question": "Which layers?",
        "paper": "",
        "tables": (),
        "file": "",
        "command": "",
        "corpus": "grammar",
        "corpus_digest": "d",
        "level": "word",
        "num_seeds": num_seeds,
        "base_arm": "base",
        "arms": tuple(ArmRecord(name=name) for name in arms),
        "trials": trials,
    }
    return StudyRecord(**{**known, **fields})


def trial_of(trial_id: str, stage: str = "train") -> Trial:
    arm, seed = trial_id.rsplit("-", 1)
    return Trial(
        id=trial_id,
        values={"training.epochs": 4},
        seed=int(seed) + 1,
        corpus_digest="d",
        arm=arm,
        stage=stage,
    )


def ended(trial_id: str, status: str = "completed", nats: float = 4.0, reason: str = "") -> Journal:
    metrics = {"valid_nll": nats, "test_nll": nats} if status == "completed" else {}
    outcome = Outcome(status=Status(status), metrics=metrics, reason=reason)
    return Journal(trial_of(trial_id), outcome=outcome)


def epoch(number: int, nats: float = 4.5) -> Epoch:
    return Epoch(number, {"valid_nll": nats}, seconds=3.0 * number, tokens=12_000)


def play(screen: Screen, clock: Clock, trial_ids, status: str = "completed") -> None:
    """Every trial runs its four epochs of three seconds, one after the other."""
    for trial_id in trial_ids:
        screen.started(trial_of(trial_id))
        for number in range(1, 5):
            clock.now += 3
            screen.progress(trial_id, None)
            screen.progress(trial_id, epoch(number))
        screen.finished(trial_id, ended(trial_id, status))
        screen.refresh()


def plain(record: StudyRecord, clock: Clock) -> tuple[Screen, io.StringIO]:
    stream = io.StringIO()
    return Screen(record, stream=stream, clock=clock), stream


def test_plain_lines_report_each_trial():
    clock, record = Clock(), record_of()
    screen, stream = plain(record, clock)
    with screen:
        screen.finished("base-0", ended("base-0"))
        play(screen, clock, ["doc [15,5]-0", "balance β-0"])
        screen.started(trial_of("base-1"))
        screen.finished("base-1", ended("base-1", "diverged", reason="the loss became nan\nmore"))
        screen.note("the search of base is over")
    lines = stream.getvalue().splitlines()
    assert lines == [
        "layers@laptop: 6 trials of 3 arms",
        "1 of 6 trials were already done",
        "[2/6] doc [15,5] seed 1: valid perplexity 54.60 in 12s",
        "[3/6] balance β seed 1: valid perplexity 54.60 in 12s",
        "[4/6] base seed 2: diverged in 0s: the loss became nan",
        "the search of base is over",
        "layers@laptop: stopped, 4 of 6 trials done (1 diverged) after 24s",
    ]


def test_plain_lines_have_no_control_characters():
    clock = Clock()
    screen, stream = plain(record_of(arms=("base", "a\x1b[31m\rb")), clock)
    with screen:
        play(screen, clock, ["base-0", "a\x1b[31m\rb-0"])
        screen.note("two\nlines\x07")
    assert all(line.isprintable() for line in stream.getvalue().split("\n"))


def test_thousands_of_trials_are_reported_rarely():
    clock, record = Clock(), record_of(num_seeds=1000)
    screen, stream = plain(record, clock)
    with screen:
        for trial in record.trials:
            clock.now += 0.1
            screen.started(trial_of(trial.id))
            screen.finished(
                trial.id, ended(trial.id, "failed" if trial.seed > 950 else "completed")
            )
            if trial.seed % 10 == 0:
                screen.refresh()
    lines = stream.getvalue().splitlines()
    assert 10 <= len(lines) - 22 <= 300 / 20 + 1  # a line in 20 s, 20 of troubles, first, last
    assert lines[-1] == "layers@laptop: 3000 of 3000 trials done (150 failed) after 5m00s"


def test_while_nothing_ends_lines_become_rarer():
    clock = Clock()
    screen, stream = plain(record_of(), clock)
    with screen:
        screen.started(trial_of("base-0"))
        for _ in range(3600):
            clock.now += 1
            screen.refresh()
    assert 5 <= len(stream.getvalue().splitlines()) <= 12


def test_time_left_follows_from_what_trials_took():
    clock = Clock()
    screen, stream = plain(record_of(), clock)
    with screen:
        assert screen.board.seconds_left(0.0) is None
        play(screen, clock, ["base-0", "base-1"])
        assert screen.board.seconds_left(clock.now) == pytest.approx(4 * 12)
        screen.started(trial_of("balance β-0"))
        screen.progress("balance β-0", epoch(1))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(3 * 12 + 9)
        clock.now += 25
        screen.refresh()
    assert "about 42s left · 2 of 6 trials done · 1 running" in stream.getvalue()


def test_a_trial_that_takes_longer_than_usual_is_not_about_to_end():
    """It may take as much longer again: `about 0s left` stood for minutes."""
    clock = Clock()
    screen, _ = plain(record_of(), clock)
    with screen:
        play(screen, clock, ["base-0", "base-1", "balance β-0", "balance β-1", "doc [15,5]-0"])
        screen.started(trial_of("doc [15,5]-1"))
        screen.refresh()
        for elapsed, left in ((5, 7), (12, 0), (15, 3), (36, 24)):
            start = screen.board.running["doc [15,5]-1"].start
            assert screen.board.seconds_left(start + elapsed) == pytest.approx(left)


def test_time_left_of_a_study_that_resumes_is_known_at_once():
    """By the trials' own clocks, 12 s each, of which one had run two epochs."""
    clock = Clock()
    screen, _ = plain(record_of(), clock)
    with screen:
        for trial_id in ("base-0", "base-1"):
            journal = ended(trial_id)
            screen.finished(trial_id, replace(journal, epochs=tuple(map(epoch, range(1, 5)))))
        screen.started(trial_of("doc [15,5]-0"))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(4 * 12)
        clock.now += 2
        screen.progress("doc [15,5]-0", epoch(3))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(3 * 12 + 3)


def test_an_evaluation_that_another_driver_made_is_known_by_its_own_clock():
    """It took 40 s and trains nothing; a trial that trains for 12 s says nothing of it."""
    clock = Clock()
    record = record_of(num_seeds=2, arms=("base", "judged"))
    planned = tuple(replace(t, epochs={"base": 4, "judged": 0}[t.arm]) for t in record.trials)
    screen, _ = plain(replace(record, trials=planned), clock)
    with screen:
        trained, judged = ended("base-0"), ended("judged-0")
        screen.finished("base-0", replace(trained, epochs=tuple(map(epoch, range(1, 5)))))
        screen.finished("judged-0", replace(judged, outcome=replace(judged.outcome, seconds=40.0)))
        screen.started(trial_of("base-1"))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(12 + 40)


def test_time_left_of_arms_that_ran_elsewhere_follows_what_this_machine_takes():
    """Another machine took 12 s for every trial; here an epoch of one arm takes 1 s, not 3."""
    clock = Clock()
    screen, _ = plain(record_of(num_seeds=2, arms=("base", "doc", "iog")), clock)
    with screen:
        for trial_id in ("base-0", "doc-0", "iog-0"):
            journal = ended(trial_id)
            screen.finished(trial_id, replace(journal, epochs=tuple(map(epoch, range(1, 5)))))
        screen.started(trial_of("base-1"))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(3 * 12)
        clock.now += 1
        screen.progress("base-1", replace(epoch(1), seconds=1.0))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(3 + 2 * 4)
        clock.now += 5  # it ended after 6 s: half of what it took there
        screen.finished("base-1", ended("base-1"))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(2 * 6)


def test_time_left_is_known_before_the_first_epoch_has_ended():
    """Epochs take 100 s. The first slice also loads the corpus, which says nothing of an epoch."""
    clock = Clock()
    screen, console = interactive(record_of(num_seeds=2, arms=("base",)), clock)
    with screen:
        screen.started(trial_of("base-0"))
        for clock.now, reached in ((9, 0.01), (10, 0.02)):
            screen.progress("base-0", None, reached)
            screen.refresh()
            assert screen.board.seconds_left(clock.now) is None  # one percent is too little
        clock.now = 48
        screen.progress("base-0", None, 0.4)
        console.export_text()
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(360 + 400)
        assert "base train 1 0.4/4 – –" in [
            " ".join(line.split()) for line in console.export_text().splitlines()
        ]


def test_time_left_of_a_trial_that_resumes_in_its_middle():
    clock = Clock()
    screen, _ = plain(record_of(num_seeds=1, arms=("base",)), clock)
    with screen:
        screen.started(trial_of("base-0"))
        screen.progress("base-0", None, 2.4)
        clock.now += 20
        screen.progress("base-0", None, 2.6)
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(140)
        clock.now += 50  # its own clock counts the epochs before too: slower, on another machine
        screen.progress("base-0", replace(epoch(3), seconds=900.0), 3.0)
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(70 / 0.6)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("start", [0, 4])
def test_time_left_of_a_trial_that_was_cut_and_repeats_epochs(start, share):
    """Epochs of a minute; after the twelfth it starts again, from its beginning or a checkpoint."""
    clock = Clock()
    screen, _ = plain(record_of(1, arms=("base",)), clock)
    trial = replace(trial_of("base-0"), values={"training.epochs": 40})
    board = screen.board
    board.started(trial, 0.0)
    for number in range(1, 13):
        board.progress(trial.id, replace(epoch(number), seconds=60.0 * number), 60.0 * number)
    now = 900.0
    if share:
        board.reached(trial.id, start + 0.1, now + 6)
        board.reached(trial.id, start + 0.5, now + 30)
        assert board.seconds_left(now + 30) == pytest.approx(60 * (40 - start - 0.5))
    for number in (1, 2):
        done, now = start + number, now + 60.0
        board.reached(trial.id, done - 0.1, now - 6)
        board.progress(trial.id, replace(epoch(done), seconds=60.0 * done), now)
        assert board.seconds_left(now) == pytest.approx(60 * (40 - done))
    board.finished(trial.id, ended(trial.id), now)
    assert board.running == {}


def test_what_follows_the_last_update_never_takes_less_than_no_time():
    clock = Clock()
    screen, _ = plain(record_of(num_seeds=1, arms=("base",)), clock)
    with screen:
        screen.started(trial_of("base-0"))
        for clock.now, reached in ((2, 0.02), (400, 4.0)):
            screen.progress("base-0", None, reached)
        for clock.now in (401, 430, 500):
            screen.refresh()
            assert screen.board.seconds_left(clock.now) == pytest.approx(clock.now - 400)


def test_time_left_follows_the_latest_epochs():
    """A machine that gets busy: ten epochs of 3 s, then as many of 9 s; then the end takes 5 s."""
    clock = Clock()
    screen, _ = plain(record_of(num_seeds=2, arms=("base",)), clock)
    trial, seconds = replace(trial_of("base-0"), values={"training.epochs": 30}), 0.0
    with screen:
        screen.started(trial)
        for number in range(1, 21):
            took = 3.0 if number <= 10 else 9.0
            seconds, clock.now = seconds + took, clock.now + took
            screen.progress("base-0", replace(epoch(number), seconds=seconds))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(10 * 9 + 30 * 9)
        for number in range(21, 31):
            seconds, clock.now = seconds + 9, clock.now + 9
            screen.progress("base-0", replace(epoch(number), seconds=seconds))
        clock.now += 5
        screen.finished("base-0", ended("base-0"))
        screen.started(replace(trial_of("base-1"), values={"training.epochs": 30}))
        screen.progress("base-1", replace(epoch(1), seconds=4.0))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(29 * 4 + 5)


def test_time_left_of_other_arms_follows_from_an_epoch_of_this_one():
    """Counting takes a second and says nothing of training; another arm has twice the epochs."""
    clock = Clock()
    epochs = {"count": 0, "short": 4, "long": 8, "measured": 0}
    record = record_of(num_seeds=1, arms=tuple(epochs))
    planned = tuple(replace(trial, epochs=epochs[trial.arm]) for trial in record.trials)
    screen, _ = plain(replace(record, trials=planned), clock)
    with screen:
        screen.started(trial_of("count-0"))
        clock.now += 1
        screen.finished("count-0", ended("count-0"))
        screen.started(trial_of("short-0"))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) is None
        clock.now += 3
        screen.progress("short-0", epoch(1))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(9 + 24 + 1)
        for number in range(2, 5):
            clock.now += 3
            screen.progress("short-0", epoch(number))
        journal = replace(ended("short-0"), epochs=tuple(map(epoch, range(1, 5))))
        screen.finished("short-0", journal)
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(24 + 1)


def test_a_model_that_several_arms_judge_is_waited_for_once():
    clock = Clock()
    record = record_of(num_seeds=1, arms=("base", "dynamic", "with counts"))
    base, dynamic, counts = (replace(t, epochs=0, stage="judged") for t in record.trials)
    trained = replace(base, epochs=4, stage="train")
    shared = [replace(trained, arm=t.arm, final=False) for t in (dynamic, counts)]
    planned = (trained, shared[0], dynamic, shared[1], counts)
    early = replace(record.trials[0], id="early-0", arm="early", epochs=4)
    screen, _ = plain(replace(record, trials=(early, *planned)), clock)
    with screen:
        screen.started(trial_of("early-0"))
        for number in range(1, 5):
            clock.now += 3
            screen.progress("early-0", epoch(number))
        screen.finished("early-0", replace(ended("early-0"), epochs=(*map(epoch, range(1, 5)),)))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(12)
        screen.started(trial_of("base-0"))
        clock.now += 3
        screen.progress("base-0", epoch(1))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(9)


def test_before_any_was_evaluated_that_takes_what_follows_a_last_epoch():
    clock = Clock()
    record = record_of(num_seeds=1, arms=("base", "judged"))
    planned = tuple(replace(t, epochs=4 * (t.arm == "base")) for t in record.trials)
    screen, _ = plain(replace(record, trials=planned), clock)
    with screen:
        screen.started(trial_of("base-0"))
        for number in range(1, 5):
            clock.now += 3
            screen.progress("base-0", epoch(number))
        clock.now += 5
        journal = replace(ended("base-0"), epochs=tuple(map(epoch, range(1, 5))))
        screen.finished("base-0", journal)
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(5)


def test_trials_that_are_stopped_early_count_in_a_search():
    """A search's trials end after 3 s or 12 s; its confirmed trials always take 12 s."""
    clock, search = Clock(), SearchRecord(arm="base", repeat=0, num_trials=4)
    search = replace(search, trials=("base-7", "base-8"))
    screen, _ = plain(record_of(num_seeds=1, arms=("base",), searches=(search,)), clock)
    with screen:
        screen.started(trial_of("base-7"))
        screen.progress("base-7", epoch(1))
        clock.now += 3
        screen.finished("base-7", ended("base-7", status="pruned"))
        play(screen, clock, ["base-8"])
        assert screen.board.seconds_left(clock.now) == pytest.approx(2 * 7.5 + 7.5)
        play(screen, clock, ["base-0"])
        assert screen.board.seconds_left(clock.now) == pytest.approx(2 * 7.5)


def test_what_will_confirm_a_search_is_counted_before_it_is_planned():
    """Two trials of four epochs, then one of twelve and an evaluation; another arm has the same."""
    clock, arms = Clock(), ("base", "doc")
    searches = [
        SearchRecord(arm=arm, repeat=0, num_trials=2, confirming=(12, 0), shared=arm == "doc")
        for arm in arms
    ]
    screen, _ = plain(record_of(num_seeds=0, arms=arms, searches=tuple(searches)), clock)
    with screen:
        assert screen.board.total == 2 + 2 * 2
        searches[0] = replace(searches[0], trials=("base-7",))
        screen.planned(record_of(num_seeds=0, arms=arms, searches=tuple(searches)))
        screen.started(trial_of("base-7"))
        for number in range(1, 5):
            clock.now += 3
            screen.progress("base-7", epoch(number))
        screen.finished("base-7", replace(ended("base-7"), epochs=[*map(epoch, range(1, 5))]))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(12 + 2 * 12 * 3)
        assert screen.board.arms["doc"].left == 2
        searches[0] = replace(searches[0], confirming=())
        screen.planned(record_of(num_seeds=1, arms=arms, searches=tuple(searches)))
        screen.refresh()
        assert screen.board.total == 2 + 2 + 2  # searched, planned, and still to be planned


def test_time_left_counts_what_waits_for_what_runs_beside_idle_workers():
    """A gate waits for its seed's model, and an odd number of trials leaves a worker idle."""
    clock, record = Clock(), record_of(num_seeds=2, arms=("base", "gate"))
    trials = [
        replace(trial, epochs=4, parents=(f"base-{trial.seed_index}",) * (trial.arm == "gate"))
        for trial in record.trials
    ]
    screen, _ = plain(replace(record, trials=tuple(trials)), clock)
    with screen:
        for trial_id in ("base-0", "base-1"):
            screen.started(trial_of(trial_id))
        clock.now += 12
        screen.finished("base-0", ended("base-0"))
        screen.started(trial_of("gate-0"))
        screen.progress("base-1", epoch(2))
        screen.refresh()
        left = screen.board.seconds_left
        assert left(clock.now) == pytest.approx(6 + 12)  # and gate-0, for 12 s, beside them
        clock.now += 12
        screen.finished("gate-0", ended("gate-0"))
        screen.progress("base-1", epoch(3))
        screen.refresh()
        assert left(clock.now) == pytest.approx(3 + 12)
        assert left(clock.now, [screen.board.arms["base"]]) == pytest.approx(3)


def test_the_confirmation_of_a_search_waits_for_all_its_trials():
    """Three trials on two workers take two rounds; then one trial of four epochs confirms."""
    clock = Clock()
    search = SearchRecord(arm="base", repeat=0, num_trials=3, confirming=(4,))
    search = replace(search, trials=("base-7", "base-8"))
    screen, _ = plain(record_of(num_seeds=0, arms=("base",), searches=(search,)), clock)
    with screen:
        for trial_id in search.trials:
            screen.started(trial_of(trial_id))
            screen.progress(trial_id, epoch(1))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(9 + 12 + 12)


def test_a_search_waits_for_the_one_that_it_inherits_from_and_stages_for_those_before():
    """Each search is a round of 12 s; what confirms the last one is trained, then fine-tuned."""
    clock = Clock()
    first = SearchRecord(arm="base", repeat=0, num_trials=2, trials=("base-7", "base-8"))
    heir = SearchRecord(arm="heir", repeat=0, num_trials=2, inherits="base", confirming=(4, 4))
    searches = (first, replace(heir, confirming_after=((), (0,))))
    screen, _ = plain(record_of(num_seeds=0, arms=("base", "heir"), searches=searches), clock)
    with screen:
        for trial_id in first.trials:
            screen.started(trial_of(trial_id))
            screen.progress(trial_id, epoch(1))
        screen.refresh()
        assert screen.board.seconds_left(clock.now) == pytest.approx(9 + 12 + 2 * 12)


def test_a_search_over_a_model_waits_for_the_model():
    """How to evaluate it is searched: a trial for which a worker is idle meanwhile."""
    clock = Clock()
    search = SearchRecord(arm="base", repeat=0, num_trials=1, seed_index=0)
    screen, _ = plain(record_of(num_seeds=1, arms=("base", "doc"), searches=(search,)), clock)
    with screen:
        for trial_id in ("base-0", "doc-0"):
            screen.started(trial_of(trial_id))
            screen.progress(trial_id, epoch(1))
        screen.refresh()
        base = screen.board.arms["base"]
        assert screen.board.seconds_left(clock.now, [base]) == pytest.approx(9 + 12)


def test_a_plan_that_grows_is_counted():
    """A search asks for two trials of four; one is its arm's best, and none enters the mean."""
    clock, search = Clock(), SearchRecord(arm="base", repeat=0, num_trials=4)
    record = record_of(num_seeds=0, searches=(search,))
    screen, _ = plain(record, clock)
    with screen:
        assert screen.board.total == 4
        requested = SearchRecord(arm="base", repeat=0, num_trials=4, trials=("base-7", "base-8"))
        screen.planned(record_of(num_seeds=0, searches=(requested,)))
        play(screen, clock, ["base-7", "base-8"])
        assert (screen.board.total, screen.board.arms["base"].left) == (4, 2)
        screen.finished("base-1", ended("base-1", nats=3.9))  # before the plan says so
        screen.refresh()
        screen.planned(record_of(searches=(requested,)))
        screen.refresh()
        base = screen.board.arms["base"]
        assert (len(base.done), base.total, base.best) == (3, 6, 3.9)
        assert base.finals == {"base-0", "base-1"}


def test_a_trial_shared_by_two_arms_is_one_trial():
    trials = tuple(
        PlannedTrial(id="same-0", arm=arm, stage="train", seed=1, seed_index=0, final=True)
        for arm in ("base", "again")
    )
    record = record_of(arms=("base", "again"), trials=trials)
    clock = Clock()
    screen, _ = plain(record, clock)
    with screen:
        play(screen, clock, ["same-0"])
        assert (screen.board.total, len(screen.board.ended)) == (1, 1)
        assert [len(screen.board.arms[arm].done) for arm in ("base", "again")] == [1, 1]


def interactive(
    record: StudyRecord, clock: Clock, height: int = 40, width: int = 100
) -> tuple[Screen, Console]:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, record=True
    )
    return Screen(record, interactive=True, console=console, clock=clock), console


def test_the_live_view_shows_arms_and_running_trials():
    clock = Clock()
    screen, console = interactive(record_of(), clock)
    with screen:
        play(screen, clock, ["base-0", "base-1", "doc [15,5]-0"])
        play(screen, clock, ["balance β-0"], status="diverged")
        screen.started(trial_of("doc [15,5]-1"))
        screen.progress("doc [15,5]-1", epoch(1))
        screen.retried("doc [15,5]-1", "its worker died")
        console.export_text()  # forget what was shown before
        screen.refresh()
    text = console.export_text()
    assert "layers@laptop: Which layers?" in text
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "base 2/2 54.60 54.60±0.00" in rows
    assert "doc [15,5] 1/2 1 54.60 54.60 9s" in rows
    assert "balance β 1/2 1 – – 12s" in rows
    assert "doc [15,5] train 2 1/4 90.02 4k" in rows
    assert any("48s elapsed · about 21s left · 4 of 6 trials done" in row for row in rows)
    assert "doc [15,5] seed 2 is being retried: its worker died" in rows
    assert rows[-1] == "layers@laptop: stopped, 4 of 6 trials done (1 diverged) after 48s"


@pytest.mark.parametrize("width", [60, 80])
def test_the_live_view_fits_a_narrow_terminal(width: int):
    arms = tuple(f"AWD-LSTM with a mixture of softmaxes, balance {x}" for x in ("0", "0.001"))
    clock = Clock()
    screen, console = interactive(record_of(arms=arms, base_arm=arms[0]), clock, width=width)
    with screen:
        play(screen, clock, [f"{arms[0]}-0", f"{arms[0]}-1"])
        screen.started(trial_of(f"{arms[1]}-0"))
        screen.progress(f"{arms[1]}-0", epoch(1))
        console.export_text()
        screen.refresh()
    rows = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert any(row.endswith("ance 0 2/2 54.60 54.60±0.00") for row in rows)
    assert any("0.001 0/2 1 – – " in row for row in rows)
    assert any("0.001 train 1 1/4 90.02 4k" in row for row in rows)
    assert "2 of 4 trials done · 1 running" in " ".join(rows)
    assert "…" not in "".join(row for row in rows if "elapsed" in row)


def test_the_live_view_is_no_higher_than_the_terminal():
    clock, arms = Clock(), tuple(f"arm{i}" for i in range(50))
    screen, console = interactive(record_of(arms=arms), clock, height=24)
    with screen:
        for arm in arms[:30]:
            screen.started(trial_of(f"{arm}-0"))
        console.export_text()
        screen.refresh()
        lines = console.export_text().splitlines()
    assert "more arms" in "".join(lines)
    assert len(lines) <= 24


def test_a_sender_of_events_never_waits_for_the_screen():
    """Events are queued: with the screen's lock held, sending them still returns."""
    record = record_of(num_seeds=2000)
    screen, _ = interactive(record, Clock())
    trials = [(trial_of(t.id), ended(t.id), epoch(1)) for t in record.trials]

    def send() -> None:
        for trial, journal, first in trials:
            screen.started(trial)
            screen.progress(trial.id, first)
            screen.finished(trial.id, journal)

    sender = threading.Thread(target=send, daemon=True)
    with screen, screen._lock:
        sender.start()
        sender.join(timeout=60)
        assert not sender.is_alive()
    assert len(screen.board.ended) == len(trials)


def test_events_may_come_from_many_threads():
    record, clock = record_of(num_seeds=300), Clock()
    screen, _ = plain(record, clock)

    def send(arm: str) -> None:
        for index in range(300):
            screen.started(trial_of(f"{arm}-{index}"))
            screen.finished(f"{arm}-{index}", ended(f"{arm}-{index}"))
            screen.refresh()

    with screen:
        threads = [threading.Thread(target=send, args=(arm,)) for arm in ARMS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(screen.board.ended) == 900
    assert not screen.board.running


def test_a_stream_that_goes_away_stops_nothing():
    clock = Clock()
    screen, stream = plain(record_of(), clock)
    with screen:
        stream.close()
        play(screen, clock, ["base-0"])
    assert len(screen.board.ended) == 1


def test_a_stream_without_unicode_gets_ascii():
    clock, raw = Clock(), io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with Screen(record_of(), stream=stream, clock=clock) as screen:
        play(screen, clock, ["balance β-0"])
        stream.flush()
    assert "balance beta seed 1" in raw.getvalue().decode("ascii")


def test_without_rich_there_are_lines(monkeypatch):
    real = builtins.__import__

    def without_rich(name, *rest):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    screen = Screen(record_of(), interactive=True, stream=io.StringIO())
    assert isinstance(screen._presenter, Lines)


def test_an_unknown_trial_does_no_harm():
    clock = Clock()
    screen, _ = plain(record_of(), clock)
    with screen:
        screen.progress("nobody-1", epoch(1))
        screen.retried("nobody-1", "lost")
        screen.finished("other-1", ended("other-1"))
        screen.refresh()
    assert screen.board.total == 7


def test_a_reason_is_told_once():
    clock = Clock()
    screen, text = plain(record_of(num_seeds=2), clock)
    trials = [planned.id for planned in record_of(num_seeds=2).trials[:2]]
    with screen:
        for trial_id in trials:
            screen.started(trial_of(trial_id))
            screen.finished(trial_id, ended(trial_id, "failed", reason="train.py:3: no layer"))
    lines = [line for line in text.getvalue().splitlines() if "failed" in line]
    first = trial_of(trials[0]).name
    assert lines[0].endswith(": train.py:3: no layer")
    assert lines[1].endswith(f": as {first}")


def test_the_record_counts_trials_that_searches_have_yet_to_start():
    """Two of four are suggested; three epochs and five will confirm the winner. Another arm's
    search has the same trials, and a third one has ended before its number."""
    search = SearchRecord(arm="base", repeat=0, num_trials=4, trials=("base-7", "base-8"))
    searches = (
        replace(search, confirming=(3, 5)),
        replace(search, arm="doc", shared=True),
        replace(search, arm="iog", trials=("iog-7",), ended=True),
    )
    record = record_of(num_seeds=1, arms=("base",), searches=searches)
    assert len(record.trial_ids()) == 4
    assert record.num_trials() == 4 + 2 + 2
