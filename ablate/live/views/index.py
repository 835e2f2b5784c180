"""All studies of the store: what each asks and says, and what runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from ablate.compare.formats import Column, for_people
from ablate.compare.page.parts import Grid, Text
from ablate.live.overview import Overview, Progress
from ablate.live.parts import Bar, Block, Find, Link, pages
from ablate.live.summaries import Summary
from ablate.results.verdict import Verdict
from ablate.store.outcome import Status
from ablate.store.study_record import study_key

MOST = 50  # studies on a page
MARKS = {Verdict.BETTER: "●", Verdict.WORSE: "■", Verdict.SAME: "=", Verdict.LOWER: "▼",
         Verdict.HIGHER: "▲", Verdict.UNDECIDED: "○", Verdict.WITHHELD: "·"}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A study, or the rungs of a ladder: the largest one speaks for all."""

    name: str
    rungs: Sequence[Progress]
    summary: Summary

    @property
    def last(self) -> Progress:
        """The study itself."""
        return self.rungs[-1]

    @property
    def counts(self) -> Counter[Status]:
        """The trials of all rungs by state."""
        return sum((rung.counts for rung in self.rungs[1:]), Counter(self.rungs[0].counts))

    def __html__(self) -> str:
        """The question, the answer, and the names of the studies."""
        record = self.last.record
        title = Link(record.question or record.key, address(record.key)).__html__()
        named = escape(self.name if len(self.rungs) > 1 else record.key)
        rungs = [Link(r.record.part, address(r.record.key)).__html__() for r in self.rungs]
        links = f" {' '.join(rungs)}" if len(rungs) > 1 else ""
        answer = f"<p>{escape(self.summary.answer)}</p>" if self.summary.answer else ""
        return f'{title}{answer}<p class="small">{named}{links}</p>'


@dataclass(frozen=True)
class Marks:
    """A mark for each arm that is compared; in words for who cannot see them."""

    verdicts: Sequence[Verdict]

    def __html__(self) -> str:
        words = ", ".join(f"{num} {word}" for word, num in Counter(self.verdicts).items())
        marks = "".join(MARKS[word] for word in self.verdicts)
        return f'<span class="marks" role="img" aria-label="{words}" title="{words}">{marks}</span>'


def blocks(overview: Overview, params: Mapping[str, str]) -> list[Block]:
    """Those studies by page in which a text is found; what runs is first."""
    wanted, number = params.get("find", ""), max(1, int(params.get("page", "1")))
    groups = [group for group in _groups(overview.studies) if _has(group, wanted.lower())]
    groups.sort(key=lambda group: (all(one.driver is None for one in group), group[0].record.key))
    rows = [_row(group, overview) for group in groups[(number - 1) * MOST : number * MOST]]
    said = [Text(f"{key}: {why}", "warning") for key, why in overview.unreadable.items()]
    if overview.num_unread:
        reading = f"{overview.num_unread} studies are still being read: their numbers grow."
        said.append(Text(reading, "small"))
    if not overview.studies and not overview.num_unread:
        said.append(Text("No study has been run here yet. `ablate study FILE` starts one."))
    link = f"/?{urlencode({'find': wanted})}" if wanted else "/"
    listed = [Find("/", wanted), _table(rows), *pages(number, len(groups), link)]
    return [Block("studies", "", [*said, *(listed if overview.studies else [])])]


def _groups(studies: Mapping[str, Progress]) -> list[list[Progress]]:
    """The studies, with all rungs of a ladder together."""
    groups: dict[str, list[Progress]] = {}
    for key, study in studies.items():
        record = study.record
        groups.setdefault(_name(study) if record.rungs else key, []).append(study)
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=lambda one: one.record.rungs.index(one.record.part))
    return [*groups.values()]


def _name(study: Progress) -> str:
    return study_key(study.record.name, study.record.one_of)


def _has(group: Sequence[Progress], text: str) -> bool:
    records = [one.record for one in group]
    return any(text in f"{r.key} {r.question} {r.corpus}".lower() for r in records)


def _row(group: Sequence[Progress], overview: Overview) -> Row:
    return Row(_name(group[-1]), group, overview.summary(group[-1]))


def _table(rows: Sequence[Row]) -> Grid:
    damaged = any(rung.damaged for row in rows for rung in row.rungs)
    columns = [
        Column("study", lambda row: row, left=True),
        Column("verdicts", lambda row: Marks(row.summary.verdicts), left=True),
        Column("best", lambda row: row.summary.best, left=True),
        Column("metric", lambda row: row.last.record.metric.shown, left=True),
        *([Column("damaged", _damaged)] if damaged else []),
        Column("ended", _ended, left=True),
    ]
    return Grid(for_people(columns, rows, title="studies"))


def _damaged(row: Row) -> int | None:
    return sum(rung.damaged for rung in row.rungs) or None


def _ended(row: Row) -> Any:
    """A bar of what runs; the date of what has ended."""
    counts = row.counts
    if row.last.record.imported:
        return "imported"
    if any(rung.driver is not None for rung in row.rungs):
        return Bar(counts, "running")
    if counts[Status.LEFT]:
        return f"stopped, {counts[Status.LEFT]} left"
    return f"{row.summary.ended:%Y-%m-%d}" if row.summary.ended else ""


def of_trial(id: str, key: str) -> str:
    """The address of a trial's page, as a study has the trial."""
    return f"/trial/{id}?{urlencode({'study': key})}"


def address(key: str) -> str:
    """The address of a study's page."""
    return f"/study/{quote(key)}"
