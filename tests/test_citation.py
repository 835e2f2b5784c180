"""`CITATION.cff` names this version, and the five papers as `ablate/papers` has them."""

from __future__ import annotations

import tomllib

import yaml

from tests.support import places

CITATION = yaml.safe_load((places.ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def full_name(author: dict[str, str]) -> str:
    return f"{author['given-names']} {author['family-names']}"


def test_it_is_of_this_version():
    project = tomllib.loads((places.ROOT / "pyproject.toml").read_text())["project"]
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert (CITATION["type"], CITATION["version"]) == ("software", project["version"])


def test_its_references_are_the_papers():
    files = (places.ROOT / "ablate" / "papers").glob("*.toml")
    papers = [tomllib.loads(file.read_text(encoding="utf-8")) for file in files]
    ours = {(p["title"], p["year"], p["url"], *p["authors"]) for p in papers}
    cited = {
        (r["title"], r["year"], r["url"], *map(full_name, r["authors"]))
        for r in CITATION["references"]
    }
    assert cited == ours
