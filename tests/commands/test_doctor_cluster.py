"""What `ablate doctor --cluster` concludes of hosts; `tests/faults/test_head.py` asks real ones."""

from __future__ import annotations

import pytest

from ablate import cli
from ablate.commands.doctor import cluster as doctor_cluster
from ablate.commands.doctor.finding import FAIL, OK
from ablate.errors import TrialError
from ablate.trial.provenance.environment import versions
from ablate.tune.cluster.hosts import Host

OURS = {"ablate": "1", "torch": "2", "numpy": "2", "ray": "3", "pyarrow": "4"}


def host(gpus: float = 0.0, **versions: str) -> Host:
    return Host("10.0.0.2", 2.0, gpus, {**OURS, **versions})


def test_all_is_well() -> None:
    (finding,) = doctor_cluster.compare([host(), host(1.0)], OURS)
    assert finding.state == OK and "2 hosts with 4 CPUs and 1 GPUs" in finding.found


def test_a_host_with_another_version() -> None:
    _, finding = doctor_cluster.compare([host(torch="1")], OURS)
    assert (finding.state, finding.exit_code) == (FAIL, 7)
    assert "10.0.0.2 has torch 1 (here 2)" in finding.found and "one image" in finding.remedy
    assert set(doctor_cluster.SAME) <= {*versions(), "ray"}


@pytest.mark.parametrize(
    ("words", "set_to", "address"),
    [
        ([], "10.0.0.5:6379", "10.0.0.5:6379"),
        ([], None, "auto"),
        ([], "", "auto"),
        (["10.0.0.6:6379"], "10.0.0.5:6379", "10.0.0.6:6379"),
    ],
)
def test_which_cluster_is_checked(monkeypatch, tmp_path, words, set_to, address) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if set_to is not None:
        monkeypatch.setenv("RAY_ADDRESS", set_to)
    addresses = []
    monkeypatch.setattr(
        "ablate.commands.doctor.examine.examine", lambda _, address: addresses.append(address)
    )
    assert cli.main(["doctor", "--workspace", str(tmp_path), "--cluster", *words]) == 0
    assert addresses == [address]


def test_ray_client_is_refused_as_a_study_does() -> None:
    with pytest.raises(TrialError, match="Ray Client"):
        next(doctor_cluster.cluster("ray://127.0.0.1:10001"))
