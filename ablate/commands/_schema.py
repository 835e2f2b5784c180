"""The JSON Schema of what each command answers with `--format json`, made from its classes."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from ablate.commands import _answers
from ablate.study.next_to_papers import Line

DRAFT = "https://json-schema.org/draft/2020-12/schema"
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
SCALAR = {"type": ["string", "number", "boolean", "null"]}


def schemas() -> Mapping[str, Mapping[str, Any]]:
    """Return command -> the schema of its answer."""
    answers = {
        "status": _of(_answers.Status),
        "table": _rows(_of(_answers.TableRow)),
        "plan": _of(_answers.Plan),
        "compare": _rows({"type": "object", "additionalProperties": SCALAR}),
        "papers": _rows(_object({name: {"type": "string"} for name in Line._fields}, Line._fields)),
        "query": _rows({"type": "object"}),  # with the columns that the query selects
        "spaces": _of(_answers.Spaces),
        "components": _of(_answers.Components),
        "judge": _of(_answers.Judgement),
    }
    return {
        name: {"$schema": DRAFT, "title": f"ablate {name} --format json", **schema}
        for name, schema in answers.items()
    }


def _rows(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": row}


def _object(properties: Mapping[str, Any], required: typing.Iterable[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _of(kind: Any) -> dict[str, Any]:
    """The schema of a type: a dataclass, a tuple, a mapping by text, a union or a plain type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _of_dataclass(kind)
    if origin is types.UnionType:
        return {"anyOf": [_of(one) for one in arguments]}
    if origin is tuple:
        return _rows(_of(arguments[0]))
    if origin is not None:  # a mapping
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    return {} if kind is Any else {"type": PLAIN[kind]}


def _of_dataclass(kind: type) -> dict[str, Any]:
    hints, properties, required = typing.get_type_hints(kind), {}, []
    for field in dataclasses.fields(kind):
        row = field.metadata.get("rows")
        properties[field.name] = _of(hints[field.name]) if row is None else _rows(_of(row))
        # All fields of an answer are written; those of a row of a table only if it has the column.
        if field.default is dataclasses.MISSING or kind is not _answers.TableRow:
            required.append(field.name)
    return {"description": " ".join((kind.__doc__ or "").split()), **_object(properties, required)}
