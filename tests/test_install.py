"""Messages on missing packages name these packages: an index's `ablate` is another project."""

from importlib import metadata

import pytest

from ablate.errors import to_install
from tests.support import places


@pytest.mark.parametrize(
    "package, command",
    [
        ("pyarrow", "pip install 'pyarrow>=17'"),  # of no extra: the installation is broken
        ("duckdb", "pip install 'ablate-studies[query]'"),
        ("ray", "pip install 'ablate-studies[study]'"),  # and not the larger one that has it, too
        ("rouge_score", "pip install 'ablate-studies[lm]'"),
        ("httpx", "pip install 'httpx>=0.27'"),  # `dev` is for a checkout
        ("scikit-learn", "pip install scikit-learn"),
        ("boto", "pip install boto"),  # not boto3
    ],
)
def test_the_extra_that_has_a_package_is_named(package, command, monkeypatch):
    required = {
        "": ["numpy>=1.26", "pyarrow>=17"],
        "query": ["duckdb>=1.2"],
        "study": ["ray[tune]<2.61,>=2.50"],
        "lm": ["rouge-score>=0.1.2"],
        "cluster": ["ray[default]>=2.52", "boto3>=1.34"],
        "dev": ["httpx>=0.27"],
    }
    texts = [
        f"{package}; extra == '{extra}'" if extra else package
        for extra, packages in required.items()
        for package in packages
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: texts)
    assert to_install(package) == command


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
