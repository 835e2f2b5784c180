"""Tables for papers: bold only where the test says so, holes listed, a hash that leads back."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from ablate import cli
from ablate.compare import formats
from ablate.compare.judged import Judged
from ablate.compare.table import provenance
from ablate.config.identity import digest
from ablate.store.attempt import Attempt
from ablate.store.store import Store
from tests.support import tables

NOISE = (0.0, 0.012, -0.009, 0.004, -0.006)
BETTER = (0.001, -0.002, 0.002, 0.0, -0.001)


def study(by_hand, effect: float = -0.2, **fields):
    base = [4.0 + seed for seed in NOISE]
    arm = [4.0 + effect + seed + own for seed, own in zip(NOISE, BETTER, strict=True)]
    return by_hand({"base": base, "b_arm & co": arm}, record_fields=fields)


def written(made, form: str) -> str:
    return tables.written(Judged(made.record, made.journals), form)


@pytest.mark.parametrize("form, bold", [("latex", r"\textbf{"), ("html", "<b>")])
def test_the_best_is_bold_only_if_the_test_says_so(by_hand, form, bold):
    assert written(study(by_hand), form).count(bold) == 1
    assert bold not in written(study(by_hand, effect=-0.001), form)


@pytest.mark.parametrize("form", ["latex", "html"])
def test_a_table_with_holes_says_so(by_hand, form):
    whole, holed = study(by_hand), study(by_hand)
    holed.end("base-1", "diverged")
    assert "INCOMPLETE" not in written(whole, form)
    text = written(holed, form)
    assert "INCOMPLETE: base: 4 of 5 (1 diverged)" in text
    assert text.index("INCOMPLETE") < text.index("tabular" if form == "latex" else "<table")


def test_csv_has_every_number_unrounded(by_hand):
    made = study(by_hand)
    made.end("base-1", "failed")
    rows = list(csv.DictReader(io.StringIO(written(made, "csv"))))
    by_arm = {(row["arm"], row["split"]): row for row in rows}
    base = by_arm["base", "test"]
    left = [4.0 + NOISE[i] for i in (0, 2, 3, 4)]
    assert float(base["nats"]) == pytest.approx(sum(left) / 4, abs=1e-15)
    assert (base["seeds"], base["planned"], base["holes"]) == ("4", "5", "1")
    arm = by_arm["b_arm & co", "test"]
    assert float(arm["low_nats"]) < float(arm["delta_nats"]) < float(arm["high_nats"]) < 0
    assert arm["verdict"] == "better" and by_arm["b_arm & co", "valid"]["verdict"] == ""


def hash_of(made) -> str:
    return digest(provenance.contents_of(Judged(made.record, made.journals)))


def test_equal_tables_have_equal_hashes_and_others_do_not(by_hand):
    assert hash_of(study(by_hand)) == hash_of(study(by_hand))
    others = [study(by_hand, effect=-0.1), study(by_hand, corpus_digest="other"), study(by_hand)]
    others[2].end("base-1", "diverged")
    assert len({hash_of(each) for each in (study(by_hand), *others)}) == 4


HERE = Attempt(
    host="box",
    hardware="cpu",
    versions={"torch": "2.13.0"},
    ablate_git={"commit": "abc", "dirty": True},
)


def kept(by_hand, store: Store):
    made = study(by_hand)
    for number, journal in enumerate(made.journals.values()):
        journal.config = {"head": "mos", "backbone.units": 20 + number // 5}
        journal.attempts = [HERE]
        journal.outcome = replace(journal.outcome, digest=f"digest{number}")
        journal.write(store)
    summary = Judged(made.record, made.journals)
    return made, provenance.save(store, summary)


def test_provenance_shows_what_is_behind(by_hand, tmp_path):
    store = Store(str(tmp_path))
    made, key = kept(by_hand, store)
    text = provenance.show(store, key[:6])
    assert f"table {key} of mixture_layers@laptop" in text and made.record.corpus_digest in text
    for trial in made.journals:
        assert trial in text
    assert (
        'head = "mos"' in text and "backbone.units = 20" in text and "backbone.units = 21" in text
    )
    assert "10 trials: ablate commit abc, with uncommitted changes" in text
    assert "10 trials: box, cpu; torch 2.13.0" in text
    assert "since this table" not in text


def test_provenance_says_what_has_changed_since(by_hand, tmp_path):
    store = Store(str(tmp_path))
    made, key = kept(by_hand, store)
    base = made.journals["base-0"]
    base.outcome = replace(base.outcome, digest="another")
    made.journals["base-0"].write(store)
    store.delete("trials/base-1")
    text = provenance.show(store, key)
    assert "result of trial base-0 has changed since" in text
    assert "trial base-1 is no longer in this store" in text


@pytest.mark.parametrize("form", [name for name in formats.names() if name != "text"])
def test_the_hash_of_an_exported_table_leads_back(by_hand, workspace, capsys, form):
    from ablate.store import study_record

    made = study(by_hand)
    study_record.write(workspace.store, made.record)
    for journal in made.journals.values():
        journal.write(workspace.store)
    place = ["--workspace", str(workspace.folder)]
    assert cli.main(["table", "mixture_layers", "--format", form, *place]) == 0
    key = re.findall(r"[0-9a-f]{16}", capsys.readouterr().out)[-1]
    assert cli.main(["provenance", key, *place]) == 0
    assert "mixture_layers@laptop" in capsys.readouterr().out


def measured(by_hand, *values: float):
    """The first models of the base arm, measured."""
    made = study(by_hand)
    for index, value in enumerate(values):
        made.plan(f"m-{index}", "base", index, stage="measure", parents=(f"base-{index}",))
        metrics = {"valid_nll": 4.0, "mixture_use.test_variation": value}
        made.end(f"m-{index}", "completed", metrics=metrics)
    return made


def test_what_measured_the_models_is_part_of_a_table(by_hand, tmp_path):
    whole, other, holed = (measured(by_hand, 0.2, value) for value in (0.3, 0.4, 0.3))
    del holed.journals["m-1"]
    assert len({hash_of(each) for each in (study(by_hand), whole, other, holed)}) == 4
    assert "INCOMPLETE" not in written(whole, "html")
    text = written(holed, "html")
    assert "INCOMPLETE: base: 1 model not measured." in text and "<th>n</th>" not in text
    holes = {row["arm"]: row["holes"] for row in csv.DictReader(io.StringIO(written(holed, "csv")))}
    assert holes == {"base": "1", "b_arm & co": "0"}
    store = Store(str(tmp_path))
    key = provenance.save(store, Judged(whole.record, whole.journals))
    assert re.search(r"^measure +\? +m-1 +4.000000", provenance.show(store, key), re.M)


def test_provenance_shows_the_winners_of_all_searches(by_hand, tmp_path):
    made, store = study(by_hand), Store(str(tmp_path))
    for number, (name, journal) in enumerate(made.journals.items()):
        own = replace(journal.trial, seed=number + 1)
        config = {"head": "mos", "backbone.units": 30 if name in ("base-1", "base-3") else 20}
        made.journals[name] = replace(journal, trial=own, config=config)
        made.journals[name].write(store)
    text = provenance.show(store, provenance.save(store, Judged(made.record, made.journals)))
    assert "config of base, seeds 1, 3, 5\n  backbone.units = 20" in text
    assert "config of base, seeds 2, 4\n  backbone.units = 30" in text
    assert "config of b_arm & co\n  backbone.units = 20" in text
