"""The effects of a factorial in every export. The whole of one is tests/golden/effects.txt."""

from __future__ import annotations

import csv
import io

import pytest
from scipy import stats

from ablate import cli
from ablate.compare.formats import csv as formats_csv
from ablate.compare.judged import Judged
from ablate.compare.table import numbers
from ablate.store import study_record
from ablate.study.designs import factorial
from tests.support.golden import golden
from tests.support.tables import KEY, written

SHARED = (0.0, 0.031, -0.022, 0.013, -0.008)
OWN = {  # what a seed adds to each arm: noise that is the same on every machine
    "off, off": (0.002, -0.003, 0.001, 0.004, -0.002),
    "off, on": (-0.004, 0.001, 0.003, -0.001, 0.002),
    "on, off": (0.001, 0.003, -0.004, 0.002, -0.001),
    "on, on": (0.003, -0.002, 0.002, -0.004, 0.001),
}


def study_of(by_hand, gate_alone: float = -0.05, gate_in_both: float = 0.001):
    """A gate that helps only without dropout."""
    two = {"off": {}, "on": {}}
    design = factorial({"gate & co": two, "drop_out": two})
    effects = {
        "off, off": 0.0,
        "off, on": -0.2,
        "on, off": gate_alone,
        "on, on": gate_in_both - 0.2,
    }
    losses = {}
    for arm in design.arms:
        place = ", ".join(arm.levels[name] for name in ("gate & co", "drop_out"))
        noise = zip(SHARED, OWN[place], strict=True)
        losses[arm.name] = [round(4.0 + effects[place] + s + o, 4) for s, o in noise]
    study = by_hand(losses, base_arm=design.arms[0].name)
    study.arm_fields = {arm.name: {"levels": dict(arm.levels)} for arm in design.arms}
    study.record_fields = {"design": design.kind}
    return study


def summary_of(study):
    return Judged(study.record, study.journals)


def headers(study) -> list[str]:
    """The columns of the two tables of unrounded numbers."""
    tables = numbers.arms(summary_of(study), "key"), numbers.effects(summary_of(study), "key")
    return [",".join(column.heading for column in table.columns) for table in tables]


def golden_text(by_hand) -> str:
    whole, holed = study_of(by_hand), study_of(by_hand)
    holed.end(holed.trials[-1].id, "diverged")
    texts = [written(summary_of(each), short=True) for each in (whole, holed)]
    texts += [written(summary_of(whole), form) for form in ("text", "markdown", "latex", "html")]
    texts += [written(summary_of(holed), "latex"), *headers(holed)]
    return ("\n\n" + "=" * 100 + "\n\n").join(texts) + "\n"


@pytest.mark.golden
def test_the_exports_are_the_golden_ones(by_hand):
    text = golden_text(by_hand)
    assert text == golden("effects.txt", text)


def rows_of(by_hand, **options) -> dict[str, dict[str, str]]:
    text = formats_csv.write(numbers.effects(summary_of(study_of(by_hand, **options)), KEY))
    return {row["effect"]: row for row in csv.DictReader(io.StringIO(text))}


def test_csv_has_every_number_of_an_effect(by_hand):
    row = rows_of(by_hand)["drop_out × gate & co"]
    arms = {k: [e + o for e, o in zip(SHARED, own, strict=True)] for k, own in OWN.items()}
    by_seed = [
        (on_on + 0.001 - on) - (off_on - (off + 0.05))
        for off, off_on, on, on_on in zip(*arms.values(), strict=True)
    ]
    expected = stats.ttest_1samp(by_seed, 0)
    low, high = expected.confidence_interval(0.95)
    assert float(row["delta_nats"]) == pytest.approx(sum(by_seed) / 5, abs=1e-9)
    assert (float(row["low_nats"]), float(row["high_nats"])) == pytest.approx((low, high), abs=1e-9)
    assert float(row["p"]) == pytest.approx(expected.pvalue, abs=1e-9)
    assert (row["pairs"], row["kind"], row["table"]) == ("5", "interaction", KEY)
    assert float(row["p_sign_flip"]) == 2 / 32
    assert (row["paired_by"], row["interval_of"]) == ("seed", "arms")


def exported(by_hand, workspace, *arguments: str) -> int:
    made = study_of(by_hand)
    study_record.write(workspace.store, made.record)
    for journal in made.journals.values():
        journal.write(workspace.store)
    return cli.main(["table", "mixture_layers", "--workspace", str(workspace.folder), *arguments])


def test_the_command_writes_effects_alone(by_hand, workspace, capsys):
    assert exported(by_hand, workspace, "--format", "csv", "--effects") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert (
        len(rows) == 7
        and cli.main(["provenance", rows[0]["table"], "--workspace", str(workspace.folder)]) == 0
    )


def test_effects_alone_are_refused_where_they_make_no_sense(by_hand, workspace, capsys):
    assert exported(by_hand, workspace, "--format", "latex", "--effects") == 2
    assert "goes with --format csv" in capsys.readouterr().err
    plain = by_hand({"base": [4.0] * 3, "other": [3.9] * 3})
    study_record.write(workspace.store, plain.record)
    for journal in plain.journals.values():
        journal.write(workspace.store)
    place = ["--workspace", str(workspace.folder)]
    assert cli.main(["table", "mixture_layers", "--format", "csv", "--effects", *place]) == 2
    assert "has no effects: its design is 'table'" in capsys.readouterr().err
