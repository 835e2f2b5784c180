"""The same losses by two metrics have the same verdicts, whichever direction is better.

How often tables call equal arms different is measured by `make calibrate` (tests/lab/calibration).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ablate.compare.judged import Judged
from ablate.config.metrics import Metric
from ablate.results.verdict import Verdict
from tests.lab.calibration.draws import arms_of
from tests.lab.calibration.tables import SMALL

ACCURACY = Metric("accuracy", better="higher", scale="logit")


def reported_as(metric: Metric, nats: Mapping[str, float]) -> dict[str, float]:
    """What trials report whose losses by this metric are these."""
    return {
        metric.key(key.removesuffix("_nll")): metric.show(loss) / metric.factor
        for key, loss in nats.items()
    }


def decided(summary: Judged) -> list[Verdict]:
    verdicts = [arm.comparison.verdict for arm in summary.arms if arm.comparison]
    return [verdict for verdict in verdicts if verdict.decided]


def test_where_higher_is_better_the_same_losses_have_the_same_verdicts(by_hand):
    for losses in arms_of(np.random.default_rng(6), 40, 3, 3):
        losses[1:] += [[9.0], [-9.0]]
        named = zip(("base", "high", "low"), (5 + SMALL * losses).tolist(), strict=True)
        study = by_hand(dict(named))
        in_nats = decided(Judged(study.record, study.journals))
        study.record_fields = {"judged_by": ACCURACY}
        for journal in study.journals.values():
            reported = reported_as(ACCURACY, journal.outcome.metrics)
            journal.outcome = replace(journal.outcome, metrics=reported)
        assert decided(Judged(study.record, study.journals)) == in_nats != []
