"""A scale of several corpora: a record for each, trials shared with scales of one, one table."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ablate.commands import study as study_command
from ablate.commands.plan import show_plan
from ablate.commands.report import report
from ablate.commands.status import show_status
from ablate.commands.table import show_table
from ablate.compare.page import sections_of
from ablate.compare.study_summary import open_parts, open_study
from ablate.engine.drive import RunOptions
from ablate.errors import ConfigError, StudyError, TrialError
from ablate.lm.data import own
from ablate.store import study_record
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import BASE, RATE, order_in

TEXTS = ("alpha", "beta", "gamma")


@pytest.fixture
def texts(workspace, tmp_path):
    for number, name in enumerate(TEXTS):
        file = tmp_path / f"{name}.txt"
        words = [f"w{(3 + number) * line % (7 + number)}" for line in range(80)]
        file.write_text("\n".join(f"{word} and {word} or not" for word in words))
        own.add(name, file, workspace.data)
    return TEXTS


def study_of(*corpora: str, **scale) -> Study:
    base = {key: value for key, value in BASE.items() if key != "corpus.name"}
    return Study(
        question="Which?",
        base=base,
        base_arm="one",
        design=table(Arm("one"), Arm("two", {"training.clip": 0.5})),
        scales={
            "s": Scale(corpora=corpora, **{"seeds": 3, **scale}),
            "alone": Scale(corpus=corpora[0], **{"seeds": 3, **scale}),
        },
        runner="noise",
        name="q",
    )


def planned(study, workspace, scale):
    return make_plan(study, scale, data=workspace.data, stores=[workspace.store])


def run(study, workspace, scale):
    schedule = Schedule(
        planned(study, workspace, scale), workspace.store, open_search(workspace.searches)
    )
    started = []
    local.run(schedule, order_in(workspace, started))
    assert schedule.complete
    return started


def test_trials_are_those_of_a_scale_of_that_corpus(workspace, texts):
    study = study_of(*texts)
    ids = [{t.id for t in planned(study, workspace, f"s.{name}").trials} for name in texts]
    assert ids[0] == {t.id for t in planned(study, workspace, "alone").trials}
    assert ids[0].isdisjoint(ids[1]) and len(set().union(*ids)) == 3 * 6
    record = planned(study, workspace, "s.beta").record
    assert (record.key, record.one_of, record.corpora) == ("q@s.beta", "s", texts)
    assert (record.corpus, record.part) == ("beta", "beta")


def test_one_table_page_and_status_are_over_all_corpora(workspace, texts):
    study = study_of(*texts)
    for name in texts:
        run(study, workspace, f"s.{name}")
    assert run(study, workspace, "alone") == []  # it shares all trials
    store = workspace.store
    assert [one.record.part for one in open_parts(store, "q@s")] == [*texts]
    shown = show_table(workspace, "q@s", "text")
    assert (
        shown.startswith("q@s: Which?\n3 corpora (") and len(re.findall("^two ", shown, re.M)) == 1
    )
    assert show_table(workspace, "q@s.beta", "text").startswith("q@s.beta")
    assert open_parts(store, "q@s.beta") == []
    of_each = [line for line in show_status(workspace, "q@s").splitlines() if "Which?" in line]
    assert of_each == [f"q@s.{name}: Which?" for name in texts]
    titles = [one.title for one in sections_of(open_study(store, "q@s.beta"), store)]
    assert "On each corpus, and over all" in titles
    assert report(workspace, "q@s", still=True).count("report.html") == 3


def test_a_name_that_is_several_studies_is_refused_with_what_to_say(workspace, texts):
    study = study_of(*texts)
    for scale in ("s.alpha", "s.beta", "alone"):
        study_record.write(workspace.store, planned(study, workspace, scale).record)
    with pytest.raises(ConfigError, match=r"Say q@alone or q@s\.alpha or q@s\.beta"):
        show_table(workspace, "q", "text")
    with pytest.raises(ConfigError, match=r"Instead: ablate table q@s\.alpha --seeds"):
        show_table(workspace, "q@s", "text", "seeds")
    with pytest.raises(StudyError, match=r"one for each corpus: s\.alpha, s\.beta, s\.gamma"):
        planned(study, workspace, "s")


def test_every_corpus_is_planned_and_shown(workspace, texts, tmp_path):
    file = tmp_path / "three.py"
    file.write_text(
        "from ablate import Arm, Scale, Study, table\n"
        f"study = Study(question='Which?', base={BASE!r}, base_arm='one', runner='noise',\n"
        "    design=table(Arm('one'), Arm('two', {'training.clip': 0.5})),\n"
        f"    scales={{'s': Scale(corpora={texts!r}, seeds=3)}})\n"
    )
    shown = show_plan(str(file), None, workspace)
    assert shown.startswith(f"three@s: Which?\n{', '.join(texts)}, 3 seeds, ")
    rows = re.findall(r"^(\w+) +(one|two) .* 0 of 3$", shown, re.M)
    assert rows == [(name, arm) for name in texts for arm in ("one", "two")]
    assert "18 trials: 0 done, 18 left" in shown


def test_searches_of_another_corpus_have_other_samplers_and_settings_follow_the_corpus(
    workspace, texts, tmp_path
):
    (tmp_path / "rate.toml").write_text(RATE)
    search = Search(space=str(tmp_path / "rate.toml"), trials=2, synchronous=True, repeats=2)
    study = study_of(*texts, search=search)
    del study.scales["alone"]
    listed = {**study.scales, "found": Scale(corpora=texts, settings_of="s")}
    study = replace(
        study, base={k: v for k, v in study.base.items() if "rate" not in k}, scales=listed
    )
    seeds = [
        [one.seed for one in planned(study, workspace, f"s.{name}").searches if one.arm == "one"]
        for name in texts
    ]
    assert seeds == [[1, 2], [3, 4], [5, 6]]
    assert study.scale("found.beta")[1].settings_of == "s.beta"


def test_a_failure_on_one_corpus_is_raised_once_the_others_have_run(monkeypatch, workspace, capsys):
    ran = []

    def fails_on_ptb(study, scale, *others):
        ran.append(scale)
        if scale == "s.ptb":
            raise TrialError("1 of 3 trials failed")
        return 0

    monkeypatch.setattr(study_command, "run_and_show", fails_on_ptb)
    monkeypatch.setattr(study_command, "show_table", lambda workspace, key, form: key)
    runs = [(study_of("ptb", "grammar"), scale) for scale in ("s.ptb", "s.grammar")]
    with pytest.raises(TrialError, match="1 of 3 trials failed"):
        study_command._run_on_each(runs, workspace, RunOptions(local=True), "ablate study q")
    assert ran == ["s.ptb", "s.grammar"] and "q@s" in capsys.readouterr().out


def test_what_cannot_be_is_refused():
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"corpora": ("ptb", "ptb")}, "each corpus once"),
        ({"corpora": ("ptb", "grammar"), "seeds": 5, "looks": (3, 5)}, "leave out either looks"),
        ({"corpora": ("ptb", "grammar"), "corpus": "ptb"}, "leave out corpus"),
    ]
    for scale, why in wrong:
        with pytest.raises(StudyError, match=why):
            replace(study_of("grammar"), scales={"s": Scale(**scale)})
    with pytest.raises(StudyError, match=r"scale 's\.ptb' has the name"):
        scales = {"s": Scale(corpora=("ptb", "grammar")), "s.ptb": Scale()}
        replace(study_of("grammar"), scales=scales)
