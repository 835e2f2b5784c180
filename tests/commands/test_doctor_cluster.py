"""What `ablate doctor --cluster` concludes from results; a real head is queried if there is Ray."""

from __future__ import annotations

import pytest

from ablate import cli
from ablate.commands.doctor import cluster as doctor_cluster
from ablate.commands.doctor.finding import FAIL, OK
from ablate.trial.provenance.environment import versions

OURS = {"ablate": "1", "torch": "2", "numpy": "2", "ray": "3", "pyarrow": "4"}


def host(gpus: int = 0, **words) -> dict:
    resources = {"CPU": 2.0, **({"GPU": words["seen"]} if "seen" in words else {})}
    other = words.get("versions", {})
    return {"host": "10.0.0.2", "ray": resources, "versions": {**OURS, **other}, "gpus": gpus}


def test_all_is_well() -> None:
    (finding,) = doctor_cluster.compare([host(), host(1, seen=1.0)], OURS)
    assert finding.state == OK and "2 hosts with 4 CPUs and 1 GPUs" in finding.found


@pytest.mark.parametrize(
    ("wrong", "text", "remedy"),
    [
        (host(versions={"torch": "1"}), "10.0.0.2 has torch 1 (here 2)", "one image"),
        (host(2, seen=1.0), "has 2 GPUs, and Ray sees 1", "--num-gpus"),
    ],
)
def test_what_is_wrong_with_a_host(wrong: dict, text: str, remedy: str) -> None:
    _, finding = doctor_cluster.compare([wrong], OURS)
    assert finding.state == FAIL and text in finding.found and remedy in finding.remedy


def test_a_wrong_token() -> None:
    err = "RuntimeError: ...\nInvalidAuthToken: the authentication token is invalid"
    (finding,) = doctor_cluster.interpret("", err, "h:1")
    assert finding.state == FAIL and "refuses the token" in finding.found
    assert "RAY_AUTH_TOKEN" in finding.remedy


def test_another_ray() -> None:
    """With the message of Ray, which accepts only its own version."""
    from ray._private.utils import check_version_info

    theirs = {"ray_version": "2.0.0", "python_version": "3.8.1"}
    with pytest.raises(RuntimeError) as refused:
        check_version_info(theirs, "this node")
    (finding,) = doctor_cluster.interpret(
        "", f"Traceback ...\nRuntimeError: {refused.value}", "h:1"
    )
    assert (finding.state, finding.exit_code) == (FAIL, 7)
    assert "Ray: 2.0.0 Python: 3.8.1" in finding.found and "one image" in finding.remedy


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
    (finding,) = doctor_cluster.cluster("ray://127.0.0.1:10001")
    assert (finding.state, finding.exit_code) == (FAIL, 5) and "Ray Client" in finding.found


def test_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    (finding,) = doctor_cluster.cluster("127.0.0.1:9")
    assert finding.state == FAIL and "no token" in finding.found


def test_the_question_is_one_that_python_can_read() -> None:
    compile(doctor_cluster.QUERY, "QUERY", "exec")
    assert set(doctor_cluster.SAME) <= {*versions(), "ray"}
