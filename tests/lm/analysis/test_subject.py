"""What an analysis can read from a trial, and what a trial does not have."""

from __future__ import annotations

from dataclasses import make_dataclass, replace

import pytest

from ablate.config import tasks
from ablate.config.identity import Parent, make_trial
from ablate.config.metrics import Metric
from ablate.config.resolve import resolve
from ablate.errors import CombinationError, CorpusError, TrialError
from ablate.lm.analysis.subject import Subject
from ablate.lm.data.corpus import charged
from ablate.store import tokens as kept


def changed(subject: Subject, **labels) -> Subject:
    """The same files under another journal."""
    journal = replace(subject.journal, trial=replace(subject.journal.trial, **labels))
    return Subject(journal, subject.store, subject.data)


def test_the_model_gives_the_saved_log_probabilities(irlm, doc):
    for subject in (irlm, doc):
        stream = subject.stream("test")
        rows = [passed.mixture for passed in subject.passes("test")]
        assert sum(len(mixture.vectors_NJE) for mixture in rows) == len(stream) - 1
        assert len(subject.log_probs("test")) == len(stream) - 1
        recorded = subject.journal.outcome.metrics["test_nll"]
        assert -subject.log_probs("test").mean() == pytest.approx(recorded, rel=1e-5)


def test_a_trial_that_has_not_completed(irlm):
    running = Subject(replace(irlm.journal, outcome=None), irlm.store, irlm.data)
    for ask in (lambda: running.model, lambda: running.log_probs("valid")):
        with pytest.raises(TrialError, match="has not completed: it is still running"):
            ask()


def test_a_trial_that_must_not_see_the_test_text(train, irlm):
    searched = train(irlm.journal.trial.values, "searched", reads_test=False)
    assert len(searched.log_probs("valid")) == 499
    for ask in (lambda: searched.stream("test"), lambda: searched.log_probs("test")):
        with pytest.raises(TrialError, match="does not read the test split"):
            ask()


def test_a_trial_whose_files_are_gone(irlm):
    gone = changed(irlm, id="0" * 16)
    with pytest.raises(TrialError, match="has no weights"):
        _ = gone.model
    with pytest.raises(TrialError, match="has no log-probabilities of valid"):
        gone.log_probs("valid")
    judging = changed(irlm, id="0" * 16, parents=(Parent("member", "a" * 16),))
    with pytest.raises(TrialError, match="it evaluates those of aaaaaaaaaaaaaaaa"):
        _ = judging.model


def test_a_trial_that_was_evaluated_in_rows(train, irlm):
    """Not every token has a log-probability then, so none are saved."""
    rows = {"evaluator.standard.batch_size": 3}
    judged = train({**irlm.journal.trial.values, **rows}, "judged in rows")
    with pytest.raises(TrialError, match="has no log-probabilities of valid"):
        judged.log_probs("valid")


def test_a_text_that_has_changed(irlm):
    with pytest.raises(CorpusError, match="is not the one that trial"):
        _ = changed(irlm, corpus_digest="0" * 16).corpus


def test_a_trial_of_a_study_in_which_bits_per_byte_decide_reads_the_same_text(irlm):
    of_study = charged(irlm.journal.trial.corpus_digest)
    assert changed(irlm, corpus_digest=of_study).corpus.digest == irlm.corpus.digest


def test_a_gate_over_another_trial(train, doc, irlm):
    values = {**irlm.journal.trial.values, "gate": "iog", "gate.units": 4}
    values |= {"training.only_gate": True, "training.epochs": 1}
    gated = train(values, "gated", parents=(Parent("base", irlm.id),))
    assert [p.dtype.itemsize for m in gated.model.members for p in m.parameters()] == [8] * 4
    assert len(list(gated.passes("valid", 20))) == 1
    with pytest.raises(
        CombinationError, match=f"has no units of its own. Instead, one of: {irlm.id}"
    ):
        gated.require_whole("units")


def test_a_task_without_slots_has_no_technique(irlm, monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    config = make_dataclass("Config", [], frozen=True, kw_only=True)
    tasks.task("sums", config=config, metrics=Metric("accuracy"))(lambda run: {})
    values = {"task": "sums"}
    own = make_trial(resolve(values), values=values, seed=1, corpus_digest="")
    subject = Subject(replace(irlm.journal, trial=own), irlm.store, irlm.data)
    with pytest.raises(CombinationError, match=r"gate = none \(its task is 'sums'\), and this"):
        subject.require("gate", "iog")
    for ask in (lambda: subject.corpus, lambda: subject.stream("valid"), lambda: subject.model):
        with pytest.raises(CombinationError, match="is of the task 'sums'"):
            ask()


def test_each_reading_of_the_test_split_is_recorded_once(train, irlm):
    judged = train(dict(irlm.journal.trial.values), "looked at again")
    before = kept.num_readings(judged.store, judged.id)
    judged.log_probs("valid")
    assert kept.num_readings(judged.store, judged.id) == before
    judged.log_probs("test")
    list(judged.passes("test", num=5))
    assert kept.num_readings(judged.store, judged.id) == before + 1
