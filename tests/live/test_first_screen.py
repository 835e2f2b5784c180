"""What a stranger sees without scrolling, on a laptop and on a phone; and that all can read it."""

from __future__ import annotations

import re

import pytest

from ablate.compare.page import page
from ablate.live import assets
from ablate.store.workspace import held
from tests.compare.page.test_in_browser import opened
from tests.live.test_in_browser import tabs  # noqa: F401
from tests.support.browser import is_wider_than_the_window
from tests.support.live_pages import KEY, eventually
from tests.support.whole_study import judged_of

SCREENS = {"laptop": (1280, 720), "phone": (390, 844)}
TEXTS, GROUNDS = ("ink", "dim", "accent", "warning"), ("paper", "soft")
AA = 4.5
SHOWN = "[...document.querySelectorAll('#table thead')].slice(0, 1).flatMap(head => "
SHOWN += "[...head.querySelectorAll('th')].filter(th => th.offsetWidth).map(th => th.innerText))"


def bottom(tab, what: str) -> float:
    box = tab.locator(what).first.bounding_box()
    return box["y"] + box["height"]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("screen", SCREENS)
def test_the_question_and_its_answer_need_no_scrolling(site, tabs, place, tmp_path, screen):  # noqa: F811
    width, height = SCREENS[screen]
    tab = tabs(width=width, height=height)
    with held(place.workspace, KEY):
        tab.goto(f"{site}/study/{KEY}")
        assert tab.locator(".bar").count() == 1
        assert tab.inner_text("main").count("rovisional") == 1
    report = tmp_path / "report.html"
    report.write_text(page(judged_of(place.study), place.workspace.store), encoding="utf-8")
    for one in (tab, opened(tabs, report, width=width, height=height)):
        assert one.inner_text("h1").endswith("?")
        assert bottom(one, "h1") < bottom(one, ".answer") < height
        assert bottom(one, ".compared tbody tr") < height
        assert not is_wider_than_the_window(one)


@pytest.mark.slow
@pytest.mark.cluster
def test_an_interval_narrows_while_it_is_shown(site, tabs, place):  # noqa: F811
    with held(place.workspace, KEY):
        tab = tabs(width=1280, height=720)
        tab.goto(f"{site}/study/{KEY}?show=1")
        row = tab.locator("#shown tbody tr").nth(1)
        seeds, interval = row.locator(".pair"), row.locator(".interval")
        assert (seeds.count(), bottom(tab, "#shown tbody tr >> nth=2") < 720) == (3, True)
        axis, width = tab.inner_text("#shown th.drawn"), interval.bounding_box()["width"]
        assert "+10" in tab.inner_text("#bought")
        place.grow("mos-3", 6, 4.41)
        eventually(lambda: seeds.count() == 4)
        tab.wait_for_timeout(1000)  # it moves
        assert interval.bounding_box()["width"] < width
        assert tab.inner_text("#shown th.drawn") == axis


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_text_has_contrast_in_the_light_and_in_the_dark():
    style = re.sub(r"@media print.*?\n}", "", assets._style(), flags=re.DOTALL)
    light = dict(re.findall(r"--(\w+): (#\w{6});", re.sub(r"@media.*", "", style)))
    dark = {
        **light,
        **dict(re.findall(r"--(\w+): (#\w{6});", "".join(re.findall(r"@media screen.*", style)))),
    }
    assert light["paper"] != dark["paper"]
    for colours in (light, dark):
        pairs = [(text, ground) for text in TEXTS for ground in GROUNDS] + [("ink", "mark")]
        assert not [pair for pair in pairs if contrast(*(colours[name] for name in pair)) < AA]
