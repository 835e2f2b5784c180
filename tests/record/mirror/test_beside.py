"""`ablate table compare STUDY...|PAPER...`: ours beside theirs, of both splits or of one."""

from __future__ import annotations

import csv
import io

import pytest

from ablate import cli
from ablate.config.metrics import ACCURACY, BITS, DISTANCE, MORE_PARAMETERS, VARIATION
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


def test_seeds_that_were_lost_or_are_to_run_are_counted(recorded, capsys):
    lost = recorded.trial("t1", {"head": "mos"}, seed=2, status="diverged")
    left = recorded.trial("t2", {"head": "mos"}, seed=3, status=None)
    arms = {"ours": [recorded.trial("t0", {"head": "mos"}), lost, left], "none": [left]}
    recorded.study("one", arms)
    result = {
        row["arm or model"]: row["grammar valid, ours"] for row in asked(recorded, capsys, "one")
    }
    assert result["ours"].endswith("(1 of 3)") and result["none"] == "(0 of 1)"


@pytest.mark.parametrize("first", ["diverged", "completed", None])
def test_a_seed_and_what_measures_its_model_count_once(recorded, capsys, first):
    """Both report the perplexity; of a seed that was lost, what would measure it failed."""
    trials = []
    for seed, status in enumerate((first, "completed", "completed"), 1):
        nats = {"valid_nll": 4.0 + seed / 10, "test_nll": 4.0 + seed / 10}
        measured = {**nats, "mixture_use.test_variation": 0.1 * seed}
        more = {"seed": seed, "status": status}
        trials.append(recorded.trial(f"t{seed}", {"head": "mos"}, metrics=nats, **more))
        more["status"] = "failed" if status == "diverged" else status
        parents = {"stage": "measure", "parents": (f"t{seed}",), "metrics": measured}
        trials.append(recorded.trial(f"m{seed}", {"head": "mos"}, **parents, **more))
    columns = (VARIATION.by("mixture_use"), BITS)
    recorded.study("measured", {"ours": trials}, columns=columns)
    (ours,) = asked(recorded, capsys, "measured")
    num = "n=3" if first == "completed" else "2 of 3"
    shown = {title: text for title, text in ours.items() if "ours" in title and "test" in title}
    assert len(shown) == 3 and all(text.endswith(f"({num})") for text in shown.values())


def asked(recorded, capsys, *names: str) -> list[dict[str, str]]:
    locations = ["--workspace", str(recorded.workspace.folder), "--format", "csv"]
    assert cli.main(["compare", *names, *locations]) == 0
    return [*csv.DictReader(io.StringIO(capsys.readouterr().out))]


def test_a_study_s_columns_stand_there_with_their_published_numbers(recorded, capsys):
    """Reported by a final trial itself, or by one that measures its model."""
    columns = tuple(
        metric.by(evaluator)
        for metric, evaluator in (
            (VARIATION, "mixture_use"),
            (DISTANCE, "word_vectors"),
            (ACCURACY, "completion"),
        )
    )
    own = {"valid_nll": 4.0, "test_nll": 4.0, "completion.test_accuracy": 0.5}
    trials = []
    for seed in (1, 2):
        trials += [
            recorded.trial(f"t{seed}", {"head": "mos"}, seed=seed, metrics=own),
            recorded.trial(
                f"m{seed}",
                {"head": "mos"},
                seed=seed,
                stage="measure",
                parents=(f"t{seed}",),
                metrics={
                    "valid_nll": 9.0,
                    "mixture_use.test_variation": 0.1 + 0.1 * seed,
                    "word_vectors.distance": 0.5,
                },
            ),
        ]
    published = {"mixture_use.variation": {"test": 0.279}, "more_parameters": {"arms": 0.8}}
    small = recorded.trial("t9", {"head": "softmax"}, num_parameters=200_000)
    recorded.study(
        "measured",
        {"ours": trials, "small": [small]},
        {"ours": {"published_columns": published}},
        columns=(*columns, MORE_PARAMETERS),
        base_arm="small",
        published_scale=True,
    )
    ours, other = asked(recorded, capsys, "measured")
    ours = {title: text for title, text in ours.items() if text}
    assert ours == {
        "from": "measured@laptop",
        "arm or model": "ours",
        "params": "1k",
        "grammar valid, ours (perplexity)": "54.60±0.00 (n=2)",
        "grammar test, ours (perplexity)": "54.60±0.00 (n=2)",
        "grammar test, ours (accuracy in %)": "50.0±0.0 (n=2)",
        "grammar test, ours (coefficient of variation)": "0.250±0.071 (n=2)",
        "grammar test, published (coefficient of variation)": "0.279",
        "grammar, ours (subspace distance)": "0.50±0.00 (n=2)",
        "grammar, ours (more parameters, M)": "-0.2",
        "grammar, published (more parameters, M)": "0.8",
    }
    assert other["grammar, ours (more parameters, M)"] == ""
    assert other["grammar test, ours (coefficient of variation)"] == ""


