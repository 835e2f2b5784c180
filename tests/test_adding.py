"""`docs/adding.md` as its reader would follow it: every block is run as it stands there."""

from __future__ import annotations

import argparse
import re
from typing import Any

from ablate.compare.formats import table_of_values
from ablate.lm.analysis import NoOptions
from ablate.lm.testing.subject import WIDTH, SmallModel
from tests.support import places

PAGE = places.DOCS / "adding.md"
BLOCKS = re.findall(r"```python\n(?!# file)(.*?)```", PAGE.read_text(), re.DOTALL)
FILES = dict(re.findall(r"```python\n# file: (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))


def test_the_other_blocks_are_a_format_a_command_and_an_analysis(workspace):
    form, command, analysis = map(_executed, BLOCKS)
    table = table_of_values(["name", "size"], [("a", 1 / 3), ("b", None)])
    assert form["write"](table) == f"name\tsize\na\t{1 / 3}\nb\t"
    parser = argparse.ArgumentParser()
    command["arguments"](parser)
    options = parser.parse_args(["--workspace", str(workspace.folder)])
    assert command["run"](options) == "0"
    model = SmallModel({}).model
    finding = analysis["ANALYSIS"].run(argparse.Namespace(model=model), NoOptions())
    assert finding.rows[0][0] < finding.rows[0][1] < 0.1 * WIDTH**0.5


def _executed(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(block, names)
    return names
