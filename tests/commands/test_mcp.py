"""`ablate mcp`, asked by the protocol's own client."""

from __future__ import annotations

import ast
import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client, StdioServerParameters

from ablate.commands import _agent_tools
from ablate.commands._agent_tools import Tools
from ablate.commands._proposal import proposal
from ablate.commands._schema import schemas
from ablate.commands.mcp import server
from tests.judging.test_judge import THREE, rows, written

READS = {"status", "table", "compare", "papers", "query", "spaces", "components", "judge", "plan"}
JUDGE = {"arm": ["model"], "metric": "acc", "better": "higher"}
STUDY = {
    "question": "Does clipping help?",
    "base": {
        "embedding.size": 8, "backbone": "lstm", "head": "softmax",
        "optimizer": "sgd", "optimizer.learning_rate": 1.0, "training.epochs": 1,
        "corpus.train_tokens": 2000, "corpus.eval_tokens": 500,
    },
    "arms": {"plain": {}, "clipped": {"training.clip": 1.0}},
    "seeds": 3,
}  # fmt: skip


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(
        places={"workspace": str(tmp_path / "w")},
        files=[],
        ledger=str(tmp_path / "ledger.jsonl"),
        proposals=str(tmp_path / "proposals"),
    )


def asked(of: Any, talk: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """What a conversation with a server returns."""

    async def conversation() -> Any:
        async with Client(of) as client:
            return await talk(client)

    return asyncio.run(conversation())


def called(tools: Tools, tool: str, *, may_run: bool = False, **arguments: Any) -> Any:
    """What a tool answers; its error as a text."""
    made = server(tools, may_run=may_run)
    result = asked(made, lambda client: client.call_tool(tool, arguments))
    if result.is_error:
        return result.content[0].text
    found = result.structured_content
    return found["result"] if set(found) == {"result"} else found


def names(tools: Tools, may_run: bool) -> set[str]:
    listed = asked(server(tools, may_run=may_run), lambda client: client.list_tools())
    return {tool.name for tool in listed.tools}


def test_studies_are_started_only_if_so_launched(tools: Tools):
    assert names(tools, may_run=False) == {*READS, "propose", "draw_seeds"}
    assert names(tools, may_run=True) - names(tools, may_run=False) == {"start"}
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


@pytest.mark.slow
def test_a_proposal_is_checked_and_overwrites_nothing(tools: Tools, tmp_path: Path):
    made = called(tools, "propose", name="clipping", **STUDY)
    jsonschema.validate(made["plan"], schemas()["plan"])
    assert made["plan"]["trials"] == 6
    before = Path(made["file"]).read_text()
    assert "exists, and is not overwritten" in called(tools, "propose", name="clipping", **STUDY)
    assert Path(made["file"]).read_text() == before
    wrong = {**STUDY, "base": {**STUDY["base"], "backbone": "lstn"}}
    assert "Did you mean 'lstm'" in called(tools, "propose", name="wrong", **wrong)
    assert "small letters" in called(tools, "propose", name="../out", **STUDY)
    assert [file.name for file in tmp_path.rglob("*.py")] == ["clipping.py"]
    Path(made["file"]).write_text(before + "\nprint('more')\n")
    assert "was changed after it was proposed" in called(tools, "plan", study=made["file"])


def test_a_proposal_is_data_alone(tools: Tools, tmp_path: Path):
    """Whatever an agent writes into a text, the file executes nothing of it."""
    evil = '"""\nopen("out", "w")\n"""'
    text = proposal(
        "a", evil, {evil: evil}, {evil: {evil: [1, None, True]}, "b": {}},
        corpus=evil, seeds=3, margin=evil,
    )  # fmt: skip
    tree = ast.parse(text)
    called_names = {node.func.id for node in ast.walk(tree)
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    assert called_names == {"Study", "Arm", "table", "Scale"}


def test_a_file_that_nobody_named_is_not_executed(tools: Tools, tmp_path: Path):
    file = tmp_path / "other.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert "Study files are code" in called(tools, "plan", study=str(file))
    assert "Study files are code" in called(tools, "start", may_run=True, study=str(file))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"corpus": "folder:/etc"}, "folder:/etc"),
        ({"base": {"corpus.name": "folder:texts"}}, "folder:texts"),
        ({"arms": {"a": {}, "b": {"evaluator.file": ["../secret"]}}}, "../secret"),
        ({"corpus": "~/texts"}, "~/texts"),
    ],
)
def test_a_proposal_names_no_place_to_read(tools: Tools, tmp_path: Path, words: Any, named: str):
    answer = called(tools, "propose", name="a", **{**STUDY, **words})
    assert f"names a place, '{named}'" in answer
    assert not (tmp_path / "proposals").exists()


def test_a_named_file_is_executed_as_it_was_at_launch(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    tools = Tools(places={}, files=[str(file)], ledger=None, proposals=str(tmp_path))
    assert "no `study = Study(...)` in" in called(tools, "plan", study=str(file))
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for tool in ("plan", "start"):
        answer = called(tools, tool, may_run=True, study=str(file))
        assert "is not the file that it was when the server was started" in answer
    assert not (tmp_path / "ran").exists()


def test_what_is_started_ends_without_a_zombie_and_has_a_log_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_agent_tools.sys, "executable", "/bin/echo")
    files = [tmp_path / folder / "study.py" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text("")
    tools = Tools(places={}, files=[*map(str, files)], ledger=None, proposals=str(tmp_path))
    started = [called(tools, "start", may_run=True, study=str(file)) for file in files]
    assert len({one["log"] for one in started}) == 2
    deadline = time.monotonic() + 60
    while any(_exists(one["process"]) for one in started) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(_exists(one["process"]) for one in started)
    assert all(
        str(file) in Path(one["log"]).read_text() for file, one in zip(files, started, strict=True)
    )


def _exists(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_a_start_is_the_command(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    words: list[str] = []

    class Started:
        pid = 7

        def __init__(self, command: list[str], **_: Any) -> None:
            words.extend(command)

        def wait(self) -> None:
            pass

    monkeypatch.setattr(_agent_tools.subprocess, "Popen", Started)
    started = called(tools, "start", may_run=True, study="doc_layer_mix", workers=2)
    assert started["process"] == 7
    assert words[1:4] == ["-m", "ablate", "study"]
    assert words[4].endswith("studies/doc_layer_mix.py")
    assert {"--workers=2", f"--workspace={tmp_path / 'w'}"} <= set(words)
