"""Ranks against matrices of a known rank, and against what the formulas of heads allow."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.errors import CombinationError
from ablate.lm.analysis import rank
from ablate.lm.components.evaluator import predictions


def ranked(subject, **options) -> dict:
    finding = rank.run(subject, options=rank.RankOptions(**options))
    return dict(zip(finding.columns, finding.rows[0], strict=True))


def test_a_softmax_of_8_units_has_the_rank_of_its_formula(irlm):
    """Its logits D + 1 with a bias, its log-probabilities one more (FACTS 6.14: 401, and 402)."""
    logits, log_probs = ranked(irlm, num=200), ranked(irlm, num=200, matrix="log_probs")
    assert (logits["matrix"], logits["rank"], logits["limit"]) == ("logits", 9, 9)
    assert (log_probs["rank"], log_probs["limit"]) == (10, 10)
    assert logits["next/largest"] < 1e-13


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
