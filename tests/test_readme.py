"""README's own study is what it says: printed, copied, run."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ablate import Study, run, smoke
from ablate.compare.formats import text
from ablate.compare.material import open_study
from ablate.compare.table.study_table import study_table
from ablate.store.store import Store
from ablate.study.file import load
from ablate.study.plan import make_plan
from tests.support import places

README = places.ROOT / "README.md"


@pytest.fixture
def printed(tmp_path) -> Study:
    section = README.read_text(encoding="utf-8").partition("\n## A study of your own\n")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n- ")[0], re.DOTALL)
    file = tmp_path / "weight_drop.py"
    file.write_text(code, encoding="utf-8")
    return load(file)


def test_the_table_of_the_readme_is_that_of_the_recorded_study():
    section = README.read_text(encoding="utf-8").partition("```\ndoc_layer_mix@laptop")
    block = (section[1] + section[2]).removeprefix("```\n").partition("\n\nWhere to look next")[0]
    material = open_study(Store(str(places.ROOT / "results")), "doc_layer_mix@laptop")
    assert block == text.write(study_table(material.summary), text.WIDTH)
    shipped = load(places.ROOT / "studies" / "doc_layer_mix.py").scales["laptop"]
    assert shipped.note and shipped.note in material.record.notes, "how its settings were chosen"


@pytest.mark.slow
def test_the_study_of_the_readme_plans_as_printed(printed, data):
    plan = make_plan(printed, data=data)
    one, other = (set(config.flat.items()) for config in plan.configs.values())
    assert dict(one ^ other).keys() == {"regularizer.weight_drop.rate"}
    counts = [arm.num_parameters or 0 for arm in plan.record.arms]
    assert 0 < max(counts) < 200_000, "it asks about a small LSTM"


@pytest.mark.slow
def test_the_study_of_the_readme_runs(printed, workspace):
    small = replace(printed, scales={n: smoke(s) for n, s in printed.scales.items()})
    summary = run(small, workspace=str(workspace.folder), local=True)
    assert summary.whole and all(arm.values for arm in summary.arms)
