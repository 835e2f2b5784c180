"""Masks: what a technique overrides is what is called."""

from __future__ import annotations

import pytest

from ablate.errors import TechniqueError
from ablate.lm.components import Regularizer


def test_a_mask_under_its_old_name_is_refused():
    with pytest.raises(TechniqueError, match="`held` is now called `locked`"):

        class Old(Regularizer):
            def held(self, site, shape, like, chance):
                return None
