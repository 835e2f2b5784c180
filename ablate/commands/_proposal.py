"""The text of a study that an agent proposes: made from data, so that it runs no other code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ablate.errors import StudyError, wrong_value

NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
PATH = re.compile(r"^(folder:|~|\.)|[/\\]")
FILE = '''"""{title} Proposed by an agent; read it before you run it."""

from ablate import Arm, Scale, Study, table

study = Study(
    question={question!r},
    base={base!r},
    base_arm={first!r},
    design=table(
{arms}
    ),
    scales={{"proposed": Scale(corpus={corpus!r}, seeds={seeds!r})}},{margin}
)
'''


def proposal(
    name: str,
    question: str,
    base: Mapping[str, Any],
    arms: Mapping[str, Mapping[str, Any]],
    *,
    corpus: str,
    seeds: int,
    margin: str | None,
) -> str:
    """Return the file; an error if the name or a value cannot be in one."""
    if not NAME.fullmatch(name):
        raise StudyError(wrong_value("name", name, "small letters, digits and _", "proposal"))
    if len(arms) < 2:
        raise StudyError("proposal: a study compares two arms or more. The first is the base: {}.")
    for what, values in {"corpus": {"corpus": corpus}, "base": base, **arms}.items():
        _check(values, what)
        _check_paths(values, what)
    listed = (f"        Arm({arm!r}, {dict(changes)!r})," for arm, changes in arms.items())
    return FILE.format(
        title=" ".join(question.replace("\\", "").replace('"', "'").split()) or name,
        question=question,
        base=dict(base),
        first=next(iter(arms)),
        arms="\n".join(listed),
        corpus=corpus,
        seeds=seeds,
        margin="" if margin is None else f"\n    margin={_number(margin)!r},",
    )


def _check(values: Mapping[str, Any], what: str) -> None:
    """Raise unless these are plain values, which Python reads as they are written."""
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StudyError(f"proposal: {what} has a value that JSON has not: {error}.") from None


def _check_paths(values: Any, what: str) -> None:
    """Raise if a value names a place: a proposal reads corpora by their names, and no files."""
    if isinstance(values, Mapping):
        values = [*values.values()]
    if isinstance(values, list | tuple):
        for value in values:
            _check_paths(value, what)
    elif isinstance(values, str) and PATH.search(values):
        raise StudyError(
            f"proposal: {what} names a place, {values!r}. A proposal may name what `ablate data "
            "list` and `ablate show components` show. For another text or file, a person writes "
            "the study and names it when the server is started (ablate mcp FILE)."
        )


def _number(margin: str) -> str | float:
    try:
        return float(margin)
    except ValueError:
        return margin
