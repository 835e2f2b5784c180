"""The shipped studies: every one plans at every scale, runs in seconds, and is the paper's in size.

`make test-paper` goes further (`tests/lab/paper_scale.py`): it trains every arm.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from ablate import papers, run
from ablate.commands.plan import show_plan
from ablate.config import data_source
from ablate.config.resolve import resolve
from ablate.lm.data.texts import BUILT_IN
from ablate.lm.model.assemble import count_parameters
from ablate.lm.sections import CorpusConfig
from ablate.space import space
from ablate.store.replication import MIN_SEARCHES
from ablate.study.arms import arm_values
from ablate.study.chains import chains
from ablate.study.file import load
from ablate.study.overrides import Overrides, overridden
from ablate.study.plan import Plan, make_plan
from ablate.study.several import scales_of, single_scales
from ablate.study.study import Study
from ablate.study.words import Arm, Inherit
from tests.support import places

FOLDER = places.STUDIES
FILES = sorted(FOLDER.glob("*.py"))
SCALES = [(file, scale) for file in FILES for scale in single_scales(load(file).scales)]
PAPER = [(file, scale) for file, scale in SCALES if scale.startswith("paper")]

# Where the page and the paper's own formulas disagree: (model, variant, corpus) -> millions of
# parameters, as counted and as printed.
SLIPS = {
    **{
        ("AWD-LSTM+MoS+FRAGE [6]", variant, "ptb"): (21.50, 24)
        for variant in ("no dyneval", "dyneval")
    },
    ("AWD-LSTM (Merity et al., 2018)", "", "wikitext-2"): (33.56, 33),
    ("AWD-LSTM-DOC", "ensemble x5", "wikitext-2"): (183.20, 185),
    ("AWD-LSTM-DOC", "fin ensemble x5", "wikitext-2"): (183.20, 185),
    ("VD-LSTM +REAL (medium)", "", "ptb"): (13.27, 14),
    ("38 Large LSTMs (Zaremba et al., 2014)", "", "ptb"): (2508.84, 2510),
    ("RNN+LDA+KN-5+Cache (Mikolov & Zweig)", "", "ptb"): (6.50, 9),  # and 2M n-grams
    ("Variational RHN (depth 10) + WT (Press and Wolf, 2017)", "+WT", "ptb"): (23.42, 24),
    ("Neural cache model (Grave et al., 2017)", "base", "ptb"): (18.65, 21),
    ("Pointer Sentinel LSTM (medium) (Merity et al., 2017b)", "base", "ptb"): (20.20, 21),
    ("Pointer Sentinel LSTM (Merity et al., 2017b)", "base", "wikitext-2"): (50.49, 51),
    ("Pointer Sentinel-LSTM (medium) (Merity et al., 2016)", "", "ptb"): (20.20, 21),
    ("Neural cache model (size = 100) (Grave et al., 2017)", "cache100", "wikitext-2"): (42.51, 42),
    (
        "Neural cache model (size = 2000) (Grave et al., 2017)",
        "cache2000",
        "wikitext-2",
    ): (42.51, 42),
    ("AWD LSTM + WT (run with authors' code)", "+WT", "wikitext-2"): (33.56, 33),
    ("AWD LSTM + WT (run with authors' code)", "+WT+IOG", "wikitext-2"): (53.56, 53),
    ("AWD LSTM + WT (run with authors' code)", "+WT+cache3785", "wikitext-2"): (33.56, 33),
    ("AWD LSTM + WT (run with authors' code)", "+WT+cache3785+IOG", "wikitext-2"): (53.56, 53),
    ("Ensemble of 10 Variational RHNs", "base", "ptb"): (320.82, 320),
    ("Ensemble of 10 Variational RHNs", "+IOG", "ptb"): (326.83, 326),
    ("RNN", "", "folder:text8"): (69.31, 70),
    ("IRLM", "", "folder:text8"): (69.05, 70),
    ("RNN", "no reg", "ptb"): (10.50, 10),  # R's 512 x 512 weights go just beyond a half
    ("RNN", "DO&CN", "ptb"): (10.50, 10),
}


def names(pairs: list[tuple[Path, str]]) -> list[str]:
    return [f"{file.stem}@{scale}" for file, scale in pairs]


pytestmark = pytest.mark.usefixtures("texts_that_users_bring")


@pytest.fixture(scope="module", autouse=True)
def spaces_read_once():
    """Two hundred plans would read the same files two thousand times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(space, "read", cache(space.read))
        yield


