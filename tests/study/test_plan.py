"""Plans: pure, with ids that say what determines a trial, and lineage that adds up.

The ids of some trials are kept in tests/golden/ids.json (`tests/support/golden.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ablate.config.data_source import source_of
from ablate.config.identity import Parent, Trial, make_trial
from ablate.config.merge import merge
from ablate.config.metrics import BITS_PER_BYTE
from ablate.config.resolve import resolve
from ablate.errors import AblateError, ConfigError, StudyError
from ablate.lm.data.corpus import charged
from ablate.lm.sections import CorpusConfig
from ablate.space.space import load
from ablate.store.study_record import from_plain
from ablate.study.arms import arm_values
from ablate.study.chains import confirm_search
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.planned import Plan
from ablate.study.searches import plan_search_trial
from ablate.study.small import smoke
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search, Stage
from tests.support.golden import golden

SMALL = {
    "corpus.train_tokens": 5000,
    "backbone": "lstm",
    "backbone.num_layers": 2,
    "backbone.units": [12, 8],
    "embedding.size": 8,
    "head": "doc",
    "head.experts": [2, 1, 0],
    "optimizer": "nt_asgd",
    "training.epochs": 2,
}
ARMS = {
    "a": Arm("a"),
    "same": Arm("same"),
    "window": Arm("window", {"training.window": 33}),
    "mos": Arm("mos", {"head": "mos", "head.experts": 3}),
    "tuned on": Arm("tuned on", stages={"finetune": {"optimizer.learning_rate": 1.0}}),
}
STAGES = (Stage("finetune", {"optimizer.trigger": "at_once"}), Stage("again", {}))
FAST = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)


def study_of(*arms: str, **scale: Any) -> Study:
    words = {"seeds": 2, "stages": STAGES[:1], **scale}
    return Study(
        question="Which?",
        base=SMALL,
        base_arm="a",
        design=table(*(ARMS[name] for name in ("a", *arms))),
        scales={"s": Scale(**words)},
        name="planned",
    )


@st.composite
def studies(draw: st.DrawFn) -> Study:
    arms = draw(st.lists(st.sampled_from([*ARMS][1:]), unique=True))
    stages = STAGES[: draw(st.integers(1, 2))]
    ensemble, seeds = draw(st.booleans()), draw(st.integers(1, 3))
    first = draw(st.sampled_from([1, 13]))
    return study_of(*arms, seeds=seeds, first_seed=first, stages=stages, ensemble=ensemble)


def ids(plan: Plan) -> list[str]:
    return [trial.id for trial in plan.trials]


@pytest.mark.slow
@FAST
@given(study=studies())
def test_any_plan(study: Study, data: str):
    before = sorted(Path(data).rglob("*"))
    plan, scale = make_plan(study, data=data), study.scales["s"]
    again = make_plan(study, data=data)
    assert (plan.trials, plan.record) == (again.trials, again.record), "planning is pure"
    assert sorted(Path(data).rglob("*")) == before

    seen: set[str] = set()
    for trial in plan.trials:
        assert set(trial.parent_ids()) <= seen, "parents come before their children"
        assert trial.id not in seen
        seen.add(trial.id)

    last = {p.id for p in plan.record.trials if p.final or p.stage == "ensemble"}
    reading = {trial.id for trial in plan.trials if trial.reads_test}
    assert reading == last, "the test split is read at the end of a chain only"

    arms = [arm.name for arm in study.design.arms]
    finals = {arm: [p for p in plan.record.trials if p.arm == arm and p.final] for arm in arms}
    for planned in finals.values():  # every arm has the same places on the same seeds
        assert sorted(p.seed_index for p in planned) == list(range(scale.seeds))
        assert all(p.seed == p.seed_index + scale.first_seed for p in planned)
        assert {p.stage for p in planned} == {scale.stages[-1].name}
    stages = Counter((p.arm, p.stage) for p in plan.record.trials)
    ensembles = 1 if scale.ensemble and scale.seeds > 1 else 0
    for arm in arms:
        for name in ("train", *(s.name for s in scale.stages)):
            assert stages[arm, name] == scale.seeds
        assert stages[arm, "ensemble"] == ensembles
    assert {p.id for p in plan.record.trials} == set(ids(plan))


def test_seeds_start_where_the_scale_says_and_make_the_same_trials(data: str):
    usual = make_plan(study_of("window", seeds=4), data=data)
    later = make_plan(study_of("window", seeds=2, first_seed=3), data=data)
    assert later.record.first_seed == 3 and usual.record.first_seed == 1
    assert [t.id for t in later.trials] == [t.id for t in usual.trials if t.seed in (3, 4)]
    assert {(p.seed, p.seed_index) for p in later.record.trials} == {(3, 0), (4, 1)}


def test_a_record_from_before_first_seed_was_written_starts_at_the_first(data: str):
    record = make_plan(study_of(), data=data).record
    plain = asdict(record)
    del plain["first_seed"]
    assert from_plain(plain) == record


def test_identical_arms_share_their_trials(data: str):
    plan = make_plan(study_of("same", "tuned on"), data=data)
    places = {arm: [p.id for p in plan.record.trials if p.arm == arm] for arm in ("a", "same")}
    assert places["a"] == places["same"]
    train = {p.arm: p.id for p in plan.record.trials if p.stage == "train" and p.seed == 1}
    finetune = {p.arm: p.id for p in plan.record.trials if p.stage == "finetune" and p.seed == 1}
    assert train["a"] == train["tuned on"] and finetune["a"] != finetune["tuned on"]


def test_lineage(data: str):
    plan = make_plan(study_of(stages=STAGES, ensemble=True), data=data)
    trials = {trial.id: trial for trial in plan.trials}
    for planned in plan.record.trials:
        trial = trials[planned.id]
        roles = Counter(parent.role for parent in trial.parents)
        expected = {"train": {}, "finetune": {"start": 1}, "again": {"start": 1}}
        assert roles == expected.get(planned.stage, {"member": 2})
        assert planned.parents == tuple(trial.parent_ids())
        if planned.stage in ("finetune", "again"):
            (parent,) = (trials[each] for each in trial.parent_ids("start"))
            assert parent.seed == trial.seed and parent.arm == trial.arm


def test_another_parent_is_another_trial(data: str):
    plain, other = study_of(), study_of()
    other = replace(other, base={**SMALL, "training.epochs": 3})
    stages = [
        {(t.stage, t.seed): t.id for t in make_plan(s, data=data).trials} for s in (plain, other)
    ]
    assert all(stages[0][key] != stages[1][key] for key in stages[0])


def changed(study: Study, **scale: Any) -> Study:
    return replace(study, scales={"s": replace(study.scales["s"], **scale)})


@pytest.mark.parametrize(
    "words",
    [
        {"question": "Whatever?"},
        {"name": "another"},
        {"paper": "takase2018doc", "tables": ("Table 3",)},
        {"file": "elsewhere.py"},
    ],
)
def test_what_a_study_is_called_is_no_part_of_an_id(words: dict[str, Any], data: str):
    study = study_of("window")
    assert ids(make_plan(replace(study, **words), data=data)) == ids(make_plan(study, data=data))


def test_more_seeds_arms_and_ensembles_add_trials_and_change_none(data: str):
    known = set(ids(make_plan(study_of("window"), data=data)))
    more = [
        study_of("window", seeds=5),
        study_of("window", "mos"),
        study_of("window", ensemble=True),
        study_of("window", stages=(*STAGES[:1], STAGES[1])),
    ]
    for study in more[:3]:
        assert known < set(ids(make_plan(study, data=data)))
    later = {trial.id for trial in make_plan(more[3], data=data).trials if trial.stage == "train"}
    assert later < known  # a stage that is no longer the last does not read the test split


@pytest.mark.parametrize(
    "scale", [{"threads": 2}, {"gpus": 0.5}, {"changes": {"corpus.eval_tokens": 300}}]
)
def test_where_and_on_what_it_runs_is_part_of_an_id(scale: dict[str, Any], data: str):
    study = study_of("window")
    before, after = (ids(make_plan(s, data=data)) for s in (study, changed(study, **scale)))
    assert len(before) == len(after) and not set(before) & set(after)


def test_a_fraction_of_a_gpu_is_the_same_trial(data: str):
    plans = [make_plan(changed(study_of(), gpus=gpus), data=data) for gpus in (0.25, 1)]
    assert ids(plans[0]) == ids(plans[1])
    assert {trial.device for trial in plans[0].trials} == {"cuda"}


def test_a_runner_is_part_of_an_id(data: str):
    study = study_of()
    other = replace(study, runner="stand_in")
    assert not set(ids(make_plan(study, data=data))) & set(ids(make_plan(other, data=data)))


def test_scales_leave_arms_out_but_never_the_base(data: str):
    plan = make_plan(study_of("window", "mos", arms=["mos"]), data=data)
    assert [arm.name for arm in plan.record.arms] == ["a", "mos"]


def test_later_values_win(data: str):
    study = study_of("window", changes={"training.window": 20, "training.epochs": 9})
    adapted = changed(
        study, adapt=lambda values: {"training.epochs": values["training.epochs"] + 1}
    )
    configs = make_plan(adapted, data=data).configs
    windows = {name: config.training.window for name, config in configs.items()}
    assert windows == {"a": 20, "window": 33}
    assert {config.training.epochs for config in configs.values()} == {10}


def test_a_scale_says_why_its_arms_are_not_comparable_with_a_paper(data: str):
    def why(values):
        return "a shorter window" if values.get("training.window") == 33 else ""

    reasons = {}
    for reason in ("trained by Adam", why):
        study = changed(study_of("window"), published=True, not_comparable=reason)
        record = make_plan(study, data=data).record
        reasons[reason] = [arm.not_comparable for arm in record.arms]
    assert reasons == {"trained by Adam": ["trained by Adam"] * 2, why: ["", "a shorter window"]}


SPACE = """
paper = "none"
tables = ["T"]
["Rate"]
field = "optimizer.learning_rate"
range = [1.0, 10.0]
"""


@pytest.fixture
def searched(tmp_path: Path):
    file = tmp_path / "rates.toml"
    file.write_text(SPACE)

    def study(first_seed: int = 1, **words: Any) -> Study:
        search = Search(space=str(file), trials=4, **words)
        return study_of("window", search=search, first_seed=first_seed)

    return study


@pytest.mark.parametrize("first", [1, 13])
def test_a_searched_arm_is_confirmed_on_seeds_that_no_other_repeat_has(searched, first, data: str):
    plan = make_plan(searched(repeats=2, first_seed=first), data=data)
    assert plan.trials == () and len(plan.searches) == 4
    sampled = [
        plan_search_trial(plan, search, {}, index) for search in plan.searches for index in (0, 1)
    ]
    assert not any(trial.reads_test for trial in sampled)
    assert all(trial.keep == "nothing" for trial in sampled)
    seeds = []
    for search in plan.searches[:1] + plan.searches[2:3]:
        chains = confirm_search(plan, search, {"optimizer.learning_rate": 2.0})
        seeds += [planned.seed for planned in chains.planned if planned.final]
    assert seeds == [first, first + 1, first + 2, first + 3]
    assert not {trial.seed for trial in sampled} & set(seeds)


def test_a_search_s_trial_is_named_after_what_it_tries(searched, data: str):
    plan = make_plan(searched(), data=data)
    search, values = plan.searches[1], {"optimizer.learning_rate": 2.000001}
    trial = plan_search_trial(plan, search, values, 0)
    assert trial.name == "window search (Rate=2)"
    assert trial.id == replace(trial, tags={}).id == plan_search_trial(plan, search, values, 0).id
    fixed = replace(search, fixed={"Rate": 3.0})
    assert plan_search_trial(plan, fixed, values, 0).name == f"window search seed {trial.seed}"


def test_a_search_s_record_names_the_rows_that_it_searches(searched, data: str):
    plan = make_plan(searched(), data=data)
    assert [dict(search.rows) for search in plan.record.searches] == [
        {"optimizer.learning_rate": "Rate"}
    ] * 2
    fixed = make_plan(searched(rows={"Rate": 2.0}), data=data)
    assert [dict(search.rows) for search in fixed.record.searches] == [{}, {}]


def test_a_search_asks_the_same_wherever_its_confirmation_starts(searched, data: str):
    plans = [make_plan(searched(first_seed=first), data=data) for first in (1, 13)]
    one, other = ([search.key for search in plan.searches] for plan in plans)
    assert one == other
    first, again = (plan_search_trial(plan, plan.searches[0], {}, 0).id for plan in plans)
    assert first == again


def test_arms_are_searched_with_the_same_seeds(searched, data: str):
    plan = make_plan(searched(), data=data)
    a, window = plan.searches
    pairs = [
        (plan_search_trial(plan, a, {}, i), plan_search_trial(plan, window, {}, i))
        for i in range(3)
    ]
    assert all(one.seed == other.seed and one.id != other.id for one, other in pairs)


def test_a_searched_arm_s_own_stage_goes_on_from_what_another_arm_is_confirmed_by(
    tmp_path: Path, data: str
):
    file = tmp_path / "rates.toml"
    file.write_text(SPACE)
    arms = (Arm("more", then=(GATE,)), Arm("other", {"training.window": 3}, then=(GATE,)))
    plan = make_plan(study_with(*arms, search=Search(space=str(file), trials=4)), data=data)
    won = {"optimizer.learning_rate": 2.0}
    confirmed = {search.arm: confirm_search(plan, search, won) for search in plan.searches}
    base = {trial.id for trial in confirmed["a"].trials}
    trained = {trial.id for trial in confirmed["more"].trials if trial.stage == "train"}
    assert trained == base and len(base) == 2
    assert not base & {trial.id for trial in confirmed["other"].trials}
    first = [trial for trial in confirmed["other"].trials if trial.stage == "train"]
    assert not any(trial.reads_test for trial in first)


def test_an_arm_is_as_large_as_what_it_trains_last(data: str):
    gate = Stage("gate", {"gate": "iog", "gate.units": 3})
    arms = (Arm("gated", then=(gate,)), Arm("joint", then=(replace(gate, over="seeds"),)))
    plan = make_plan(study_with(*arms), data=data)
    sizes = {arm.name: arm.num_parameters for arm in plan.record.arms}
    last = next(trial for trial in plan.trials if trial.stage == "gate")
    words = source_of(resolve(last.values).corpus, data).vocabulary()[0]
    assert sizes["gated"] == sizes["a"] + words * (3 + 3 + 1)
    assert sizes["joint"] is None


def test_what_a_search_changes_is_checked_when_it_is_planned(searched, data: str):
    with pytest.raises(ConfigError, match=r"arm 'a': training: unknown field 'epohcs'"):
        make_plan(searched(changes={"training.epohcs": 1}), data=data)


def test_arms_of_different_corpora_are_refused(data: str):
    other = Arm("other", {"corpus.level": "character"})
    study = replace(study_of(), design=table(ARMS["a"], other))
    with pytest.raises(StudyError, match=r"arm 'other': corpus\.level = 'character' is not"):
        make_plan(study, data=data)


BY_LEVEL = {"bytes": {"corpus.level": "byte"}, "pairs": {"corpus.level": "bpe", "corpus.merges": 9}}


def of_levels(**more: Any) -> Study:
    base = {"model": "ngram", "ngram.order": 2, **more.pop("base", {})}
    arms = [Arm("words"), *(Arm(name, changes) for name, changes in BY_LEVEL.items())]
    chosen = {"base": base, "base_arm": "words", "metric": "bits_per_byte", **more}
    scales = {"s": Scale(seeds=2), "smoke": smoke(Scale(seeds=1))}
    return replace(study_of(), design=table(*arms), scales=scales, **chosen)


def test_bits_per_byte_compare_arms_of_different_tokens(data: str):
    plan = make_plan(of_levels(), data=data)
    assert plan.record.metric == BITS_PER_BYTE
    read = {trial.arm: trial.corpus_digest for trial in plan.trials}
    for arm, changes in {"words": {}, **BY_LEVEL}.items():
        config = resolve({"model": "ngram", "corpus.name": "grammar", **changes})
        assert read[arm] == source_of(config.corpus, data).digest()
    assert list(plan.texts) == list(read.values()) and len(set(read.values())) == 3
    assert make_plan(of_levels(), "smoke", data=data).trials, "a smoke run cuts each text"


def test_where_bits_per_byte_decide_words_that_are_spelled_change_the_digest(tmp_path):
    for split, text in {"train": "a b\n" * 90, "valid": "a\n", "test": "a new word\n"}.items():
        (tmp_path / f"{split}.txt").write_text(text)
    folder, name = str(tmp_path / "data"), f"folder:{tmp_path}"
    by_bytes = replace(of_levels(), scales={"s": Scale(seeds=1, corpus=name)})
    plan = make_plan(by_bytes, data=folder)
    other = make_plan(replace(by_bytes, metric="", design=table(Arm("words"))), data=folder)
    own = {"bytes": {"level": "byte"}, "pairs": {"level": "bpe", "merges": 9}}
    assert plan.record.corpus_digest == charged(other.record.corpus_digest)
    assert plan.digests == {
        arm: source_of(CorpusConfig(name=name, **plain), folder).digest()
        for arm, plain in own.items()
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": ""}, "only bits per byte compare different tokens.*metric = 'bits_per_byte'"),
        ({"base": {"corpus.eval_tokens": 200}}, "200 tokens of each are different text"),
    ],
)
def test_other_tokens_are_refused_where_nothing_compares_them(changes, message, data: str):
    with pytest.raises(StudyError, match=f"arm 'bytes': corpus.level = 'byte'.*{message}"):
        make_plan(of_levels(**changes), data=data)


WRITER = {"task": "encoder_decoder", "backbone": "lstm", "head": "softmax", "optimizer": "sgd"}
ON_PAIRS = {"scales": {"s": Scale(seeds=1, corpus="pairs")}, "metric": "bits_per_byte"}


def test_arms_on_pairs_may_write_other_tokens_of_the_same_sentences(data: str):
    units = Arm("units", {"corpus.merges": 20, "corpus.joint": True})
    base = {**WRITER, "corpus.train_pairs": 60, "corpus.eval_pairs": 9}
    study = replace(study_of(), base=base, design=table(Arm("a"), units), **ON_PAIRS)
    plan = make_plan(study, data=data)
    assert plan.record.metric == BITS_PER_BYTE and len({t.corpus_digest for t in plan.trials}) == 2
    with pytest.raises(StudyError, match="only bits per byte compare different tokens"):
        make_plan(replace(study, metric=""), data=data)


@pytest.mark.parametrize(
    ("base", "corpus"),
    [
        ({**SMALL, "corpus.level": "tree"}, "grammar_trees"),
        ({**SMALL, "corpus.lowercase": True}, "grammar"),
        ({**WRITER, "corpus.lowercase": True, "corpus.train_pairs": 60}, "pairs"),
        (SMALL, "ptb"),
    ],
)
def test_what_is_not_read_as_written_has_no_bits_per_byte(base, corpus, data: str):
    scales = {"s": Scale(seeds=1, corpus=corpus)}
    study = replace(study_of(), base=base, metric="bits_per_byte", scales=scales)
    message = "'bits_per_byte'.* as it was written: not trees.* not the words of ptb, wikitext-2"
    with pytest.raises(StudyError, match=message):
        make_plan(study, data=data)


def golden_trials() -> dict[str, Trial]:
    """Trials of a corpus that is identified only by its digest."""
    start = Parent("start", "0123456789abcdef")
    members = tuple(Parent("member", f"{number:016x}") for number in range(3))
    cases: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "small": (SMALL, {}),
        "small, seed 2": (SMALL, {"seed": 2}),
        "small, fine-tuned": (SMALL, {"parents": (start,)}),
        "small, an ensemble": (SMALL, {"parents": members, "seed": 0}),
        "small, in a search": (SMALL, {"reads_test": False}),
        "small, on a GPU": (SMALL, {"device": "cuda"}),
        "DOC, Penn Treebank": (load("takase2018doc_table2").values("ptb"), {}),
        "DOC, WikiText-2": (load("takase2018doc_table2").values("wikitext-2"), {}),
        "MoS, Penn Treebank": (load("yang2018mos").values("ptb"), {}),
        "tied softmax": (merge(SMALL, {"head": "softmax"}), {}),
    }
    return {
        name: make_trial(
            resolve(values), values=values, **{"seed": 1, "corpus_digest": "text", **more}
        )
        for name, (values, more) in cases.items()
    }


@pytest.mark.golden
def test_the_ids_are_the_golden_ones():
    """If they are not, every trial that was ever run is a new one: was that intended?

    `make goldens` leaves this file alone, so that it cannot change unnoticed.
    """
    ids = {name: trial.id for name, trial in golden_trials().items()}
    assert ids == json.loads(golden("ids.json", json.dumps(ids, indent=1) + "\n", "ids"))
    assert len(set(ids.values())) == len(ids)


def test_a_trial_goes_through_json():
    for trial in golden_trials().values():
        assert Trial.from_plain(json.loads(json.dumps(trial.to_plain()))).id == trial.id
        again = Trial.from_plain(json.loads(json.dumps(trial.to_plain())))
        assert resolve(again.values).identity == resolve(trial.values).identity
        assert replace(again, values={}) == replace(trial, values={})


GATE = Stage("gate", {"gate": "none", "regularizer": "none", "optimizer.learning_rate": 0.5})
JUDGED = Stage("judged", {"evaluator.standard.batch_size": 2}, kind="evaluate")
TOGETHER = Stage("together", {"training.epochs": 1}, over="seeds")


def study_with(*arms: Arm, **scale: Any) -> Study:
    words = {"seeds": 2, **scale}
    return Study(
        question="Which?",
        base=SMALL,
        base_arm="a",
        design=table(Arm("a"), *arms),
        scales={"s": Scale(**words)},
        name="planned",
    )


def placed(plan: Plan, arm: str) -> list[tuple[str, bool]]:
    return [(p.stage, p.final) for p in plan.record.trials if p.arm == arm]


def test_an_arms_own_stage_goes_on_from_the_trial_that_another_arm_ends_with(data: str):
    plan = make_plan(study_with(Arm("more", then=(GATE,))), data=data)
    assert placed(plan, "more") == [("train", False), ("gate", True)] * 2
    base = {p.id for p in plan.record.trials if p.arm == "a"}
    gates = [trial for trial in plan.trials if trial.stage == "gate"]
    assert {parent.id for trial in gates for parent in trial.parents} == base
    assert len(plan.trials) == 4
    assert all(trial.reads_test for trial in plan.trials)


def test_a_stage_that_only_evaluates_trains_nothing_and_keeps_nothing(data: str):
    plan = make_plan(study_with(Arm("judged otherwise", then=(JUDGED,))), data=data)
    judged = [trial for trial in plan.trials if trial.stage == "judged"]
    assert {trial.runner for trial in judged} == {"evaluation"}
    assert {parent.role for trial in judged for parent in trial.parents} == {"member"}
    assert {trial.keep for trial in judged} == {"nothing"}


def test_of_a_seed_what_most_others_build_on_comes_first(data: str):
    """The last worker would wait for a chain that started last. The record keeps its order."""
    own = {"training.window": 33}
    arms = (
        Arm("short", {"training.window": 34}),
        Arm("long", own),
        Arm("tuned", own, then=(GATE,)),
        Arm("tuned and judged", own, then=(GATE, JUDGED)),
    )
    plan = make_plan(study_with(*arms), data=data)
    one_seed = ["long train", "tuned gate", "tuned and judged judged", "a train", "short train"]
    assert [f"{t.seed} {t.arm} {t.stage}" for t in plan.trials] == [
        f"{seed} {trial}" for seed in (1, 2) for trial in one_seed
    ]
    assert [p.arm for p in plan.record.trials][:3] == ["a", "short", "long"]


def test_all_seeds_of_an_arm_under_one_stage_are_one_result(data: str):
    plan = make_plan(study_with(Arm("joint", then=(TOGETHER,)), seeds=3), data=data)
    assert placed(plan, "joint") == [("train", False)] * 3 + [("together", True)]
    joint = next(trial for trial in plan.trials if trial.stage == "together")
    assert joint.seed == 0  # part of its id
    assert [parent.role for parent in joint.parents] == ["base"] * 3
    indices = {p.arm: p.seed_index for p in plan.record.trials if p.final}
    assert indices["joint"] == 3  # no seed of any arm's


def test_an_n_gram_model_is_an_arm_without_anything_neural(data: str):
    arm = Arm("kn5", {"model": "ngram", "ngram.order": 5})
    plan = make_plan(study_with(arm, stages=(Stage("finetune", {}),)), data=data)
    counted = [trial for trial in plan.trials if trial.arm == "kn5"]
    assert placed(plan, "kn5") == [("train", True)] * 2
    assert {trial.runner for trial in counted} == {"counting"}
    assert {key.split(".")[0] for key in counted[0].values} == {"model", "ngram", "corpus"}
    assert plan.record.arm("kn5").num_parameters is None


def test_an_evaluation_is_searched_for_each_finished_model(data: str, tmp_path: Path):
    space = 'paper = "none"\ntables = ["T"]\n["Rows"]\nfield = "evaluator.standard.batch_size"\n'
    (tmp_path / "how.toml").write_text(space + "choices = [1, 2, 3]\n")
    stage = Stage("how", kind="evaluate", search=Search(space="how", trials=2))
    study = replace(study_with(stages=(stage,)), file=str(tmp_path / "study.py"))
    plan = make_plan(study, data=data)
    assert placed(plan, "a") == [("train", False)] * 2
    assert not any(trial.reads_test for trial in plan.trials)
    assert [search.parents[0].id for search in plan.searches] == ids(plan)
    sampled = plan_search_trial(plan, plan.searches[0], {"evaluator.standard.batch_size": 2}, 0)
    assert (sampled.reads_test, sampled.keep, sampled.parents) == (
        False,
        "nothing",
        plan.searches[0].parents,
    )
    (result,) = confirm_search(plan, plan.searches[0], {"evaluator.standard.batch_size": 2}).trials
    assert (result.reads_test, result.seed, result.stage) == (True, 1, "how")
    assert len({search.key for search in plan.searches}) == 2
    planned = [(search.repeat, search.seed, search.model) for search in plan.searches]
    assert planned == [(0, 1, {"seed": seed, "seed_index": seed - 1}) for seed in (1, 2)]


def test_what_leaves_nothing_to_go_on_from_comes_last():
    with pytest.raises(StudyError, match="no stage can continue from stage 'judged'"):
        study_with(stages=(JUDGED, GATE))
    with pytest.raises(StudyError, match="a search in a stage tunes the evaluation"):
        Stage("x", search=Search(space="s", trials=1))


RECIPE = """
paper = "somebody2020"
tables = ["Table 1"]
["Size"]
field = "embedding.size"
value = { small = 8, large = 16 }
["Backbone"]
field = "backbone"
value = "gru"
["Head"]
field = "head"
value = "softmax"
["Optimizer"]
field = "optimizer"
value = "adam"
["Model"]
choices = ["plain", "clipped"]
["Clipping"]
field = "training.clip"
value = 0.5
when = "Model = clipped"
["Window"]
field = "training.window"
choices = [20, 30]
"""


@pytest.fixture
def with_recipe(tmp_path: Path):
    (tmp_path / "own.toml").write_text(RECIPE)

    def planned(*arms: Arm, **scale: Any) -> Study:
        words = {"seeds": 1, "column": "small", **scale}
        scales = {"s": Scale(**words)}
        more = {"base": "own", "base_arm": arms[0].name, "file": str(tmp_path / "x.py")}
        return Study(question="Which?", design=table(*arms), scales=scales, **more)

    return planned


def test_a_recipe_is_read_in_the_column_that_it_is_named_with(with_recipe, data: str):
    study = with_recipe(Arm("a"), Arm("b", recipe="own:large"))
    sizes = {t.arm: t.values["embedding.size"] for t in make_plan(study, data=data).trials}
    assert sizes == {"a": 8, "b": 16}
    with pytest.raises(AblateError, match=r"'huge'.*small, large"):
        make_plan(with_recipe(Arm("a", recipe="own:huge")), data=data)


def test_an_arm_settles_rows_of_its_recipe_by_their_names(with_recipe, data: str):
    study = with_recipe(Arm("a"), Arm("b", rows={"Model": "clipped", "Window": 30}))
    values = {t.arm: t.values for t in make_plan(study, data=data).trials}
    assert "training.clip" not in values["a"]
    assert "training.window" not in values["a"]
    assert (values["b"]["training.clip"], values["b"]["training.window"]) == (0.5, 30)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"Modle": "plain"}, "unknown row 'Modle'. Did you mean 'Model'"),
        ({"Model": "fancy"}, "Model = 'fancy' is not allowed. Expected: plain | clipped"),
    ],
)
def test_a_row_that_is_not_there_or_not_allowed_is_refused(with_recipe, data, rows, message):
    with pytest.raises(AblateError) as caught:
        make_plan(with_recipe(Arm("a", rows=rows)), data=data)
    assert message in str(caught.value)


def test_a_search_leaves_alone_what_an_arm_s_rows_settle(with_recipe, data: str):
    search = Search(space="own", trials=2)
    study = with_recipe(Arm("a"), Arm("b", rows={"Window": 30}), search=search)
    searches = make_plan(study, data=data).searches
    fixed = {each.arm: each.fixed.get("training.window") for each in searches}
    assert fixed == {"a": 70, "b": 30}  # which the arms differ in, and a has the default


def test_smoke_shortens_every_stage_and_its_search(data: str, tmp_path: Path):
    """Those of the scale and of an arm, whatever the scale or the arm changes of them."""
    space = tmp_path / "share.toml"
    row = '["Share"]\nfield="evaluator.cache.share"\nrange=[0.0, 0.5]\n'
    space.write_text(f'paper="none"\ntables=["T"]\n{row}')
    again, own = Stage("again", {"training.epochs": 500}), Stage("own", {"training.epochs": 400})
    judge = Stage("judge", kind="evaluate", search=Search(space=str(space), trials=200))
    arms = (Arm("a"), Arm("b", stages={"again": {"training.epochs": 300}}, then=(own, judge)))
    scale = Scale(seeds=5, stages=(again,), stage_changes={"again": {"training.epochs": 200}})
    study = replace(study_of(), design=table(*arms), scales={"s": smoke(scale)})
    plan = make_plan(study, data=data)
    assert {trial.stage for trial in plan.trials} == {"train", "again", "own"}
    assert {trial.values["training.epochs"] for trial in plan.trials} == {1}
    assert {search.words.trials for search in plan.searches} == {2}


def test_a_scale_changes_stages_by_their_names(data: str):
    gate = {"gate": "iog", "gate.units": 4, "training.only_gate": True}
    arm = Arm("gated", then=(Stage("gate", {**gate, "training.epochs": 5}),))
    scales = {"s": Scale(seeds=1, stage_changes={"gate": {"training.epochs": 1}})}
    words = {"question": "?", "base": SMALL, "base_arm": "a", "design": table(Arm("a"), arm)}
    plan = make_plan(Study(scales=scales, **words), data=data)
    assert [t.values["training.epochs"] for t in plan.trials if t.stage == "gate"] == [1]
    with pytest.raises(StudyError, match=r"unknown stage 'gatt'"):
        Study(scales={"s": Scale(stage_changes={"gatt": {}})}, **words)


@pytest.mark.parametrize(("corpus", "published"), [("ptb", 64.91), ("wikitext-2", 88.28)])
def test_of_a_table_of_two_corpora_the_scale_s_is_published(data: str, corpus, published):
    study = Study(
        question="?",
        paper="oliva2021dual",
        tables=("Table 1",),
        base={**SMALL, "head": "softmax", "optimizer": "sgd"},
        base_arm="LSTM",
        design=table(Arm("LSTM", published=("LSTM", "no dyneval"))),
        scales={"s": Scale(corpus=corpus, seeds=1)},
    )
    base = {k: v for k, v in study.base.items() if not k.startswith(("corpus.", "head."))}
    plan = make_plan(replace(study, base=base), data=data)
    assert plan.record.arms[0].published["test"] == published


def test_a_language_model_is_refused_more_than_one_gpu(data):
    assert make_plan(study_of(gpus=1.0), data=data).scale.gpus == 1
    with pytest.raises(StudyError, match=r"arm 'a': gpus=4 reserves .* trains on one\. .*torchrun"):
        make_plan(study_of(gpus=4), data=data)
    stand_in = replace(study_of(gpus=4), runner="stand_in")  # a task of one's own gets all
    assert make_plan(stand_in, data=data).scale.gpus == 4


def test_a_corpus_that_the_base_names_is_read_unless_the_scale_names_another():
    """The scale's default, a text, had replaced it without a word."""
    study = Study(
        question="?",
        base={"corpus.name": "words"},
        base_arm="a",
        design=table(Arm("a")),
        scales={"s": Scale(seeds=1)},
    )
    scales = (Scale(seeds=1), Scale(seeds=1, corpus="other"))
    named = [arm_values(study, scale, study.design.arms[0])["corpus.name"] for scale in scales]
    assert named == ["words", "other"]
