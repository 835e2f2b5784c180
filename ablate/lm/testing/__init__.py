"""The contracts of the slots, to check a technique against in a test.

    from ablate.lm.testing import check_technique

    def test_it_keeps_the_contract_of_its_slot():
        check_technique("regularizer", "gaussian_noise", file="gaussian_noise.py")

Each file has the contracts of one slot, as functions that raise an `AssertionError`.
"""

from ablate.lm.testing.check import check_technique, contracts
from ablate.lm.testing.subject import SmallModel, Subject

__all__ = ["SmallModel", "Subject", "check_technique", "contracts"]
