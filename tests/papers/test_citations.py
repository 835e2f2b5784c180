"""The equations that techniques and analyses cite exist in their papers, for five papers."""

import re

import pytest

from ablate.config import registry
from tests.support import places

EQUATIONS = {  # of each paper, those that anything here may cite
    "takase2017iog": {6, 7, 8, 9, 10, 11, 12},
    "takase2018doc": {7, 8, 10, 11, 12, 13},
    "oliva2021dual": {3, 4, 5, 6, 7},
    "inan2017tying": {3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 4.3},
    "pachitariu2013irlm": set(),
}


def equations(text: str) -> set[float]:
    """Every number after an "Eq.", those that a range leaves out included."""
    numbers_named: set[float] = set()
    for cited in re.findall(r"Eq\. (\d[\d., and-]*)", text):
        numbers = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", cited)]
        numbers_named |= set(numbers)
        for low, high in re.findall(r"(\d+)-(\d+)", cited) if "." not in cited else ():
            numbers_named |= {float(n) for n in range(int(low), int(high) + 1)}
    return numbers_named


@pytest.mark.parametrize("slot", registry.slots())
def test_no_technique_cites_an_equation_that_its_paper_has_not(slot):
    for name in registry.names(slot):
        technique = registry.get(slot, name)
        if technique.paper in EQUATIONS:
            prose = " ".join((technique.equation or "", *technique.departures))
            assert equations(prose) <= EQUATIONS[technique.paper], (slot, name)


PAGES = {  # of what is not in a technique's registration
    "ablate/lm/components/head/doc.py": {7, 8, 10, 11},
    "ablate/lm/components/regularizer/mixture_balance.py": {12, 13},
    "ablate/lm/analysis/mixture_use.py": {12, 13},
    "ablate/papers/takase2018doc.toml": {12, 13},
    "search_spaces/takase2018doc_table2.toml": {12, 13},
    "studies/doc_balance.py": {12, 13},
    "ablate/lm/components/loss/augmented.py": {*EQUATIONS["inan2017tying"]},
    "ablate/lm/components/head/softmax.py": set(),
    "search_spaces/oliva2021dual_table1.toml": {3, 7},
}


@pytest.mark.parametrize(("file", "cited"), PAGES.items())
def test_a_page_cites_the_equations_that_it_is_about(file, cited):
    assert equations((places.ROOT / file).read_text()) <= cited
