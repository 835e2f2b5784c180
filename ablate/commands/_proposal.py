"""The text of a study that an agent proposes: made from data, so that it runs no other code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ablate.errors import StudyError, wrong_value

NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
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
    for what, values in {"base": base, **arms}.items():
        _check(values, what)
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


def _number(margin: str) -> str | float:
    try:
        return float(margin)
    except ValueError:
        return margin
