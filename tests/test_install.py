"""Messages on missing packages name these packages: an index's `ablate` is another project."""

from importlib import metadata

import pytest

from ablate.errors import needs, to_install
from tests.support import places


@pytest.mark.parametrize(
    "package, command",
    [
        ("duckdb", "pip install 'duckdb>=1.2'"),
        ("ray", "pip install 'ray[tune]>=2.50'"),
        ("rouge_score", "pip install 'rouge-score>=0.1.2'"),
        ("scikit-learn", "pip install scikit-learn"),
        ("boto", "pip install boto"),  # not boto3
    ],
)
def test_the_package_is_named_as_it_is_required(package, command, monkeypatch):
    extra = '; extra == "study"'
    required = [
        "torch>=2.6",
        *(f"{each}{extra}" for each in ("duckdb>=1.2", "ray[tune]>=2.50", "rouge-score>=0.1.2")),
        f"boto3>=1.34{extra}",
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: required)
    assert to_install(package) == command


def test_without_metadata_it_is_named_alone(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert needs("queries need", "duckdb") == (
        "queries need the package duckdb, which is not installed. "
        "Install it with: pip install duckdb"
    )


def test_no_message_installs_the_ablate_of_an_index():
    folders = ("ablate", "docs", "k8s", "studies")
    texts = {
        file: file.read_text()
        for folder in folders
        for file in (places.ROOT / folder).rglob("*")
        if file.suffix in (".py", ".md", ".sh", ".yaml", ".toml") and file.name != "log.md"
    }
    wrong = ("pip install ablate", "install 'ablate[", "install ablate[", 'install "ablate[')
    assert [file for file, text in texts.items() if any(each in text for each in wrong)] == []
