"""`ablate slurm`: the script that it writes, how it submits it, and what it refuses."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from ablate import cli
from ablate.commands import slurm
from tests.support.small_studies import BASE

STUDY = f"""
from ablate import Arm, Scale, Study, table

study = Study(
    question="On Slurm?",
    base={BASE!r},
    base_arm="a",
    design=table(Arm("a"), Arm("b", {{"backbone.units": 9}})),
    scales={{"s": Scale(seeds=2), "gpu": Scale(seeds=2, gpus=0.5, threads=2),
            "rows": Scale(seeds=2, threads=4)}},
)
"""
SHOWS_FOLDER = """#!/bin/sh
for word; do case $word in --temp-dir=*) cd "${word#*=}" ;; esac; done
stat -c "%a %u" . >&2
pwd >&2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a space in its name, which counts as one that all nodes see."""
    monkeypatch.setattr(slurm, "NODE_LOCAL", ("/dev/shm",))
    monkeypatch.delenv("TMPDIR", raising=False)
    made = tmp_path / "my studies"
    made.mkdir()
    (made / "x.py").write_text(STUDY)
    monkeypatch.chdir(made)
    return made


def script(folder: Path, *words: str) -> list[str]:
    """The lines of the script, which bash can parse."""
    assert cli.main(["slurm", "x.py", "--to", "job.sh", *words]) == 0
    subprocess.run(["bash", "-n", "job.sh"], check=True)
    return (folder / "job.sh").read_text().splitlines()


def test_what_sbatch_is_asked_for(folder: Path) -> None:
    words = ["--nodes", "4", "--cpus", "3", "--time", "12:00:00", "--", "--partition", "cpu"]
    lines = script(folder, *words, "-A", "it's mine", "--nodes=5")
    asked = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]
    given = {"--nodes=4", "--cpus-per-task=3", "--requeue", "--open-mode=append"}
    assert given | {"--signal=B:USR1@120", "--ntasks-per-node=1"} <= {*asked}
    assert not [line for line in asked if "gpu" in line or "exclusive" in line]
    assert [shlex.split(line) for line in asked[-4:]] == [
        ["--time=12:00:00"],
        ["--partition", "cpu"],
        ["-A", "it's mine"],
        ["--nodes=5"],
    ]
    assert shlex.split(asked[2]) == [f"--chdir={folder}"]


def test_the_study_that_the_job_runs(folder: Path) -> None:
    words = ("--scale", "s", "--store", "a store", "--set", "training.epochs=2", "--again")
    lines = script(folder, *words)
    line = next(line for line in lines if line.startswith("study=("))
    shown = subprocess.run(
        ["bash", "-c", f'{line}; printf "%s\\n" "${{study[@]}}"'],
        capture_output=True,
        text=True,
        check=True,
    )
    program, *words = shown.stdout.splitlines()
    assert words[:2] == ["-m", "ablate"] and Path(program).is_file()
    options = cli.parser("study").parse_args(words[2:])
    assert options.file == str(folder / "x.py") and options.scale == "s"
    assert options.store == str(folder / "a store") and options.set == ["training.epochs=2"]
    assert options.workspace == str(folder / ".ablate")
    assert options.again and not options.keep


def test_a_script_whose_name_is_not_utf_8(folder: Path) -> None:
    name = os.fsdecode(b"job-\xff.sh")
    assert cli.main(["slurm", "x.py", "--to", name]) == 0
    subprocess.run(["bash", "-n", name], check=True)
    assert b"job-\xff.sh" in (folder / name).read_bytes()


def fake_sbatch(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "sbatch").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_submitted(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    fake_sbatch(folder, monkeypatch, 'echo "$@" > given; echo "17;cluster"')
    assert cli.main(["slurm", "x.py", "--submit"]) == 0
    file = folder / ".ablate" / "slurm" / "x@s.sh"
    assert (folder / "given").read_text() == f"--parsable {file}\n" and file.is_file()
    log = file.with_name("x@s-17.log")
    assert capsys.readouterr().out.endswith(f"Submitted as job 17. Its output: {log}\n")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--submit"], 7, "sbatch, which is not on the PATH"),
        (["--store", "/dev/shm/x"], 4, "the store is at /dev/shm/x, which is on a disk of this"),
        (["--scale", "t"], 2, "did you mean 's'|scale 't'"),
        (["--scale", "gpu"], 2, "each trial needs 0.5 GPUs on one node"),
        (["--scale", "gpu", "--gpus", "1", "--cpus", "1"], 2, "each trial needs 2 cores"),
        (["--scale", "rows", "--cpus", "3"], 2, "each trial needs 4 cores"),
        (["--", "cpu"], 2, "'cpu' is not an option of sbatch"),
        (["--", "--comment", "a\nb"], 2, "has a line break"),
        (["--mlflow", "http://me:hunter22@host"], 2, "MLFLOW_TRACKING_URI when you submit"),
    ],
)
def test_refused(folder: Path, monkeypatch, capsys, words, status, message) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli.main(["slurm", "x.py", *words]) == status
    error = capsys.readouterr().err
    assert any(part in error for part in message.split("|")), error
    assert not (folder / ".ablate" / "slurm").exists() and "hunter22" not in error


def test_the_folder_of_ray_is_new_and_of_this_user_alone(folder: Path) -> None:
    """Another user who guessed its name could make it first, and would own Ray's sockets."""
    text = "\n".join(script(folder))
    node = text.split("\nnode='\n")[1].split("\n'\n")[0]
    python = folder / "python"
    python.write_text(SHOWS_FOLDER)
    python.chmod(0o700)
    names = ("SLURM_CPUS_ON_NODE", "gpus", "SLURM_JOB_ID", "SLURM_PROCID", "port", "client")
    env = {"PATH": os.environ["PATH"], "python": str(python), "ip": "", **dict.fromkeys(names, "0")}
    seen = []
    for _ in range(2):
        ended = subprocess.run(["bash", "-c", node], env=env, capture_output=True, text=True)
        modes, path = ended.stderr.splitlines()
        assert modes == f"700 {os.getuid()}"
        seen.append(Path(path))
    assert len({*seen}) == 2 and all(each.parent == Path("/tmp") for each in seen)
    assert not [each for each in seen if each.exists()]
