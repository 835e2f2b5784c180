"""Ranks against matrices of a known rank, and against what the formulas of heads allow."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.errors import CombinationError, ConfigError
from ablate.lm.analysis import rank
from ablate.lm.components.evaluator import predictions


def ranked(subject, **options) -> dict:
    finding = rank.run(subject, options=rank.RankOptions(**options))
    return dict(zip(finding.columns, finding.rows[0], strict=True))


@pytest.mark.parametrize("true_rank", [1, 5, 12])
def test_a_product_of_thin_matrices_has_their_rank(true_rank):
    rng = np.random.default_rng(true_rank)
    matrix = rng.normal(size=(40, true_rank)) @ rng.normal(size=(true_rank, 30))
    values = np.linalg.svd(matrix, compute_uv=False)
    tolerance = predictions.default_tolerance(matrix.shape)
    assert (
        predictions.numerical_rank(values, tolerance) == true_rank == np.linalg.matrix_rank(matrix)
    )


def test_the_tolerance_is_a_share_of_the_largest():
    values = np.array([200.0, 20.0, 2.0, 0.0])
    assert [predictions.numerical_rank(values, share) for share in (0, 0.05, 0.1, 0.5)] == [
        3,
        2,
        1,
        1,
    ]


def test_a_softmax_of_8_units_has_the_rank_of_its_formula(irlm):
    """Its logits D + 1 with a bias, its log-probabilities one more (FACTS 6.14: 401, and 402)."""
    logits, log_probs = ranked(irlm, num=200), ranked(irlm, num=200, matrix="log_probs")
    assert (logits["matrix"], logits["rank"], logits["limit"]) == ("logits", 9, 9)
    assert (log_probs["rank"], log_probs["limit"]) == (10, 10)
    assert logits["next/largest"] < 1e-13


def test_without_a_bias_it_is_one_less(train, irlm):
    plain = train({**irlm.journal.trial.values, "head.bias": False}, "no bias")
    assert ranked(plain, num=100)["rank"] == ranked(plain, num=100)["limit"] == 8
    assert ranked(plain, num=100, matrix="log_probs")["rank"] == 9


def test_few_contexts_bound_it(irlm):
    few = ranked(irlm, num=5)
    assert (few["contexts"], few["rank"], few["limit"]) == (5, 5, 5)


def test_a_mixture_is_above_what_one_softmax_of_its_width_can_reach(doc):
    mixed = ranked(doc, num=300)
    assert mixed["matrix"] == "log_probs" and mixed["limit"] == 300
    assert mixed["rank"] > 8 + 2


def test_the_matrix_holds_the_saved_log_probabilities(irlm):
    """Compared with another computation for the first tokens: in float32, token by token."""
    options = rank.RankOptions(num=50)
    (passed,) = irlm.passes(options.split, options.num)
    matrix = predictions.matrix_of(passed.mixture, "log_probs").numpy()
    targets = irlm.stream("valid")[1:51]
    kept = irlm.log_probs("valid")[:50]
    np.testing.assert_allclose(matrix[np.arange(50), targets], kept, atol=2e-5)


def test_logits_of_a_mixture_are_refused(doc):
    with pytest.raises(CombinationError, match="Instead: matrix=log_probs"):
        ranked(doc, matrix="logits")


def test_more_than_fits_into_memory_is_refused(irlm, monkeypatch):
    monkeypatch.setattr(predictions.os, "sysconf", lambda name: 1000)
    with pytest.raises(ConfigError, match=r"num = 499: .* Instead: num up to \d+"):
        ranked(irlm)
