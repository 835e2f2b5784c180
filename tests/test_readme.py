"""What README prints is what the commands print; `tests/test_walk.py` runs its steps."""

from __future__ import annotations

import re
import runpy
import shlex

from ablate.cli import main
from ablate.compare.formats import text
from ablate.compare.study_summary import open_study
from ablate.compare.table.study_table import study_table
from ablate.store.store import Store
from ablate.study.file import load
from tests.support import places

README = places.ROOT / "README.md"


def test_the_table_of_the_readme_is_that_of_the_recorded_study():
    section = README.read_text(encoding="utf-8").partition("```\ndoc_layer_mix@laptop")
    block = (section[1] + section[2]).removeprefix("```\n").partition("\n```")[0]
    judged = open_study(Store(str(places.ROOT / "results")), "doc_layer_mix@laptop")
    assert block == text.write(study_table(judged), text.WIDTH)
    shipped = load(places.ROOT / "studies" / "doc_layer_mix.py").scales["laptop"]
    assert shipped.note and shipped.note in judged.record.notes, "how its settings were chosen"


def test_the_arms_of_the_readme_are_those_that_ablate_new_writes(tmp_path):
    main(["new", str(tmp_path / "my_study.py")])
    code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (arms,) = (block.partition("    ...,\n")[2].removesuffix(")\n") for block in code)
    assert arms and arms in (tmp_path / "my_study.py").read_text(encoding="utf-8")


def test_the_judged_table_of_the_readme_is_what_is_printed(capsys, monkeypatch):
    monkeypatch.chdir(places.ROOT)
    section = README.read_text(encoding="utf-8").partition("\n## Results that you already have\n")[
        2
    ]
    command, table = re.findall(r"```(?:sh)?\n(.*?)```", section, re.DOTALL)[:2]
    assert main(shlex.split(command)[1:]) == 0
    assert table in capsys.readouterr().out


def test_ci_says_which_digits_of_the_readme_differ_here(capsys):
    """What it looked for was in no table any more, so it never said anything."""
    compare = runpy.run_path(str(places.ROOT / ".ci" / "readme.py"))["compare_digits"]
    page = README.read_text(encoding="utf-8")
    compare(page, page)
    assert "doc_layer_mix@laptop: 0 of 4 rows" in capsys.readouterr().out
