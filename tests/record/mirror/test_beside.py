"""`ablate compare STUDY...|PAPER...`: ours beside theirs, of both splits or of one."""

from __future__ import annotations

import csv
import io

import pytest

from ablate import cli
from ablate.store.study_record import SearchRecord


@pytest.fixture
def compared(recorded, capsys):
    """The table of a recorded study and one paper, by row and column."""
    recorded.study("one", {"ours": [recorded.trial("t0", {"head": "mos"})]})

    def ask(*options: str) -> dict[tuple[str, str], dict[str, str]]:
        locations = ["--workspace", str(recorded.workspace.folder), "--format", "csv"]
        assert cli.main(["compare", "one", "takase2018doc", *options, *locations]) == 0
        rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
        return {(row["from"], row["arm or model"]): row for row in rows}

    return ask


def _splits(rows: dict[tuple[str, str], dict[str, str]]) -> set[str]:
    titles = list(next(iter(rows.values())))[3:]
    return {title.split(",")[0].split()[-1] for title in titles}


@pytest.mark.slow
@pytest.mark.parametrize("split", ["valid", "test"])
def test_one_split_alone(compared, split):
    whole, part = compared(), compared("--split", split)
    assert (_splits(whole), _splits(part)) == ({"valid", "test"}, {split})
    for name, row in part.items():
        assert row.items() <= whole[name].items()
        assert any(list(row.values())[3:])
    gone = [row for name, row in whole.items() if name not in part]
    assert not any(text for row in gone for t, text in row.items() if f" {split}," in t)


def test_seeds_that_confirm_searches_are_not_taken_for_a_spread_of_their_own(recorded, capsys):
    """For a tuned arm, the number of searches follows the number of seeds."""
    seeds = [recorded.trial(f"t{i}", {"head": "mos"}, seed=i + 1) for i in range(6)]
    searches = tuple(SearchRecord(arm="ours", repeat=r, num_trials=2) for r in range(3))
    of_a_model = SearchRecord(arm="listed", repeat=0, num_trials=2, seed_index=0)
    arms = {"ours": seeds, "listed": [recorded.trial("t9", {"head": "doc"})]}
    recorded.study("tuned", arms, searches=(*searches, of_a_model), num_seeds=2)
    locations = ["--workspace", str(recorded.workspace.folder), "--format", "csv"]
    assert cli.main(["compare", "tuned", *locations]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    result = {row["arm or model"]: row["grammar test, ours"] for row in rows}
    assert result["ours"].endswith("(n=6, 3 searches)") and result["listed"].endswith("(n=1)")
