"""Clusters by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate import cli
from ablate.commands import _clusters as clusters
from ablate.commands import _options
from ablate.errors import ConfigError

TEXT = '[lab]\naddress = "10.0.0.5:6379"\nstore = "s3://bucket/x"\nworkers = 16\n'


@pytest.mark.parametrize("address", ["10.0.0.5:6379", "auto", "local", "[::1]:6379"])
def test_an_address_is_no_name(tmp_path: Path, address: str) -> None:
    assert clusters.named(address, tmp_path) == {"address": address}


def test_a_name(tmp_path: Path) -> None:
    (tmp_path / "clusters.toml").write_text(TEXT)
    result = clusters.named("lab", tmp_path)
    assert result == {"address": "10.0.0.5:6379", "store": "s3://bucket/x", "workers": 16}


def test_what_the_command_names_comes_first(tmp_path: Path) -> None:
    (tmp_path / "clusters.toml").write_text(TEXT)
    words = ["study", "x.py", "--cluster", "lab", "--workspace", str(tmp_path), "--workers", "2"]
    options = cli.parser("study").parse_args(words)
    _options.settle_cluster(options)
    assert (options.cluster, options.workers) == ("10.0.0.5:6379", 2)
    assert options.store == "s3://bucket/x" and options.mlflow is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cluster 'labs'"),
        (TEXT, "did you mean 'lab'|lab"),
        ("[labs]\nstore = 's3://x'\n", "needs an address"),
        ("[labs]\naddress = 'a:1'\nadress = 'x'\n", "adress"),
        ("[labs]\naddress = 'a:1'\nworkers = 'many'\n", "workers"),
        ("[labs\n", "clusters.toml"),
    ],
)
def test_what_is_wrong_with_it(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "clusters.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        clusters.named("labs", tmp_path)