@cache
def planned(file: Path, scale: str, data: str) -> Plan:
    return make_plan(load(file), scale, data=data)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "scale"), SCALES, ids=names(SCALES))
def test_a_study_plans_at_every_scale(file, scale, data):
    plan = planned(file, scale, data)
    suggested = {trial.arm for trial in plan.record.trials} | {
        search.arm for search in plan.searches
    }
    assert suggested == {arm.name for arm in plan.record.arms} == set(plan.configs)
    known = {trial.id for trial in plan.trials}
    assert {parent for trial in plan.trials for parent in trial.parent_ids()} <= known


def test_the_first_study_asks_on_seeds_that_its_sizes_were_not_chosen_on(data):
    file = FOLDER / "doc_layer_mix.py"
    assert next(iter(load(file).scales)) == "laptop", "which `make study` runs"
    for scale, num_arms, seeds in (
        ("laptop", 4, range(301, 306)),
        ("ten_arms", 10, range(201, 205)),
    ):
        plan = planned(file, scale, data)
        assert len(plan.record.arms) == num_arms
        for arm in plan.record.arms:
            assert [path.seed for path in plan.record.trials if path.arm == arm.name] == [*seeds]


@pytest.mark.parametrize(("file", "scale"), SCALES, ids=names(SCALES))
def test_no_shipped_search_has_a_row_for_what_its_arms_differ_in(file, scale, data):
    """Or `also` names the field: a reader of the file need not know the rule."""
    assert not any(search.left for search in planned(file, scale, data).searches)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "scale"), PAPER, ids=names(PAPER))
def test_each_arm_has_the_parameters_that_its_paper_prints(file, scale, data):
    plan = planned(file, scale, data)
    for arm in plan.study.design.arms:
        if arm.name not in plan.configs or not plan.configs[arm.name].kind.assembles:
            continue
        millions = _parameters(plan, arm, data) / 1e6
        assert millions > 0
        printed = _printed(plan.study, arm, plan.configs[arm.name].corpus)
        if printed is None:
            continue
        model, variant = arm.published or ("", "")
        counted, slip = SLIPS.get((model, variant, plan.scale.corpus), (None, None))
        if counted is None:
            half = 0.5 if printed == int(printed) else 0.05
            assert abs(millions - printed) <= half, f"{arm.name}: {millions} counted"
        else:
            assert (round(millions, 2), printed) == (counted, slip), arm.name


def test_dual_table1_tunes_a_dual_layer_s_own_rows_alone_as_its_paper_does(data):
    """Section 4.1 leaves open what has an asterisk, of which Table 1's counts fix the units."""
    starred = {row.name for row in space.load("oliva2021dual_table3_4").rows if row.marker}
    searches = planned(FOLDER / "dual_table1.py", "paper", data).searches
    for search in searches:
        suggested: list[str] = []

        def suggest(row, suggested=suggested):
            suggested.append(row.name)
            return row.domain.ends[-1]

        search.space.sample(suggest, search.column, fixed=search.fixed, base=search.values)
        assert "Dynamic evaluation" not in suggested  # else a static column is dynamic by chance
        if not search.arm.startswith("Dual "):
            assert search.inherits is None
            continue
        ers = search.arm.removeprefix("Dual ").removesuffix(", dynamic")
        own = ("Dual L2reg", "Dual input Drop.", "Dual output Drop.")
        assert search.inherits == Inherit(ers, over=own)
        assert starred == {*own, "Dual units"}


