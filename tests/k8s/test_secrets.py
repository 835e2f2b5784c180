"""The documented command makes every Secret that is used, fresh, and the tree holds none."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.manifests import (
    PLATFORMS,
    TREE,
    VARIANTS,
    objects,
    of_kind,
    pods,
    secrets,
    together,
    variant,
)

OPERATOR_NEEDS = {("ablate-ray", "auth_token")}
STORE = "s3://journals/store?scheme=https&endpoint_override=objects.example:9000"
BUCKET = {"STORE_URI": STORE, "STORE_KEY": "key", "STORE_SECRET": "secret"}


def _references(value: Any) -> Iterator[tuple[str, str | None]]:
    """(Secret, key) of every reference in an object; key None: all of it."""
    if isinstance(value, list):
        for part in value:
            yield from _references(part)
        return
    if not isinstance(value, dict):
        return
    if "secretKeyRef" in value:
        yield value["secretKeyRef"]["name"], value["secretKeyRef"]["key"]
    if "secretRef" in value:
        yield value["secretRef"]["name"], None
    if "secretName" in value and "items" in value:
        yield from ((value["secretName"], item["key"]) for item in value["items"])
    elif "secretName" in value and "mode" not in value:
        yield value["secretName"], None
    for part in value.values():
        yield from _references(part)


def _missing(found: list[dict[str, Any]], made: Mapping[str, Mapping[str, str]]) -> set[Any]:
    wanted = {reference for item in found for reference in _references(item)} | OPERATOR_NEEDS
    return {
        (name, key)
        for name, key in wanted
        if name not in made or (key is not None and key not in made[name])
    }


@pytest.mark.parametrize("platform", PLATFORMS)
def test_all_are_made(platform: str) -> None:
    found = together(platform)
    assert len({reference for item in found for reference in _references(item)}) >= 5
    assert _missing(found, secrets()) == set()


@pytest.mark.parametrize("name", VARIANTS)
def test_all_are_made_for_variants(name: str, tmp_path: Path) -> None:
    assert _missing(variant(name, tmp_path), secrets(BUCKET)) == set()


def test_none_is_made_for_nothing() -> None:
    used = {name for item in together("kuberay") for name, _ in _references(item)} | {"ablate-ray"}
    assert set(secrets()) - used == {"ablate-reader"}  # for people


def test_they_are_fresh_and_long() -> None:
    first, second = secrets(), secrets()
    fixed = {
        "MLFLOW_AUTH_ADMIN_USERNAME",
        "MLFLOW_TRACKING_USERNAME",
        "MLFLOW_TRACKING_URI",
        "username",
    }
    for name, values in first.items():
        for key, value in values.items():
            assert (value == second[name][key]) == (key in fixed), (name, key)
            if key not in fixed:
                assert re.search(r"[0-9a-f]{20,}", value), (name, key)


def test_they_agree_with_each_other() -> None:
    made = secrets()
    logins = json.loads(made["ablate-mlflow-users"]["logins.json"])
    assert logins["driver"]["password"] == made["ablate-driver"]["MLFLOW_TRACKING_PASSWORD"]
    assert logins["reader"]["password"] == made["ablate-reader"]["password"]
    assert logins["admin"]["password"] == made["ablate-mlflow"]["MLFLOW_AUTH_ADMIN_PASSWORD"]
    assert [name for name, login in logins.items() if login["admin"]] == ["admin"]
    postgres = made["ablate-postgres"]
    assert postgres["MLFLOW_PASSWORD"] in made["ablate-mlflow"]["MLFLOW_BACKEND_STORE_URI"]
    assert postgres["SEARCHES_PASSWORD"] in made["ablate-driver"]["ABLATE_SEARCHES"]


def test_own_urls_are_taken_as_they_are() -> None:
    """Also with characters that are special in YAML, shells and INI files."""
    url = "postgresql+psycopg://me:p%40's$x@db.example:5432/records"
    made = secrets({"USERS_URL": url, "MLFLOW_URL": url, "SEARCHES_URL": url})
    ini = configparser.ConfigParser()
    ini.read_string(made["ablate-mlflow-users"]["basic_auth.ini"])
    assert ini["mlflow"]["database_uri"] == url
    assert made["ablate-mlflow"]["MLFLOW_BACKEND_STORE_URI"] == url
    assert made["ablate-driver"]["ABLATE_SEARCHES"] == url


def test_the_stores_uri_is_taken_as_it_is_and_opens() -> None:
    from pyarrow import fs

    made = secrets(BUCKET)["ablate-store"]
    assert made["ABLATE_STORE"] == STORE
    system, root = fs.FileSystem.from_uri(made["ABLATE_STORE"])
    assert system.type_name == "s3"
    assert root == "journals/store"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_workers_have_no_secrets(platform: str) -> None:
    """No worker's pod names a Secret: the operator gives it what it needs of the token."""
    workers = [
        pod for pod in pods(together(platform)) if pod.labels.get("ray.io/node-type") == "worker"
    ]
    assert workers
    for pod in workers:
        assert not list(_references(dict(pod.spec)))


def test_nothing_is_shipped() -> None:
    """No Secret object in the tree, and nothing that looks like a password."""
    for platform in PLATFORMS:
        assert not of_kind(objects(platform), "Secret")
    for path in TREE.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not re.search(r"[0-9a-f]{32,}|AKIA[0-9A-Z]{16}|BEGIN .*PRIVATE KEY", text), path
            assert not re.search(r"^\s*kind: Secret$|secretGenerator", text, re.M), path
