"""Arms of one size: as large as a number allows, and no larger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.config.resolve import resolve
from ablate.errors import StudyError
from ablate.lm.model.assemble import count_parameters
from ablate.study.cost import flops_per_token
from ablate.study.equal import _largest, equal

VOCABULARY = 50
SOFTMAX = {"head": "softmax", "head.tied": True, "optimizer": "adamw"}
TRANSFORMER = {**SOFTMAX, "backbone": "transformer", "backbone.heads": 2}
BY = {"backbone.units": 4, "backbone.feed_forward_units": 1}
SAME = {"embedding.size": "backbone.units"}


def parameters(values: dict) -> int:
    return count_parameters(resolve(values), VOCABULARY)


@pytest.mark.parametrize("head", ["softmax", "mos"])
@pytest.mark.parametrize("limit", [3_000, 20_011])
def test_an_arm_is_as_large_as_the_parameters_allow(head, limit) -> None:
    arm = {**TRANSFORMER, "head": head}
    changes = equal(parameters=limit, vocabulary=VOCABULARY, by=BY, same=SAME)(arm)
    assert changes["embedding.size"] == changes["backbone.units"]
    assert changes["backbone.units"] % 4 == 0
    found = {**arm, **changes}
    assert parameters(found) <= limit
    wider = changes["backbone.feed_forward_units"] + 1
    assert parameters({**found, "backbone.feed_forward_units": wider}) > limit
    # The first field alone, with the feed-forward layers that belong to it.
    units = changes["backbone.units"] + 4
    assert parameters({**arm, "backbone.units": units, "embedding.size": units}) > limit


def test_operations_count_a_mixture_for_more_than_its_parameters_do() -> None:
    limit = 100_000
    fit = equal(operations=limit, vocabulary=VOCABULARY, by=BY, same=SAME)
    softmax, mixture = (
        {**arm, **fit(arm)}
        for arm in (
            TRANSFORMER,
            {**TRANSFORMER, "head": "mos", "head.experts": 8},
        )
    )
    for arm in (softmax, mixture):
        assert 0.97 * limit < flops_per_token(resolve(arm), VOCABULARY) <= limit
    assert parameters(mixture) < parameters(softmax)


def test_a_field_that_an_arm_lacks_is_left_out() -> None:
    arm = {**SOFTMAX, "backbone": "lstm"}
    changes = equal(parameters=5_000, vocabulary=VOCABULARY, by=BY, same=SAME)(arm)
    assert set(changes) == {"backbone.units", "embedding.size"}


def test_a_field_that_does_not_change_the_size_is_left_as_it_is() -> None:
    by = {**BY, "backbone.heads": 2}
    fits = (equal(parameters=20_011, vocabulary=VOCABULARY, by=b, same=SAME) for b in (by, BY))
    with_heads, without = (fit(TRANSFORMER) for fit in fits)
    assert with_heads == without
    fit = equal(parameters=20_011, vocabulary=VOCABULARY, by={"backbone.heads": 2})
    with pytest.raises(StudyError, match=r"none of backbone\.heads changes the number of param"):
        fit({**TRANSFORMER, "embedding.size": 200})


def test_an_arm_without_any_of_the_fields_is_left_as_it_is() -> None:
    fit = equal(parameters=5_000, vocabulary=VOCABULARY, by={"backbone.rank": 1})
    assert fit({**SOFTMAX, "backbone": "lstm"}) == {}


def test_an_arm_that_ends_far_below_its_limit_is_said_once(caplog) -> None:
    arm = {**SOFTMAX, "backbone": "lstm"}
    coarse = {"backbone.units": 16}
    changes = equal(parameters=22_000, vocabulary=VOCABULARY, by=coarse, same=SAME)(arm)
    share = 1 - parameters({**arm, **changes}) / 22_000
    assert share > 0.1
    equal(parameters=22_000, vocabulary=VOCABULARY, by=coarse, same=SAME)(arm)
    (said,) = caplog.messages
    units = changes["backbone.units"]
    assert said.startswith(f"equal: an arm with backbone.units = {units}, embedding.size = {units}")
    assert f"{share:.0%} fewer parameters than 22,000" in said
    equal(parameters=22_000, vocabulary=VOCABULARY, by=BY, same=SAME)(TRANSFORMER)
    assert len(caplog.messages) == 1


def test_what_cannot_be_is_refused() -> None:
    fit = equal(parameters=100, vocabulary=VOCABULARY, by=BY, same=SAME)
    with pytest.raises(StudyError, match=r"backbone.units = 4 has more than 100 parameters"):
        fit(TRANSFORMER)
    with pytest.raises(StudyError, match="either parameters= or operations="):
        equal(vocabulary=VOCABULARY, by=BY)
    with pytest.raises(StudyError, match="either parameters= or operations="):
        equal(parameters=1, operations=1, vocabulary=VOCABULARY, by=BY)
    for wrong in ({}, {"backbone.units": 0}):
        with pytest.raises(StudyError, match="fields, each with a step"):
            equal(parameters=1, vocabulary=VOCABULARY, by=wrong)


@given(
    st.tuples(*[st.integers(0, 9)] * 3).filter(any),
    st.integers(0, 10**6),
)
def test_the_largest_number_is_found_however_a_size_grows(factors, limit) -> None:
    def size(n: int) -> int:
        a, b, c = factors
        return a * n**3 + b * n**2 + c * n

    found = _largest(size, limit)
    assert size(found) <= limit < size(found + 1)
