"""Studies of many arms and trials: by page, thinned, and said to be so."""

from __future__ import annotations

import gzip
import random

from ablate.compare.plots import search
from ablate.live import assets
from ablate.live.served import Served
from ablate.store.study_record import SearchRecord
from tests.live.test_pages import cells
from tests.support.live_pages import KEY, Client, Place
from tests.support.studies_by_hand import ByHand
from tests.support.whole_study import judged_of


def test_a_table_of_many_arms_is_shown_by_page(tmp_path):
    losses = {f"arm {n}": [5.0 - 0.001 * n, 5.0 - 0.0011 * n] for n in range(120)}
    losses["base"] = [4.9, 4.91]
    losses["arm 7"] = [3.0, 3.01]  # the best
    client = Client(Served(Place(tmp_path, losses).workspace))
    first, last = (client.seen(f"/study/{KEY}?rows={n}") for n in (1, 3))
    names = [[row[0] for row in cells(page, "table")] for page in (first, last)]
    assert [len(each) for each in names] == [52, 21]
    assert all({"base", "arm 7"} <= {*each} for each in names)
    assert names[0][0] == "arm 0" and "arm 119" in names[1] and "arm 119" not in names[0]
    assert "121 arms, 50 on a page; arm 7 and base" in first and "rows=3#table" in first
    assert "Holm-corrected over 120 comparisons" in last  # of the whole table
    beyond = client.seen(f"/study/{KEY}?rows=99")
    assert [row[0] for row in cells(beyond, "table")] == names[1]
    # The table's page and the list's are each in the address.
    assert len(cells(client.seen(f"/study/{KEY}?rows=3&page=2"), "trials")) == 50


def of_a_search(num: int) -> ByHand:
    study, draws = ByHand({"base": []}), random.Random(3)
    ids = tuple(f"base-{n}" for n in range(num))
    for id in ids:
        study.end(id, "completed", metrics={"valid_nll": 4 + draws.random()})
        study.journals[id].config = {"head.rank": draws.random(), "head.tied": draws.random()}
    study.record_fields = {
        "searches": (SearchRecord(arm="base", repeat=0, num_trials=num, trials=ids),)
    }
    return study


def test_parallel_coordinates_are_of_the_best_500_trials():
    study = of_a_search(700)
    figure = search.described(judged_of(study))
    (panel,) = figure.panels
    assert panel.title == "base: 700 trials, 700 completed, the best 500 drawn"
    drawn = {row[1] for row in figure.table.rows}
    losses = {id: journal.metrics["valid_nll"] for id, journal in study.journals.items()}
    assert len(drawn) == 500
    assert max(losses[id] for id in drawn) < min(losses[id] for id in losses.keys() - drawn)


def test_a_browser_keeps_what_does_not_change(client):
    address = assets.address("plotly.js")
    assert f'data-plotly="{address}"' in client.seen("/")
    kept = client.get(address).headers
    assert "immutable" in kept["cache-control"] and kept["content-encoding"] == "gzip"
    assert client.get("/static/plotly.js").headers["cache-control"] == "no-cache"
    plain = assets.response("plotly.js", encodings="identity").body
    assert gzip.decompress(assets.response("plotly.js", encodings="gzip").body) == plain
