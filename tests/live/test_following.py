"""What changes is read once and sent once."""

from __future__ import annotations

import copy
import threading
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ablate.live import changes, deltas, figures
from ablate.live.followed import Followed
from ablate.live.served import LAST_SECONDS
from ablate.store import journal as journals
from tests.live.test_what_is_said import rewrite
from tests.support.live_pages import KEY


def test_only_journals_that_changed_are_read_again(place, monkeypatch):
    read: list[str] = []
    real = journals.read
    monkeypatch.setattr(journals, "read", lambda store, id: (read.append(id), real(store, id))[1])
    followed = Followed(place.workspace, KEY)
    assert followed.refresh() and len(read) == 10
    read.clear()
    assert not followed.refresh() and not read
    place.grow("mos-3", 1)
    assert followed.refresh() and read == ["mos-3"]


def test_a_client_is_sent_only_what_changed_since_its_cursor(served, place, monkeypatch):
    monkeypatch.setattr("ablate.live.followed.SLOW_SECONDS", float("inf"))
    watched = served.study(KEY)
    served.fragments(watched, {})
    cursor = watched.cursor()
    watched.refresh()
    assert served.fragments(watched, {}, cursor) == {}
    place.grow("mos-3", 1)
    watched.refresh()
    # One more epoch of one trial: its list and the pictures, and no verdict.
    changed = served.fragments(watched, {}, cursor)
    assert {"trials", "curves"} <= changed.keys() and "trouble" not in changed
    cursor = watched.cursor()
    place.grow("mos-3", 2, 4.4)
    watched.refresh()
    assert "table" in served.fragments(watched, {}, cursor)


def test_a_slow_table_is_made_at_once_when_every_trial_has_ended(place, monkeypatch):
    monkeypatch.setattr("ablate.live.followed.SLOW_SECONDS", -1.0)
    monkeypatch.setattr("ablate.live.followed.SHARE", 1e9)  # it would not be made again for years
    followed = Followed(place.workspace, KEY)
    followed.refresh()
    before = followed.once("table", lambda judged: judged)
    place.grow("mos-3", 2, 4.4)
    followed.refresh()
    assert followed.judged is before  # other trials are still to come
    for trial in followed.record.trial_ids():
        if followed.ends.get(trial) is None:
            place.grow(trial, 2, 4.4)
    while followed.refresh():
        pass
    assert followed.judged is not before


def test_a_cursor_of_another_servers_life_gets_everything(served):
    watched = served.study(KEY)
    everything = served.fragments(watched, {}).keys()
    assert served.fragments(watched, {}, "abcdef.3").keys() == everything
    assert [watched.position_of(one) for one in ("", "abcdef.3", "..")] == [-1] * 3


def test_a_page_that_was_closed_and_opened_again_goes_on(served, place, monkeypatch):
    monkeypatch.setattr("ablate.live.served.MOST_OPEN", 1)
    monkeypatch.setattr("ablate.live.served.IN_USE_SECONDS", 0.0)
    place.grow("mos-3", 2)
    watched = served.study(KEY)
    position = served.figure_since(KEY, "curves", "")["position"]
    cursor = watched.cursor()
    served.trial("mos-0"), served.trial("mos-1")
    place.grow("mos-3", 6)
    assert served.study(KEY) is not watched
    news = changes.since(served, {"study": KEY, "cursor": cursor})
    assert "curves" in news["fragments"] and news["cursor"] != cursor
    line = served.figure_since(KEY, "curves", position)["whole"]["data"][-1]
    assert line["x"] == [1, 2, 3, 4, 5, 6]


def test_no_page_is_closed_while_clients_ask_for_it(served):
    ids = [f"{arm}-{seed}" for arm in ("base", "mos") for seed in range(3)]
    opened = {id: served.trial(id, key) for key in ("", KEY) for id in ids}
    assert {id: served.trial(id, KEY) for id in ids} == opened


def test_a_trials_page_has_the_base_as_it_is_now(served, place):
    place.grow("base-0", 1)
    cursor = changes.since(served, {"trial": "mos-0"})["cursor"]
    place.grow("base-0", 2, 4.777)
    fragments = changes.since(served, {"trial": "mos-0", "cursor": cursor})["fragments"]
    assert "4.777" in fragments["results"]
    assert "4.43" not in changes.since(served, {"trial": "base-1"})["fragments"]["results"]
    rewrite(place, question="Another?", base_arm="mos")
    assert "4.43" in changes.since(served, {"trial": "base-1"})["fragments"]["results"]


def test_the_last_changes_are_given_before_the_server_is_over(served, place):
    assert not changes.since(served, {"study": KEY})["is_last"]
    served.closes = time.monotonic()
    assert not changes.since(served, {"study": KEY})["is_last"]
    served.closes -= 2 * LAST_SECONDS
    assert changes.since(served, {"study": KEY})["is_last"]


def test_a_download_waits_for_whoever_makes_the_table(served, client):
    watched, done = served.study(KEY), threading.Event()
    with watched.lock:
        ask = threading.Thread(
            target=lambda: (client.get(f"/figure/{KEY}/deltas.csv"), done.set()), daemon=True
        )
        ask.start()
        assert not done.wait(0.5)
    assert done.wait(20)


def test_a_figure_that_grew_is_sent_as_its_new_points(served, place):
    place.grow("mos-3", 2)
    first = served.figure_since(KEY, "curves", "")
    line = first["whole"]["data"][-1]
    assert line["x"] == [1, 2]
    assert served.figure_since(KEY, "curves", first["position"]) == {"position": first["position"]}
    place.grow("mos-3", 4)
    then = served.figure_since(KEY, "curves", first["position"])
    (grown,) = then["delta"]["extended"].values()
    assert grown["x"] == [3, 4]


def applied(figure: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """What page.js does with a delta."""
    made = copy.deepcopy(figure)
    for index, points in delta["extended"].items():
        for part, values in points.items():
            made["data"][index][part] = [*made["data"][index][part], *values]
    for index, line in delta["replaced"].items():
        made["data"][index] = line
    return {**made, "layout": delta["layout"] or made["layout"]}


LINES = st.lists(
    st.fixed_dictionaries({"x": st.lists(st.integers(0, 3), max_size=4), "y": st.just([]),
                           "mode": st.sampled_from(["lines", "markers"])}),
    min_size=2, max_size=2,
)  # fmt: skip


@given(LINES, LINES, st.integers(0, 1), st.integers(0, 1))
def test_a_delta_makes_one_figure_the_other(before, after, one, other):
    old = {"data": before, "layout": {"width": one}}
    new = {"data": after, "layout": {"width": other}}
    delta = deltas.delta(old, new)
    assert delta is not None and applied(old, delta) == new


def test_curves_have_500_points_at_most_and_say_so(served, place):
    place.grow("mos-3", 1200)
    followed = served.study(KEY).source
    figure = figures.with_running(None, followed.record, followed.journals)
    assert figure is not None
    (series,) = figure.panels[0].series
    assert len(series.x) == 500 and series.x[0] == 1 and series.x[-1] == 1200
    assert "at most 500 of its points" in figure.caption


def test_a_trial_that_runs_is_in_the_chart_of_its_arm(served, place):
    for id in ("base-0", "mos-0"):
        place.grow(id, 4, 4.4)
    place.grow("mos-3", 3)
    followed = served.study(KEY).source
    (panel,) = followed.figure("curves").panels
    own = next(series for series in panel.series if series.name == "mos")
    (running,) = [mark for mark in panel.marks if mark.about == "mos seed 4"]
    assert running.look.colour == own.look.colour and [*running.x] == [1, 2, 3]
