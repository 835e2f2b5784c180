"""The page as people use it, in a real Chromium, while a study's journals grow."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from ablate.store.workspace import held
from tests.support.live_pages import ARM, KEY, TOKEN, eventually

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ROWS = "#table > .wide:first-of-type tbody tr"
QUESTION = "From which layers should the mixture's distributions come?"
DRAWN = "document.querySelectorAll('.plot[data-drawn]').length"


@pytest.fixture
def tabs(tabs: Any, site: str) -> Any:
    """Tabs that have opened the printed address."""

    def opened(**more: Any) -> Any:
        tab = tabs(**more)
        tab.goto(f"{site}/?token={quote(TOKEN)}")
        assert tab.url == f"{site}/"
        return tab

    opened.faults = tabs.faults  # type: ignore[attr-defined]
    return opened


def until(tab: Any, is_true: str) -> None:
    """Wait for it; playwright's own wait evaluates a string, which the policy forbids."""
    eventually(lambda: tab.evaluate(is_true))


def whole(tab: Any) -> None:
    """Scroll to the end, so that every figure is drawn."""
    for step in range(8):
        tab.evaluate(f"scrollTo(0, {step} * document.body.scrollHeight / 8)")
        tab.wait_for_timeout(50)
    until(tab, "document.querySelectorAll('.plot:not([data-drawn])').length === 0")
    tab.evaluate("scrollTo(0, 0)")


def test_from_all_studies_to_a_trial_by_clicks(site, tabs):
    tab = tabs()
    tab.goto(site)
    tab.click(f"text={QUESTION}")
    whole(tab)
    assert tab.inner_text("h1") == QUESTION
    assert tab.locator(ROWS).count() == 3 and tab.evaluate(DRAWN) >= 1
    assert tab.locator("#table").get_by_text(ARM, exact=True).count() >= 1  # as text
    tab.select_option("select[name=arm]", "mos")
    tab.click("#trials button")
    assert "arm=mos" in tab.url and tab.locator("#trials tbody tr").count() == 4
    tab.click("#trials a:has-text('mos seed 1')")
    assert "ablate trial rerun mos-0" in tab.inner_text("#again")
    tab.go_back()
    assert "arm=mos" in tab.url  # the view is in the address


def test_what_arrives_while_a_figure_is_fetched_is_drawn_too(site, tabs, place):
    place.grow("mos-3", 2)
    with held(place.workspace, KEY):
        tab, waiting = tabs(), []
        tab.goto(f"{site}/study/{KEY}")
        whole(tab)
        tab.locator("[data-figure*=curves]").scroll_into_view_if_needed()
        tab.route("**/figure/**/curves.json*", lambda route: waiting.append(route))
        place.grow("mos-3", 3)
        eventually(lambda: tab.evaluate("true") and waiting)
        [fetched] = waiting
        answer = fetched.fetch()
        place.grow("mos-3", 4)
        with tab.expect_response(lambda one: "changes" in one.url and one.json()["fragments"]):
            pass
        tab.wait_for_timeout(100)  # for the page to read it
        fetched.fulfill(response=answer)
        tab.unroute("**/figure/**/curves.json*")
        points = "document.querySelector('[data-figure*=curves] .plot').data.at(-1).x.length"
        until(tab, f"{points} === 4")


def test_what_changes_arrives_without_a_reload(site, tabs, place):
    place.grow("mos-3", 2)
    with held(place.workspace, KEY):
        tab = tabs()
        tab.goto(f"{site}/study/{KEY}")
        whole(tab)
        tab.evaluate("window.here = true")
        tab.click("#curves summary >> nth=0")
        points = "document.querySelector('[data-figure*=curves] .plot').data.at(-1).x.length"
        assert tab.evaluate(points) == 2
        tab.locator("[data-figure*=curves]").scroll_into_view_if_needed()
        place.grow("mos-3", 5)
        until(tab, f"{points} === 5")
        assert "5" in tab.inner_text("#workers")
        assert tab.locator("#curves details[open]").count() == 1  # as the reader left it
        place.grow("mos-3", 6, 4.41)
        until(tab, "document.querySelector('#table tr:nth-child(2)').innerText.includes('4/4')")
        assert tab.evaluate("window.here") is True


def test_by_the_keyboard_alone(site, tabs):
    tab = tabs()
    tab.goto(site)
    reached = "document.activeElement.textContent"
    seen = []
    for _ in range(12):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate(reached))
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        if seen[-1] == QUESTION:
            break
    assert seen[0] == "To the content"
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/study/{KEY.replace('@', '%40')}")


def test_eight_tabs_of_one_browser_all_follow(site, tabs, place):
    place.grow("mos-3", 2)
    with held(place.workspace, KEY):
        first = tabs()
        more = [first.context.new_page() for _ in range(7)]
        for tab in (first, *more):
            tab.goto(f"{site}/study/{KEY}")
        place.grow("mos-3", 5)
        for tab in (first, *more):
            until(tab, "document.querySelector('#workers').innerText.includes('5')")


def test_changes_arrive_around_a_filter_that_has_the_focus(site, tabs, place):
    tab = tabs()
    tab.goto(f"{site}/study/{KEY}")
    tab.select_option("select[name=arm]", "mos")
    tab.focus("select[name=arm]")
    place.grow("mos-3", 3, 4.41)
    until(tab, "document.querySelectorAll('#trials .state.left').length === 1")
    chosen = "document.activeElement.name + ' ' + document.activeElement.value"
    assert tab.evaluate(chosen) == "arm mos"
    tab.click("#trials button")
    assert "arm=mos" in tab.url


def test_a_table_sorts_by_a_click_and_keeps_its_order(site, tabs, place):
    tab = tabs()
    tab.goto(f"{site}/study/{KEY}")
    rows = tab.locator(f"{ROWS} td:nth-child(3)")
    numbers = sorted(rows.all_inner_texts(), key=float)
    for order in (numbers, numbers[::-1]):
        tab.click("#table thead th >> nth=2")
        assert rows.all_inner_texts() == order
    place.grow("mos-3", 6, 4.41)
    until(tab, "document.querySelector('#table').innerText.includes('4/4')")
    numbers = [*map(float, rows.all_inner_texts())]
    assert numbers == sorted(numbers, reverse=True)
