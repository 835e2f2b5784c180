"""Print the rooms of the house with their lines, the forms of a result, and the way of a result to
its table.

    python -m tests.house [STUDY]

Rooms are the folders of `ablate`, with all lines of their Python files. `FORMS` names each form and
the file that makes it; a form that is not there is an error. The way is counted by running: the
functions of ablate that `ablate table STUDY` calls, of a study in `results`.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from types import FrameType
from typing import Any

from ablate.cli import main
from tests.support import places

PACKAGE = places.ROOT / "ablate"
STUDY = "doc_layer_mix@laptop"
FORMS = {  # as docs/design.md has them; to a table, then to SQL and to MLflow
    "Conclusion": "trial/task.py",
    "Journal": "store/journal.py",  # of Attempt, Epoch, Outcome
    "Result": "results/result.py",
    "ArmResult": "results/arm.py",  # of Measured, Cell
    "ArmSummary": "compare/table/rows.py",  # with its Comparison
    "Judged": "compare/judged.py",
    "Table": "compare/formats/__init__.py",
    "Recorded": "results/rows.py",  # of SQL
    "RunToWrite": "record/tracking.py",
}


def rooms() -> Counter[str]:
    """Folder -> lines; the files beside the folders are one room."""
    lines: Counter[str] = Counter()
    for file in PACKAGE.rglob("*.py"):
        room, *within = file.relative_to(PACKAGE).parts
        lines[room if within else "(top)"] += file.read_text(encoding="utf-8").count("\n")
    return lines


def calls(study: str) -> Counter[tuple[str, str]]:
    """File and function -> how often `ablate table` calls it for a study."""
    called: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and file.startswith(str(PACKAGE)) and not name.endswith(">"):
            called[file, name] += 1

    sys.setprofile(note)
    try:
        with redirect_stdout(StringIO()):
            main(["table", study, "--store", str(places.ROOT / "results")])
    finally:
        sys.setprofile(None)
    return called


if __name__ == "__main__":
    for room, number in (every := rooms()).most_common():
        print(f"{number:7,}  {room}")
    print(f"{every.total():7,}  in all\n\n{len(FORMS)} forms of a result:")
    for name, made_by in FORMS.items():
        if f"class {name}" not in (PACKAGE / made_by).read_text(encoding="utf-8"):
            sys.exit(f"tests/house.py: ablate/{made_by} has no class {name}. Correct FORMS.")
        print(f"  {name:10}  ablate/{made_by}")
    found = calls(sys.argv[1] if sys.argv[1:] else STUDY)
    files = {file for file, _ in found}
    print(f"\nablate table: {len(found)} functions in {len(files)} files, {found.total():,} calls")
