"""The commands inside the manifests and the image exist, and the README's numbers are theirs."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
import warnings

import pytest

from ablate import cli
from ablate.commands import study
from tests.support.manifests import (
    PLATFORMS,
    ROOT,
    TREE,
    amount,
    asked,
    objects,
    of_administrators,
    of_kind,
    ray_specs,
    together,
)

README = (TREE / "README.md").read_text()
IN_IMAGE = "/opt/ablate/"


def parsed(command: str) -> argparse.Namespace:
    """Parse an `ablate ...` command as ablate itself does."""
    words = shlex.split(command)
    assert words[0] == "ablate"
    return cli.parser(words[1]).parse_args(words[1:])


@pytest.mark.parametrize("platform", PLATFORMS)
def test_entrypoint(platform: str) -> None:
    (job,) = objects(f"{platform}/study")
    options = parsed(job["spec"]["entrypoint"])
    assert options.run is study.run
    file = ROOT / options.file.removeprefix(IN_IMAGE)
    assert file.is_file()
    if options.scale:
        from ablate.study.file import load

        assert options.scale in load(file).scales


@pytest.mark.slow
def test_mlflow_server() -> None:
    """Every option of the server's command is one of this MLflow's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own, of what it imports
        from mlflow.cli import cli as mlflow
    (server,) = of_kind(objects("kuberay"), "Deployment")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["mlflow"]
    command, *arguments = container["args"]
    context = mlflow.commands[command].make_context("server", arguments, resilient_parsing=True)
    assert context.params["app_name"] == "basic-auth"
    assert context.params["serve_artifacts"] is True
    assert context.params["port"] == 5000
    assert not context.args


@pytest.mark.parametrize("platform", PLATFORMS)
def test_overlays_that_the_readme_applies_exist(platform: str) -> None:
    for place in re.findall(r"kubectl \w+ -k (k8s/\S+)", README):
        assert (ROOT / place / "kustomization.yaml").is_file(), place
    assert f"k8s/overlays/{platform}" in README


@pytest.mark.parametrize("platform", PLATFORMS)
def test_quota_lets_it_run(platform: str) -> None:
    """The smallest platform with the largest study, and the head of one that failed before."""
    (quota,) = of_kind(objects(platform), "ResourceQuota")
    hard = quota["spec"]["hard"]
    least, most = asked(objects(platform), 0), asked(objects(f"{platform}/study"), 1)
    (failed,) = objects(f"{platform}/study")
    failed["spec"]["rayClusterSpec"]["workerGroupSpecs"] = []
    kept = asked([failed], 0)
    assert {name for name in hard if not name.startswith("services")} == set(least)
    for name in least:
        assert least[name] + most[name] + kept[name] <= amount(hard[name]), name


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_readme_says_what_is_asked_for(platform: str) -> None:
    asked_for = asked(together(platform), 0)
    row = next(line for line in README.splitlines() if f"| `k8s/overlays/{platform}`" in line)
    cpus, gibibytes = (f"{asked_for[f'requests.{name}']:g}" for name in ("cpu", "memory"))
    assert f"| {cpus} CPUs, {gibibytes} GiB" in row


def test_kueue_lets_it_run() -> None:
    (queue,) = of_kind(of_administrators(), "ClusterQueue")
    (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
    most = asked(objects("kueue/study"), 1)
    for each in flavor["resources"]:
        assert most[f"requests.{each['name']}"] <= amount(each["nominalQuota"])


def test_every_pin_of_the_image() -> None:
    """Every package of the image's extra is pinned."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        re.split("==", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    for requirement in project["optional-dependencies"]["cluster"]:
        name = re.match(r"[\w-]+", requirement)
        assert name is not None
        assert name[0] in pinned or name[0] == project["name"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_ray_start_takes_the_params(platform: str) -> None:
    """Every key of rayStartParams is an option of this Ray's `ray start`."""
    from ray.scripts.scripts import start

    (spec,) = ray_specs(objects(f"{platform}/study"))
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        words = [f"--{name}={value}" for name, value in group["rayStartParams"].items()]
        context = start.make_context("start", words, resilient_parsing=True)
        assert not context.args
        assert context.params["object_store_memory"] == 268435456
