"""A study's table as plain text, for any terminal, and as markdown.

study@scale, the question; corpus, seeds, base arm
the table: what is missing is said in it
how verdicts are made, what to beware of, published numbers where comparable, where to look next
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ablate.compare import columns as shown
from ablate.compare.figures import NONE, count, decimal, duration
from ablate.compare.rows import SPLITS, ArmSummary, EnsembleSummary, Summary
from ablate.compare.statistics import MIN_PAIRS
from ablate.compare.verdicts import RULE
from ablate.layout import Grid, paragraph, printable

WIDTH = 100


Block = tuple[list[str], list[list[str]]]  # titles, rows


def plain_text(
    summary: Summary,
    *,
    width: int = WIDTH,
    unicode: bool = True,
    next_steps: Sequence[str] = (),
    more: Sequence[Block] = (),
) -> str:
    """The table for a terminal `width` columns wide; without `unicode`, in ASCII alone. `more`:
    further tables below it."""

    def plain(text: str) -> str:
        return printable(text, unicode)

    def wrapped(texts: Iterable[str], indent: str = "  ") -> list[str]:
        return [line for text in texts for line in paragraph(plain(text), width, indent)]

    rule = "─" if unicode else "-"
    grid, left_out = _grid(summary, plain).fitted(width)
    lines = [
        *wrapped([title(summary), summary.record.question]),
        "",
        *wrapped(setting(summary)),
        "",
        *grid.lines(width, rule),
        *wrapped(_ensembles(summary)),
        *wrapped(holes(summary)),
        "",
        *wrapped(_reading(summary, marked="*")),
        *wrapped(_left_out(left_out, width)),
        *wrapped(_cautions(summary)),
    ]
    for titles, rows in (*further(summary), *more):
        headings = [plain(title) for title in titles]
        grid = Grid(headings, [[plain(cell) for cell in row] for row in rows], left=headings[-1:])
        lines += ["", *grid.lines(width, rule)]
    lines += wrapped(effects_explained(summary))
    if next_steps:
        lines += ["", "Where to look next", *(f"  {_kept(s, unicode)}" for s in next_steps)]
    return "\n".join(line.rstrip() for line in lines)


def markdown(
    summary: Summary, *, next_steps: Sequence[str] = (), more: Sequence[Block] = ()
) -> str:
    """The table with every column, to paste where markdown is read."""
    columns = shown.columns(summary, lambda text: f"**{text}**")
    rows = [[_escaped(arm.name), *(c.cell(arm) for c in columns[1:])] for arm in summary.arms]
    lines = [
        f"### {_escaped(title(summary))}",
        "",
        _escaped(summary.record.question),
        "",
        *(f"- {_escaped(line)}" for line in setting(summary)),
        "",
        *_markdown_grid([column.name for column in columns], rows),
        "",
        *(f"- {_escaped(line)}" for line in _ensembles(summary)),
        *(f"- {_escaped(line)}" for line in holes(summary)),
        *(f"- {_escaped(line)}" for line in _reading(summary, marked="bold")),
        *(f"- {_escaped(line)}" for line in _cautions(summary)),
    ]
    for titles, rows in (*further(summary), *more):
        lines += ["", *_markdown_grid(titles, [[_escaped(row[0]), *row[1:]] for row in rows])]
    explanation = [f"- {_escaped(line)}" for line in effects_explained(summary)]
    lines += ["", *explanation] if explanation else []
    if next_steps:
        lines += ["", "Where to look next:", "", *(f"- `{printable(s)}`" for s in next_steps)]
    return "\n".join(lines)


def _grid(summary: Summary, plain: shown.Writer) -> Grid:
    columns = shown.columns(summary, lambda text: f"*{text}")
    leaving = [column for column in columns if column.expendable is not None]
    order = sorted(leaving, key=lambda column: column.expendable or 0)

    def heading(column: shown.Column) -> str:
        return "\n".join(plain(line) for line in column.title.split("\n"))

    return Grid(
        [heading(column) for column in columns],
        [[plain(column.cell(arm)) for column in columns] for arm in summary.arms],
        [heading(column) for column in order],
        [heading(column) for column in columns if column.left],
    )


def _kept(step: str, unicode: bool) -> str:
    """A line of the caller's, its own spacing kept."""
    return "".join(printable(part, unicode) or part for part in re.split(r"( +)", step))


