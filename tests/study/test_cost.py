"""What a training token is estimated to cost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ablate.study import cost

WORK = {"none": 0.0, "laptop": 0.5e6, "ptb": 60e6, "wide": 600e6}


def test_small_models_are_known_to_be_less_efficient(monkeypatch):
    """As measured: a fifth of a matrix product's speed at 0.5 MFLOP, 1.3 of it from 30 on."""
    asked = []
    monkeypatch.setattr(cost, "matrix_rate", lambda *given: asked.append(given) or 100e9)
    each = cost.seconds_per_token(WORK, 2, "float32")
    assert asked == [(2, "float32")] and each["none"] == 0.0
    assert each["laptop"] == pytest.approx(0.5e6 / (0.22 * 100e9))
    assert each["ptb"] == pytest.approx(60e6 / (1.3 * 100e9))
    assert each["wide"] == pytest.approx(10 * each["ptb"])


def test_half_precision_makes_only_products_faster(monkeypatch):
    """Half of a product's speed, measured on an AMD EPYC: 0.47 and 0.54."""
    monkeypatch.setattr(cost, "matrix_rate", lambda *_: 400e9)
    each = cost.seconds_per_token(WORK, 1, "bfloat16")
    assert each["laptop"] == pytest.approx(0.5e6 / (0.22 * 400e9))
    assert each["ptb"] == pytest.approx(60e6 / (0.5 * 400e9))


def test_more_work_never_takes_less_time(monkeypatch):
    monkeypatch.setattr(cost, "matrix_rate", lambda *_: 100e9)
    works = {str(n): 1e3 * 1.3**n for n in range(60)}
    each = cost.seconds_per_token(works, 1, "float32")
    assert list(each.values()) == sorted(each.values())


def test_a_machine_s_rate_is_its_products_by_the_clock(monkeypatch):
    """Two products of 2 * 512**3 operations until a tenth of a second is over."""
    moments = iter((5.0, 5.0, 5.0625, 5.125, 5.25))
    monkeypatch.setattr(cost, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    assert cost.matrix_rate(1, "float32") == 2 * 2 * 512**3 / 0.25
