"""Search spaces against the registry: fields, techniques and values it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ablate.config import fields, registry
from ablate.errors import SpaceError
from ablate.lm.kinds import LANGUAGE
from ablate.space.check import problems
from ablate.space.space import load
from tests.support.spaces import DOC, MOS, Written, Wrong, text_of, written


def wrong_in_registry(name: str) -> Iterator[Wrong]:
    """Each field misspelt, its technique misspelt, its value of another type or out of range."""
    file, values = Written(text_of(name)), load(name).values("ptb")
    for row, number in file.of("field"):
        field = file.lines[number - 1].split('"')[1]
        if "." not in field:
            rest = f"unknown {field} '{values[field]}x'."
            key, line = file.value(row)
            lines = file.put(line, f'{key} = "{values[field]}x"')
            yield Wrong("technique", lines, file.headers[row], row, rest)
            continue
        key = field.split("[")[0].split(".")[-1]
        config, where = _config(field, values)
        known = [info.name for info in fields.describe(config)]
        lines = file.put(number, f'field = "{field.replace(key, key + "x")}"')
        allowed = ", ".join(known)
        rest = f"{where}: unknown field '{key}x'. Did you mean '{key}'? Expected one of: {allowed}."
        yield Wrong("field", lines, file.headers[row], row, rest)
        info = next(info for info in fields.describe(config) if info.name == key)
        for bad in _bad_values(info):
            kind, line = file.value(row)
            if kind == "same_as":
                continue
            shown = repr([bad] if "[" in field else bad)
            lines = file.put(line, f"value = {bad!r}".replace("'", '"'))
            rest = f"{where}.{key} = {shown} is not allowed. Expected: {info.allowed}."
            yield Wrong("value", lines, file.headers[row], row, rest)


def _config(field: str, values: dict[str, Any]) -> tuple[type, str]:
    room, name, *_ = field.split(".")
    if room in LANGUAGE.sections:
        return LANGUAGE.sections[room], room
    technique = name if room == "regularizer" else values[room]
    return registry.get(room, technique).config, f"{room} {technique}"


def _bad_values(info: fields.FieldInfo) -> list[Any]:
    bad: list[Any] = [] if info.type.startswith("text") else ["many"]
    if info.limits.low is not None:
        bad.append(int(info.limits.low) - 1)
    if info.limits.high is not None:
        bad.append(info.limits.high + 1)
    if info.limits.choices is not None:
        bad.append("no such")
    if info.type.startswith("whole"):
        bad.append(2.5)
    return bad


@pytest.mark.slow
@pytest.mark.parametrize("name", [DOC, MOS])
def test_what_the_registry_does_not_have_is_refused(name, tmp_path):
    count = 0
    for wrong in wrong_in_registry(name):
        path = written(tmp_path, "\n".join(wrong.lines) + "\n")
        with pytest.raises(SpaceError) as error:
            load(path).check()
        text = f"{path}:{wrong.line}: row '{wrong.row}': {wrong.rest}"
        if wrong.kind == "technique":  # other rows' fields are then unknown as well
            texts = list(problems(load(path).rows))
            assert any(problem.startswith(text) for problem in texts)
        else:
            assert str(error.value) == text
        count += 1
    assert count > 90


def test_ends_and_choices_are_checked_like_values(tmp_path):
    path = written(tmp_path, OPEN)
    load(path).check()
    wrong = {
        "range = [1e-3, 1.0]": ("range = [-1, 1]", "Rate", "optimizer sgd.learning_rate = -1.0"),
        "range = [1, 5]\ninteger = true": ("range = [1, 5]", "Epochs", "training.epochs = 1.0"),
        "choices = [0, 0.5]": ("choices = [0, 5]", "Drop", "regularizer weight_drop.rate = 5"),
        "lstm": ("ltsm", "Units", "unknown backbone 'ltsm'."),
        "choices = [2, 4]": ("choices = [2, 0]", "Units", "backbone lstm.units = 0"),
    }
    for before, (after, row, problem) in wrong.items():
        path = written(tmp_path, OPEN.replace(before, after))
        changed = load(path)
        with pytest.raises(SpaceError) as error:
            changed.check()
        assert str(error.value).startswith(f"{path}:{changed[row].line}: row '{row}': {problem}")
        assert ("Add integer = true to the row." in str(error.value)) == (row == "Epochs")


OPEN = """\
paper = "somebody2020"
tables = ["Table 1"]

["Rate"]
field = "optimizer.learning_rate"
range = [1e-3, 1.0]
when = "optimizer = sgd"

["Epochs"]
field = "training.epochs"
range = [1, 5]
integer = true

["Drop"]
field = "regularizer.weight_drop.rate"
choices = [0, 0.5]

["Units"]
field = "backbone.units"
choices = [2, 4]
when = "Kind = lstm"

["Kind"]
field = "backbone"
choices = ["lstm"]

["Experts"]
field = "head.experts"
value = 3
when = "head = mos"

["More experts"]
field = "head.experts"
choices = [[15, 5], [15, 0]]
when = "head = doc"

["Trigger"]
field = "optimizer.trigger"
value = "at_once"
"""


UNSET = {  # in conditions: fields that no row sets
    "training.precison = float32": r"training: unknown field 'precison'\.",
    "training = 3": r"training: unknown field ''\.",
    "training.window in [10, short]": r"training.window = 'short' is not allowed\.",
}


def test_a_field_belongs_to_the_techniques_that_its_conditions_leave(tmp_path):
    path = written(tmp_path, OPEN.replace('"head = mos"', '"head = doc"'))
    with pytest.raises(SpaceError) as error:
        load(path).check()
    assert str(error.value).startswith(
        f"{path}:27: row 'Experts': head doc.experts = 3 is not allowed."
    )
    path = written(tmp_path, OPEN.replace('"head = mos"', '"head = mso"'))
    with pytest.raises(SpaceError, match=r":27: row 'Experts': when: unknown head 'mso'"):
        load(path).check()
    for said, why in UNSET.items():
        path = written(tmp_path, OPEN.replace("head = doc", f"head = doc and {said}"))
        with pytest.raises(SpaceError, match=rf"row 'More experts': when: {why}"):
            load(path).check()
    path = written(tmp_path, OPEN.replace("head = doc", "head = doc and head.tied = true"))
    load(path).check()
    path = written(tmp_path, OPEN.replace("head = doc", "head = doc and head = mos and head.x = 1"))
    load(path).check()  # it never holds
    path = written(tmp_path, OPEN.replace("optimizer.trigger", "optimizer.tigger"))
    with pytest.raises(SpaceError, match=r"row 'Trigger': optimizer: unknown field 'tigger'\."):
        load(path).check()