def title(summary: Summary) -> str:
    record = summary.record
    source = ", ".join([record.paper, *record.tables]) if record.paper else ""
    return f"{record.key} · {source}" if source else record.key


def setting(summary: Summary) -> Iterable[str]:
    record = summary.record
    yield f"corpus {record.corpus}, digest {record.corpus_digest[:16]}"
    floors = [
        f"{decimal(summary.floor[split], shown.decimals(summary))} {split}"
        for split in SPLITS
        if split in summary.floor
    ]
    best = f" · best possible {', '.join(floors)}" if floors else ""
    yield f"{record.num_seeds} seeds, paired · base arm {record.base_arm} · {summary.unit}{best}"
    one, every = _range([a.cost_of_one.tokens for a in summary.arms if a.trials]), summary.arms
    if one:
        took = duration(sum(arm.cost_of_all.seconds for arm in every))
        yield f"trained on {one} tokens a seed · {took} of training in all"


def _range(numbers: list[int]) -> str:
    if not numbers or max(numbers) == 0:
        return ""
    low, high = count(min(numbers)), count(max(numbers))
    return low if low == high else f"{low} to {high}"


def explained(summary: Summary, marked: str) -> Iterable[str]:
    """What a reader must know of the verdicts, the marks and what is withheld."""
    yield from _ensembles(summary)
    yield from _reading(summary, marked)
    yield from _cautions(summary)
    yield from effects_explained(summary)


def _reading(summary: Summary, marked: str) -> Iterable[str]:
    """How to read the verdicts, in one line, and what the marks mean."""
    if summary.num_comparisons:
        num = summary.num_comparisons
        yield (
            f"Verdicts: paired t-test on nats of {summary.split}, Holm-corrected over "
            f"{num} comparison{'s' if num > 1 else ''} at {100 * summary.alpha:g}%, from "
            f"{MIN_PAIRS} pairs on. Intervals are each row's own."
        )
    compared = [arm.comparison for arm in summary.arms if arm.comparison]
    found = summary.effects
    effects = (*found.effects, *found.simple) if found else ()
    if any(each.more_seeds for each in (*compared, *effects)):
        yield (
            "+n: more seeds that would probably decide it at the effect and spread seen; settle "
            "their number before running them."
        )
    if any(arm.best for arm in summary.arms):
        yield f"{marked}: lower than every other arm by the same test, corrected over those."


def _left_out(titles: list[str], width: int) -> Iterable[str]:
    if titles:
        names = ", ".join(title.replace("\n", " ") for title in titles)
        yield f"Left out to fit {width} columns: {names}."


def _cautions(summary: Summary) -> Iterable[str]:
    """Withheld verdicts, what is odd, and whether published numbers may be set beside these."""
    for reason, meaning in _WITHHELD.items():
        names = [a.name for a in summary.arms if a.comparison and _is(a, reason)]
        if names:
            yield f"No verdict on {', '.join(names)}: {meaning}."
    yield from summary.notes
    record = summary.record
    if not record.published_scale:
        yield f"scale {record.scale}: not comparable with published numbers."
    elif not any(arm.published for arm in summary.arms):
        yield f"scale {record.scale}: no published numbers are recorded for these arms."
    else:
        yield RULE


_WITHHELD = {
    "to run": "some of its trials or the base arm's are still to run",
    "lost seeds": "the seeds it lost to divergence or early stopping may have been its worst",
    "base lost seeds": "the base arm lost seeds to divergence or early stopping",
    "same trials": "it is the base arm, trial for trial",
    "1 pair": "one pair of seeds has no spread",
}