def _parameters(plan: Plan, arm: Arm, data: str) -> int:
    """Count an arm's parameters: those of its last stage, and of all members of an ensemble."""
    made = chains(plan, arm.name, arm_values(plan.study, plan.scale, arm))
    last = made.trials[-1]
    own = _count(last.values, data)
    joint = max(len(last.parent_ids("member")), len(last.parent_ids("base")))
    if joint < 2:
        return own
    member = next(trial for trial in made.trials if trial.id == last.parents[0].id)
    return own + (joint - 1) * _count(member.values, data)


def _count(values, data: str) -> int:
    config = resolve(values)
    return count_parameters(config, *data_source.source_of(config.corpus, data).vocabulary())


def _printed(study: Study, arm: Arm, ours: CorpusConfig) -> float | None:
    model, variant = arm.published or (None, None)
    corpus = papers.corpus_name(ours.name, ours.level)
    for cell in papers.load(study.paper).cells if model else ():
        known = (cell.model, cell.variant, cell.corpus, cell.table in study.tables)
        if known == (model, variant, corpus, True):
            return cell.parameters
    return None


# A parser is slow, and its lists of candidates are tested in tests/lm/parsing.
SHORTER = {"doc_reranking": {"evaluator.rerank.num_candidates": 5}}


@pytest.mark.slow
@pytest.mark.usefixtures("without_pages", "without_mlflow")
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_study_runs_from_its_file(file, workspace):
    """Of its arms the base and the last one, with one seed: contracts train every technique."""
    study = load(file)
    assert "smoke" in study.scales, "every study has a scale that shows in seconds that it runs"
    smoke = study.scales["smoke"]
    assert smoke.corpus in BUILT_IN, "and needs no text for it"
    names = [arm.name for arm in study.design.arms if arm.name in (smoke.arms or [arm.name])]
    changes = Overrides(seeds=1, arms=(names[-1],), values=SHORTER.get(file.stem, {}))
    study, fewer = overridden(study, "smoke", changes)
    for scale in scales_of(fewer, study.scales[fewer])[:2]:
        summary = run(study, scale, workspace=str(workspace.folder), local=True)
        result = {arm.name: len(arm.values) for arm in summary.arms}
        assert all(result.values()), result


SEARCHED = {
    (file.stem, name): scale
    for file in FILES
    for name, scale in load(file).scales.items()
    if scale.search
}


@pytest.mark.parametrize("file, scale", SEARCHED)
def test_a_scale_that_tunes_its_arms_can_have_verdicts(file, scale):
    """Except the study that only shows that everything runs, and a search that says it is one."""
    says_so = scale == "smoke" or re.search(r"_search(_\d+)?$", scale)
    fewest = 1 if says_so else MIN_SEARCHES
    assert SEARCHED[file, scale].search.repeats >= fewest


def test_the_plan_counts_every_search_and_its_confirmations(workspace):
    """Two of its three arms search the same; for one, a gate is trained on each confirmation."""
    text = " ".join(show_plan(str(FOLDER / "iog_tuned_base.py"), "laptop", workspace).split())
    assert "Each arm is tuned first: 3 searches of 8 trials" in text
    assert f"0 done, up to {2 * 3 * (8 + 3) + 3 * 3} left" in text


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_study_opens_with_question_cost_and_published_numbers(file):
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    parts = {part.split()[0]: part for part in re.split(r"\n(?=[A-Z][a-z]+ {2,})", text)}
    assert {"Question", "Run", "Cost"} <= set(parts), "what each study opens with"
    perplexities = re.findall(r"(?<![\d.,])\d{2,3}\.\d+(?![\d.])", parts.get("Paper", ""))
    assert set(perplexities) <= _published(), "numbers that no table of the papers has"


@cache
def _published() -> frozenset[str]:
    cells = [cell for paper in papers.ids() for cell in papers.load(paper).cells]
    return frozenset(f"{cell.value:.{cell.decimals}f}" for cell in cells)
