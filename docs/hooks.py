"""What the site has besides the pages of this folder; mkdocs calls these functions (mkdocs.yml)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from griffe import Attribute, ExprCall, ExprKeyword, Extension
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from ablate.public import HOMES

ROOT = Path(__file__).parents[1]
# Files outside this folder that pages link to, and where the site has them.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "k8s/README.md": "kubernetes.md",
    "results/README.md": "results.md",
    "benchmarks/search.png": "notes/search.png",
}
METHODS = {"Run": ["epochs"]}  # those that users call; other methods are between our own files
LIES_AT = {page: file for file, page in OUTSIDE.items()}
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<to>[^)\s:#]+)(?P<anchor>#[^)]*)?\)")
FETCHED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(?:https?:)?//[^\s\">]+")


def on_config(config: Any) -> Any:
    """List the page of every public name in the navigation."""
    for part in config.nav:
        for title, pages in part.items():
            if title in ("Classes", "Functions"):
                names = sorted(name for name in HOMES if _folder(name) == title.lower())
                pages += [{name: _page(name)} for name in names]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of public names, and what lies outside this folder."""
    for name in HOMES:
        options = f"    options: {{members: {METHODS.get(name, [])}}}"
        content = f"::: ablate.{name}\n{options}\n"
        files.append(File.generated(config, _page(name), content=content))
    for file, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / file)))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Lead every link to where the site has its target."""
    here = page.file.src_uri
    folder = Path(LIES_AT.get(here, f"docs/{here}")).parent

    def moved(link: re.Match[str]) -> str:
        target = os.path.normpath(folder / link["to"])
        on_site = OUTSIDE.get(target) or target.removeprefix("docs/")
        outside = on_site == target and (ROOT / target).exists()
        if outside or (ROOT / target).is_dir():
            return link["text"]  # the site has no page for it
        return (
            f"[{link['text']}]({os.path.relpath(on_site, Path(here).parent)}{link['anchor'] or ''})"
        )

    return LINK.sub(moved, text)


def on_post_page(output: str, page: Any, **_: Any) -> None:
    """Refuse a page that would fetch anything from the network."""
    if fetched := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} would fetch {fetched[0]}")


def _folder(name: str) -> str:
    return "classes" if name[0].isupper() else "functions"


def _page(name: str) -> str:
    """`Run` and `run` need folders of their own: some file systems take them for one name."""
    return f"{_folder(name)}/{name}.md"


class Defaults(Extension):
    """Shows a field's default as it is, where the code says `setting(5, low=1)`."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Replace such a call by its first argument; without one, the field has no default."""
        call = attr.value
        if isinstance(call, ExprCall) and str(call.function) in ("setting", "limited"):
            default = next(iter(call.arguments), None)
            attr.value = None if isinstance(default, ExprKeyword) else default
