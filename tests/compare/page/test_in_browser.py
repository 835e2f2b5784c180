"""The report as a reader sees it: a file, opened in a real Chromium, without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ablate.compare import plots
from ablate.compare.page import page
from ablate.compare.plots import style
from ablate.store.store import Store
from tests.support.browser import is_wider_than_the_window
from tests.support.whole_study import judged_of, whole_study

HOSTILE = "<img src=x onerror=alert(2)>"
LAST = "[data-figure=search] .main-svg"  # figures are drawn in order


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """The same report, as a page to use and as a still one."""
    folder = tmp_path_factory.mktemp("pages")
    judged, store = judged_of(whole_study(HOSTILE)), Store(str(folder / "store"))
    files = {"to use": folder / "report.html", "still": folder / "still.html"}
    for kind, file in files.items():
        file.write_text(page(judged, store, to_use=kind == "to use"), encoding="utf-8")
    return files


def opened(tabs, file: Path, **how):
    tab = tabs(**how)
    tab.goto(file.as_uri())
    return tab


def colours(tab, what: str, property: str) -> set[str]:
    script = (
        "([what, key]) => [...document.querySelectorAll(what)].map(e => getComputedStyle(e)[key])"
    )
    return {*tab.evaluate(script, [what, property])}


def luminance(colour: str) -> float:
    red, green, blue = map(float, re.findall(r"[\d.]+", colour)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def test_every_figure_is_drawn_and_tells_who_points_at_it(tabs, pages):
    tab = opened(tabs, pages["to use"])
    tab.wait_for_selector(LAST)
    assert tab.locator(".drawing > .plot-container").count() == len(plots.OF_PAGES)
    assert tab.evaluate("document.querySelectorAll('img, script[src], link').length") == 0
    point = "[{curveNumber: 1, pointNumber: 2}]"
    tab.evaluate(f"Plotly.Fx.hover(document.querySelector('[data-figure=curves]'), {point})")
    assert f"{HOSTILE} off, b off" in tab.text_content("[data-figure=curves] .hoverlayer")
    titles = tab.evaluate(
        "[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)"
    )
    assert "Download plot" in titles
    assert not [title for title in titles if re.search("share|cloud|edit", title, re.IGNORECASE)]


def test_a_reader_sees_every_number_without_a_script(tabs, pages):
    tab = opened(tabs, pages["to use"], java_script_enabled=False)
    assert tab.locator("noscript p").count() == len(plots.OF_PAGES)
    assert tab.locator("figure details").count() == len(plots.OF_PAGES)
    text = pages["to use"].read_text(encoding="utf-8")
    assert text.index("To run it again") < text.index("<script")


def test_a_still_page_has_pictures_and_no_script(tabs, pages):
    tab = opened(tabs, pages["still"], width=400)
    assert tab.locator("script").count() == 0
    widths = tab.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert len(widths) == len(plots.OF_PAGES) and min(widths) > 100
    assert not is_wider_than_the_window(tab)


def test_it_fits_a_phone_and_a_dark_room(tabs, pages):
    tab = opened(tabs, pages["to use"], width=400, dark=True)
    tab.wait_for_selector(LAST)
    assert not is_wider_than_the_window(tab)
    paper = colours(tab, "body", "backgroundColor")
    assert max(map(luminance, paper)) < 0.2
    for what in (".drawing .xtick text", ".drawing .legendtext", ".drawing .annotation-text"):
        assert min(map(luminance, colours(tab, what, "fill"))) > 0.6
    # Black lines would not be seen.
    assert min(map(luminance, colours(tab, ".drawing .js-line", "stroke"))) > 0.2
    assert style.COLOURS[0] == "#000000"


def test_no_other_script_runs_on_the_page(tabs, pages, tmp_path):
    """Its policy knows its scripts by their hashes."""
    text = pages["to use"].read_text(encoding="utf-8")
    file = tmp_path / "changed.html"
    file.write_text(text.replace("<main>", "<main><script>window.mine = 1</script>"), "utf-8")
    tab = opened(tabs, file)
    tab.wait_for_selector(LAST)
    assert tab.evaluate("window.mine") is None
    (refused,) = tabs.faults
    assert "Content Security Policy" in refused
    tabs.faults.clear()
