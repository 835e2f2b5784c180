"""`ablate mcp`, asked by the protocol's own client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client, StdioServerParameters

from ablate.commands._agent_tools import Tools
from ablate.commands._schema import schemas
from ablate.commands.mcp import server
from tests.judging.test_judge import THREE, rows, written

READS = {"status", "table", "compare", "papers", "query", "spaces", "components", "judge", "plan"}
JUDGE = {"arm": ["model"], "metric": "acc", "better": "higher"}


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(
        places={"workspace": str(tmp_path / "w")},
        files=[],
        ledger=str(tmp_path / "ledger.jsonl"),
    )


def asked(of: Any, talk: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """What a conversation with a server returns."""

    async def conversation() -> Any:
        async with Client(of) as client:
            return await talk(client)

    return asyncio.run(conversation())


def called(tools: Tools, tool: str, **arguments: Any) -> Any:
    """What a tool answers; its error as a text."""
    made = server(tools)
    result = asked(made, lambda client: client.call_tool(tool, arguments))
    if result.is_error:
        return result.content[0].text
    found = result.structured_content
    return found["result"] if set(found) == {"result"} else found


def test_every_tool_but_the_seeds_reads_and_has_a_schema(tools: Tools):
    listed = asked(server(tools), lambda client: client.list_tools())
    assert {tool.name for tool in listed.tools} == {*READS, "draw_seeds"}
    assert set(schemas()) == READS


@pytest.mark.slow
def test_a_client_over_stdio(tmp_path: Path):
    file = written(tmp_path / "sweep.csv", THREE)
    words = ["-m", "ablate", "mcp", "--workspace", str(tmp_path / "w")]
    launched = StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path)

    async def talk(client: Client) -> Any:
        judged = await client.call_tool("judge", {"results": file, **JUDGE})
        return judged.structured_content, await client.call_tool("status", {"study": "none"})

    judged, status = asked(launched, talk)
    jsonschema.validate(judged, schemas()["judge"])
    assert {row["arm"]: row["verdict"] for row in judged["arms"]}["wide"] == "better"
    assert status.is_error
    assert "unknown study 'none'" in status.content[0].text


def test_every_judgement_is_in_the_ledger_of_the_server(tools: Tools, tmp_path: Path):
    for name in ("wide", "deep"):
        file = written(tmp_path / f"{name}.csv", rows({"plain": 0.0, name: 0.001}))
        judged = called(tools, "judge", results=file, **JUDGE)
    assert judged["comparisons"] == 2
    assert len(called(tools, "draw_seeds", num=3)) == 3


def test_an_argument_is_never_an_option(tools: Tools, tmp_path: Path):
    assert "--store=/elsewhere" in called(tools, "table", study="--store=/elsewhere")
    file = written(tmp_path / "sweep.csv", THREE)
    assert "unknown arm '--draw=3'" in called(
        tools, "judge", results=file, base="--draw=3", **JUDGE
    )


def test_a_file_that_nobody_named_is_not_executed(tools: Tools, tmp_path: Path):
    file = tmp_path / "other.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert "Study files are code" in called(tools, "plan", study=str(file))
    assert not (tmp_path / "ran").exists()


def test_a_named_file_is_executed_as_it_was_at_launch(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    tools = Tools(places={}, files=[str(file)], ledger=None)
    assert "no `study = Study(...)` in" in called(tools, "plan", study=str(file))
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    answer = called(tools, "plan", study=str(file))
    assert "is not the file that it was when the server was started" in answer
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("num", [0, 10**9])
def test_so_many_seeds_are_refused(tools: Tools, tmp_path: Path, num: int):
    assert "Expected: 1 to 1000" in called(tools, "draw_seeds", num=num)
    assert not (tmp_path / "ledger.jsonl").exists()