def _is(arm: ArmSummary, reason: str) -> bool:
    found = arm.comparison.reason if arm.comparison else ""
    return found == reason or (reason == "to run" and found.endswith("to run"))


def holes(summary: Summary) -> Iterable[str]:
    if not summary.whole:
        yield f"INCOMPLETE: {'; '.join(_hole(a) for a in summary.arms if not a.counts.whole)}."


def _hole(arm: ArmSummary) -> str:
    counts = arm.counts
    lost = {
        "diverged": counts.diverged,
        "failed": counts.failed,
        "stopped early": counts.pruned,
        "to run": counts.missing,
    }
    found = ", ".join(f"{num} {what}" for what, num in lost.items() if num)
    return f"{arm.name}: {counts.completed} of {counts.planned} ({found})"


def _ensembles(summary: Summary) -> Iterable[str]:
    for ensemble in summary.ensembles:
        yield f"ensemble of {ensemble.num_members} × {ensemble.arm}: {_of(ensemble, summary)}"


def _of(ensemble: EnsembleSummary, summary: Summary) -> str:
    if not ensemble.cells:
        return "not run yet" if ensemble.status == "missing" else ensemble.status
    digits = shown.decimals(summary)
    cells = [f"{s} {shown.mean_and_spread(c, digits)}" for s, c in ensemble.cells.items()]
    above = shown.above_floor(ensemble.cells.get(summary.split), summary)
    return ", ".join([*cells, *([] if above == NONE else [f"{above} above floor"])])


def beside_the_paper(summary: Summary) -> tuple[list[str], list[list[str]]] | None:
    """Titles and rows of ours beside the paper's; None where they may not stand side by side."""
    arms = [arm for arm in summary.arms if arm.published]
    if not arms:
        return None
    splits = [split for split in SPLITS if any(split in arm.published for arm in arms)]
    digits = shown.decimals(summary)
    titles = ["beside the paper"]
    titles += [t for s in splits for t in (f"{s}, ours", "published", f"verdict, {s}")]
    rows = []
    for arm in arms:
        row = [arm.name]
        for split in splits:
            there = arm.published.get(split)
            row.append(shown.mean_and_spread(arm.cells.get(split), digits))
            row.append(NONE if there is None else decimal(there, digits))
            row.append(summary.verdicts.get((arm.name, split), NONE))
        rows.append(row)
    return titles, rows


def effects_table(summary: Summary) -> tuple[list[str], list[list[str]]] | None:
    """Titles and rows of a factorial's effects and interactions; None for other designs."""
    found = summary.effects
    if found is None or not found.effects:
        return None
    digits = shown.decimals(summary)
    percent = f"{100 * (1 - summary.alpha):g}%"
    titles = ["effect", f"Δ, {summary.split} [{percent} interval]", "Holm p", "verdict"]
    rows = []
    for effect in (*found.effects, *found.simple):
        delta = shown.with_interval(effect.delta, effect.interval, digits)
        verdict = shown.with_more_seeds(effect.verdict, effect.more_seeds)
        verdict = f"{effect.verdict} ({effect.reason})" if effect.reason else verdict
        rows.append([effect.names, delta, shown.p_value(effect.p_holm), verdict])
    return titles, rows


def effects_explained(summary: Summary) -> Iterable[str]:
    """What the effects say in words, and what must be known of them."""
    if summary.effects is not None:
        yield from summary.effects.readings
        yield from summary.effects.notes


def further(summary: Summary) -> Iterable[Block]:
    """The smaller tables below the main one."""
    tables = (effects_table(summary), beside_the_paper(summary))
    return [table for table in tables if table is not None]


def _markdown_grid(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    ruled = ["---", *("---:" for _ in titles[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (titles, ruled, *rows)]


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(text))