def test_an_arm_whose_study_says_why_it_is_not_comparable_says_so(recorded, capsys):
    arms = {"RNN": [recorded.trial("t0", {"head": "mos"})]}
    paper = {"paper": "inan2017tying", "tables": ("Table 2",), "corpus": "ptb"}
    fields = {"RNN": {"published": {"test": 124.7}, "not_comparable": "trained by Adam"}}
    recorded.study("ours", arms, fields, published_scale=True, **paper)
    (ours,) = asked(recorded, capsys, "ours")
    (text,) = [text for title, text in ours.items() if "test, published" in title]
    assert text == "124.7 (not comparable: trained by Adam)"
    sql = "SELECT published, not_comparable AS why FROM arms WHERE split = 'test'"
    locations = ["--workspace", str(recorded.workspace.folder), "--format", "csv"]
    assert cli.main(["query", sql, *locations]) == 0
    assert capsys.readouterr().out.split("\n")[1].strip() == "124.7,trained by Adam"


def test_every_number_of_a_paper_is_shown(recorded, capsys):
    from ablate import papers

    for paper in papers.ids():
        rows = asked(recorded, capsys, paper)
        shown = [text for row in rows for t, text in row.items() if "published" in t and text]
        cells = papers.load(paper).cells
        keys = {(c.table, c.model, c.variant, c.corpus, c.split, c.metric) for c in cells}
        assert len(shown) == len(keys)


def test_a_model_s_parameters_are_those_on_the_corpus_of_its_numbers(recorded, capsys):
    rows = [r for r in asked(recorded, capsys, "oliva2021dual") if "LSTM dyneval" in r.values()]
    shown = {row["params"]: {title for title, text in row.items() if text} for row in rows}
    assert [*shown] == ["8.88M", "20.2M"]
    corpora = [{t.split()[0] for t in titles if "published" in t} for titles in shown.values()]
    assert corpora == [{"ptb"}, {"wikitext-2"}]


def printed(recorded, capsys, *names: str) -> list[str]:
    assert cli.main(["compare", *names, "--workspace", str(recorded.workspace.folder)]) == 0
    return capsys.readouterr().out.splitlines()


OF_DOC = {"paper": "takase2018doc", "tables": ("Table 3",), "corpus": "ptb"}
MOS = {"published": {"valid": 56.54, "test": 54.44}}


def test_a_reader_sees_the_verdict_beside_each_published_number(recorded, capsys):
    trials = [
        recorded.trial(f"t{i}", {"head": "mos", "corpus.name": "ptb"}, seed=i + 1, nats=4.1)
        for i in range(3)
    ]
    recorded.study("doc", {"MoS": trials}, {"MoS": MOS}, published_scale=True, **OF_DOC)
    lines = printed(recorded, capsys, "doc")
    assert lines[0] == "doc@laptop beside takase2018doc, Table 3: test perplexity"
    shown = " ".join(" ".join(lines).split())
    assert "MoS 1k 54.60±0.00 54.44 Every level: reproduced." in shown
    shown = " ".join(" ".join(printed(recorded, capsys, "doc", "--split", "valid")).split())
    assert "MoS 1k 60.34±0.00 56.54 Every level: not reproduced: ours 6.7% higher." in shown


def test_a_paper_stands_for_its_studies(recorded, capsys):
    arms = {"MoS": [recorded.trial("t0", {"head": "mos"})]}
    recorded.study("doc", arms, {"MoS": MOS}, **OF_DOC)
    recorded.study("own", {"a": [recorded.trial("t1", {"head": "mos"})]})
    alone = printed(recorded, capsys, "takase2018doc")
    assert alone[:-1] == printed(recorded, capsys, "doc")
    assert alone[-1].endswith("ablate table papers takase2018doc")
    both = printed(recorded, capsys, "own", "takase2018doc")
    assert both[0].startswith("own@laptop: ") and "doc@laptop beside" not in "\n".join(both)
