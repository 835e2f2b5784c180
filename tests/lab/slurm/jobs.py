"""`make test-slurm`: a study as a job of a real Slurm, which is disturbed in every way it has.

Whatever happens to the job, the study ends with the table of a run without Slurm, bit for bit.
Not among the usual tests, which need no Slurm: on Debian,
`apt-get install --no-install-recommends slurm-wlm`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.store import journal as journals
from ablate.store.store import Store
from tests.lab.slurm import daemons
from tests.lab.slurm.daemons import Slurm, wait_for
from tests.support import places

pytestmark = [pytest.mark.timeout(600), pytest.mark.cluster]
STUDIES = places.TESTS / "end_to_end" / "studies"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if absent := daemons.missing():
        pytest.skip(f"not installed: {', '.join(absent)} (Debian: slurm-wlm)")
    with Slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which `ablate slurm` takes for a disk of one node."""
    made = Path(tempfile.mkdtemp(prefix=".slurm test ", dir=places.ROOT))  # with spaces
    for name in ("real.py", "often.py"):
        shutil.copy(STUDIES / name, made)
    yield made
    shutil.rmtree(made)


def ablate(*words: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    env = {**(env or os.environ), "PYTHONPATH": str(places.ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ablate", *words]
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended
    return ended.stdout


def results(workspace: Path) -> dict:
    """What each trial found, to the bit."""
    store = Store(str(workspace / "store"))
    return {
        name: (one.status, one.metrics, [epoch.metrics for epoch in one.epochs])
        for name, one in journals.read_all(store).items()
    }


def table(folder: Path, workspace: Path) -> str:
    return ablate("table", "real", "--seeds", "--workspace", str(workspace), cwd=folder)


@pytest.fixture(scope="module")
def plain(folder: Path) -> tuple[dict, str]:
    """The study's results and table without Slurm."""
    workspace = folder / "plain"
    ablate("study", "real.py", "--local", "--workspace", str(workspace), cwd=folder)
    return results(workspace), table(folder, workspace)


class Job:
    """A study that is submitted, in a workspace of its own."""

    def __init__(self, slurm: Slurm, folder: Path, name: str) -> None:
        self._slurm, self._folder, self.workspace = slurm, folder, folder / name
        self.workspace.mkdir()
        (self.workspace / "data").symlink_to(folder / "plain" / "data")
        self.id = ""

    def submit(self, *options: str) -> None:
        words = ("slurm", "real.py", "--cpus", "1", "--workspace", str(self.workspace), "--submit")
        printed = ablate(*words, *options, cwd=self._folder, env=self._slurm.env)
        self.id = printed.partition("Submitted as job ")[2].partition(".")[0]

    @property
    def log(self) -> str:
        file = next((self.workspace / "slurm").glob(f"*-{self.id}.log"), None)
        return "" if file is None else file.read_text()

    def epochs(self) -> int:
        with contextlib.suppress(OSError):
            known = journals.read_all(Store(str(self.workspace / "store")))
            return sum(len(one.epochs) for one in known.values())
        return 0

    def runs_until_some_epochs(self, number: int = 3) -> None:
        wait_for(lambda: self.epochs() >= number, f"{number} epochs: {self.log}")
        assert self._slurm.state(self.id) == "RUNNING"

    def ends(self, state: str = "COMPLETED") -> None:
        wait_for(self._has_ended, "ended", 400)
        assert self._slurm.state(self.id) == state, self.log

    def _has_ended(self) -> bool:
        """Slurm holds a requeued job back for two minutes, unless it is told otherwise."""
        found = self._slurm.state(self.id)
        if found == "PENDING":
            self._slurm.run("scontrol", "update", f"jobid={self.id}", "starttime=now")
        return found not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED")

    def has_found(self, plain: tuple[dict, str]) -> None:
        assert results(self.workspace) == plain[0]
        assert table(self._folder, self.workspace) == plain[1]


@pytest.fixture
def job(request: pytest.FixtureRequest, slurm: Slurm, folder: Path, plain: object) -> Iterator[Job]:
    made = Job(slurm, folder, request.node.name)
    yield made
    slurm.run("scancel", made.id)
    wait_for(lambda: not slurm.run("squeue", "-h").strip(), "an empty queue", 60)
    assert not [*Path("/tmp").glob(f"ablate-ray-{made.id}-*")]


def test_submitted(job: Job, plain: tuple[dict, str]) -> None:
    job.submit("--nodes", "2", "--", "--partition", "work", "--comment", 'it\'s "a" $test')
    job.ends()
    assert "Ray runs on 2 of 2 nodes" in job.log
    job.has_found(plain)


def test_cancelled_and_submitted_again(job: Job, slurm: Slurm, plain: tuple[dict, str]) -> None:
    job.submit()
    job.runs_until_some_epochs()
    slurm.run("scancel", job.id)
    job.ends("CANCELLED")
    assert results(job.workspace) != plain[0]
    job.submit()
    job.ends()
    job.has_found(plain)


def test_a_trial_over_two_nodes(slurm: Slurm, folder: Path) -> None:
    """As docs/tutorials/torchrun.md says; the job is cancelled, and submitted again."""
    page = (places.DOCS / "tutorials" / "torchrun.md").read_text()
    for name, text in re.findall(r"```(?:python|bash)\n# file: (\S+)\n(.*?)```", page, re.DOTALL):
        (folder / name).write_text(text)
    (begins,) = re.findall(r"begin with `(srun .*) train_together.py`", page)
    study = folder / "together.py"
    usual = "python -m torch.distributed.run --standalone --nproc-per-node {processes}"
    apart = study.read_text().replace(usual, begins)
    (folder / "apart.py").write_text(apart.replace('"processes": 2', '"processes": 1'))
    (wrapped,) = re.findall(r"`sbatch --nodes 2 --wrap \"(.*)\"`", page)
    words = wrapped.replace("together.py", "apart.py")
    (folder / "shared").mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**slurm.env, "PATH": path, "TMPDIR": str(folder / "shared"), "OMP_NUM_THREADS": "1"}

    def submitted() -> str:
        command = ["sbatch", "--parsable", "--nodes", "2", "--output", "apart.log", "--wrap", words]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout.strip()

    def num_epochs() -> int:
        store = Store(str(folder / ".ablate" / "store"))
        return sum(len(one.epochs) for one in journals.read_all(store).values())

    def has_ended(job: str, state: str) -> None:
        wait_for(lambda: slurm.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), "ended", 400)
        assert slurm.state(job) == state, (folder / "apart.log").read_text()

    job = submitted()
    wait_for(lambda: num_epochs() >= 4, "4 epochs")
    assert slurm.state(job) == "RUNNING"
    slurm.run("scancel", job)
    has_ended(job, "CANCELLED")
    has_ended(submitted(), "COMPLETED")
    ablate("study", "together.py", "--local", "--workspace", "usual", cwd=folder)
    both = [results(folder / place) for place in (".ablate", "usual")]
    apart_found, found = (sorted(map(repr, each.values())) for each in both)
    assert len(found) == 6 and apart_found == found


def test_requeued(job: Job, slurm: Slurm, plain: tuple[dict, str]) -> None:
    job.submit()
    job.runs_until_some_epochs()
    assert not slurm.run("scontrol", "requeue", job.id)
    job.ends()
    assert slurm.restarts(job.id) == 1
    job.has_found(plain)


def test_a_drained_node(job: Job, slurm: Slurm, plain: tuple[dict, str]) -> None:
    """The job leaves a node that is drained, and resumes on the other one."""
    job.submit()
    job.runs_until_some_epochs()
    before = slurm.node(job.id)
    slurm.run("scontrol", "update", f"nodename={before}", "state=drain", "reason=test")
    assert not slurm.run("scontrol", "requeue", job.id)
    job.ends()
    assert {before, slurm.node(job.id)} == {*daemons.NODES}
    slurm.run("scontrol", "update", f"nodename={before}", "state=resume")
    job.has_found(plain)


def test_a_time_limit(job: Job, slurm: Slurm, plain: tuple[dict, str]) -> None:
    """The signal that Slurm sends before a limit comes when some epochs are done: limits are whole
    minutes, in which a fast machine would have finished."""
    job.submit("--time", "5")
    job.runs_until_some_epochs()
    slurm.run("scancel", "--batch", "--signal=USR1", job.id)
    job.ends()
    assert slurm.restarts(job.id) == 1 and "goes back into the queue" in job.log
    job.has_found(plain)
