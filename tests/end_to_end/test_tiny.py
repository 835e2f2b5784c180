"""Studies of milliseconds under Ray: each ends with its table. `--tiny N` sets how many run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ablate.store import journal as journals
from ablate.store.store import Store

pytest.importorskip("ray")
pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent
STUDY = """
import sys
from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Study, setting, table, task


@dataclass(frozen=True, kw_only=True)
class Settings:
    rate: float = setting(0.1, doc="a number")


@task("tiny", config=Settings, metrics=Metric("loss"))
def tiny(run):
    loss = run.config.rate + run.seed / 100
    return {"valid_loss": loss, "test_loss": loss, "forked": float("torch._dynamo" in sys.modules)}


study = Study(
    question="Does it end?",
    base={"task": "tiny"},
    base_arm="low",
    design=table(Arm("low"), Arm("high", {"tiny.rate": 0.2})),
    scales={"few": Scale(seeds=1)},
)
"""


def command(seeds: int, workers: int) -> list[str]:
    return ["study", "tiny.py", "--seeds", str(seeds), "--workers", str(workers)]


def test_no_garbage_refers_to_ray_when_ray_ends(tmp_path):
    """And its workers were forks of a process that had imported what is slow."""
    (tmp_path / "tiny.py").write_text(STUDY)
    late = [sys.executable, str(HERE / "late.py"), *command(2, 2), "--workspace", "workspace"]
    ended = subprocess.run(late, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "garbage is collected\n")
    assert len([*tmp_path.glob("workspace/studies/*/table.md")]) == 1
    known = journals.read_all(Store(str(tmp_path / "workspace" / "store"))).values()
    assert [journal.metrics["forked"] for journal in known] == [1.0] * 4


@pytest.mark.more_kills
@pytest.mark.timeout(3600)  # with --tiny 50
def test_each_of_many_tiny_studies_has_its_table(places, request):
    for number in range(request.config.getoption("--tiny")):
        place, seeds = places(), 1 + 7 * number % 20
        place.write("tiny.py", STUDY)
        ended = place.ablate(*command(seeds, 1 + number % 4))
        ended.succeeded()
        assert f"{2 * seeds} of {2 * seeds} trials done" in ended.out
        assert len([*place.workspace.glob("studies/*/table.md")]) == 1
