"""What Python users get from a study: text, HTML, frames, figures, and the best arm."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from ablate.compare.study_summary import StudySummary
from ablate.errors import ConfigError, MissingDependency
from ablate.store.study_record import SearchRecord
from tests.support.tables import written

BASE = (4.10, 4.12, 4.09, 4.11, 4.13)
OTHER = (4.00, 4.03, 3.98, 4.02, 4.04)


def summary_of(study):
    return StudySummary(study.record, study.journals)


@pytest.fixture
def summary(by_hand):
    study = by_hand({"base": BASE, "<b>other": OTHER})
    study.arm_fields = {"<b>other": {"changes": {"head": "doc"}}}
    return summary_of(study)


def test_it_prints_as_the_table_and_is_html_in_a_notebook(summary):
    assert str(summary) == repr(summary) == written(summary, short=True)
    html = summary._repr_html_()
    assert "<td>&lt;b&gt;other</td>" in html and "<b>other" not in html
    assert "<html" not in html and html.count("<style>") == 1
    rules = html.split("<style>")[1].split("</style>")[0].split("*/")[1]
    rules = [line for line in rules.splitlines() if line]
    assert all(line.startswith(".ablate") for line in rules), "else they style the notebook too"
    assert "#" not in "".join(rules), "no colour of its own: the notebook may be dark"


def test_its_frame_has_every_number_unrounded(summary, monkeypatch):
    frame = summary.to_frame()
    assert isinstance(frame, pd.DataFrame)
    row = frame.set_index(["arm", "split"]).loc[("<b>other", "test")]
    assert row["mean"] == summary.arm("<b>other").cells["test"].mean and row["seeds"] == 5
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependency, match="to_frame needs the package polars"):
        summary.to_frame("polars")
    polars = SimpleNamespace(DataFrame=lambda values, **how: (values, how))
    monkeypatch.setitem(sys.modules, "polars", polars)
    values, how = summary.to_frame("polars")
    assert values["arm"] == list(frame["arm"]) and how == {"infer_schema_length": None}
    with pytest.raises(ConfigError, match=r"unknown library 'panda'. Did you mean 'pandas'"):
        summary.to_frame("panda")


def test_the_best_arm_is_the_one_that_the_table_marks(summary, by_hand):
    best = summary.best()
    assert best and (best.arm, best.settings) == ("<b>other", {"head": "doc"})
    assert best.reason == "<b>other is better than every other arm by the corrected test, on test."
    assert str(best).endswith("Settings: head = 'doc'.")
    alike = summary_of(by_hand({"base": BASE, "other": tuple(reversed(BASE))}))
    none = alike.best()
    assert not none and none.arm is None and none.settings == {}
    assert "leads with a test perplexity of" in none.reason
    assert "no arm is better than every other one by the corrected test" in none.reason
    assert alike.best("other").arm == "other"
    with pytest.raises(ConfigError, match=r"unknown arm 'othr'. Did you mean 'other'"):
        alike.best("othr")


def test_the_best_settings_are_those_of_the_best_search(by_hand):
    study = by_hand({"base": BASE})
    study.arm_fields = {"base": {"changes": {"head": "doc", "optimizer.rate": 9.0}}}
    searches = []
    for repeat, (rate, loss) in enumerate([(1.0, 4.2), (2.0, 4.0), (3.0, 4.1)]):
        trial = f"tried-{repeat}"
        study.end(trial, "completed", metrics={"valid_nll": loss})
        values = {"optimizer.rate": rate}
        tried = replace(study.journals[trial].trial, values=values)
        study.journals[trial] = replace(study.journals[trial], config=values, trial=tried)
        searches.append(
            SearchRecord(
                arm="base", repeat=repeat, num_trials=1, trials=(trial,), chosen=trial, ended=True,
                rows={"optimizer.rate": "Rate"},
            )
        )  # fmt: skip
    study.record_fields = {"searches": tuple(searches)}
    best = summary_of(study).best()
    assert best.settings == {"head": "doc", "optimizer.rate": 2.0}
    assert best.reason.endswith("Settings found by the best on validation of its 3 searches.")
