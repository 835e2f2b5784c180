"""`--format json`: every answer has the form that docs/schemas says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ablate.cli import main
from ablate.commands._schema import schemas
from tests.judging.test_judge import OPTIONS, THREE, written
from tests.support import places
from tests.support.golden import golden, regenerating

SCHEMAS = places.DOCS / "schemas"
KEPT = ("status", "table", "judge", "spaces", "components")  # in the golden file


@pytest.mark.golden
def test_the_schemas_in_the_docs_are_those_of_the_code():
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=1) + "\n"
        file = SCHEMAS / f"{name}.json"
        if regenerating():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert file.read_text() == text
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert {file.stem for file in SCHEMAS.glob("*.json")} == set(schemas())


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command answers, of the form that its schema says."""
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schemas()[words[0]], jsonschema.Draft202012Validator)
    return found


@pytest.mark.slow
@pytest.mark.golden
def test_every_command_answers_in_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    written(Path("sweep.csv"), THREE)
    asked = {
        "judge": ("judge", "sweep.csv", *OPTIONS, "--keep", "widths"),
        "status": ("status", "widths"),
        "table": ("table", "widths"),
        "compare": ("compare", "widths", "takase2018doc"),
        "query": ("query", "SELECT arm, num, mean FROM arms"),
        "papers": ("papers", "inan2017tying"),
        "spaces": ("spaces", "takase2018doc_table2"),
        "components": ("components", "gate", "iog"),
        "plan": ("plan", "doc_layer_mix"),
    }
    found = {name: answer(capsys, *words) for name, words in asked.items()}
    assert all(answer(capsys, name) for name in ("status", "spaces", "components"))
    assert set(asked) == set(schemas())
    assert found["plan"]["arms"][0]["planned"] > 0
    found["judge"]["arms"], found["table"] = found["judge"]["arms"][:2], found["table"][:2]
    found["spaces"]["spaces"][0]["rows"] = found["spaces"]["spaces"][0]["rows"][:3]
    text = json.dumps({name: found[name] for name in KEPT}, indent=1, ensure_ascii=False)
    text = text.replace(str(tmp_path), "FOLDER")
    assert text == golden("answers.json", text)
