"""The analyses that a study names, made of its finished models when it ends.

What they find is kept in the store for the study's page (`ablate report`), and written to the
workspace as `ablate trial analyze` writes it. A finding is made again only if its trials or its
options have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ablate import papers
from ablate.config import fields
from ablate.config.identity import StageName
from ablate.config.plugins import analyses_with
from ablate.errors import AblateError, DamagedError, StoreError, TrialError
from ablate.redaction import redacted
from ablate.store import findings
from ablate.store.findings import SavedFinding
from ablate.store.journal import Journal
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace
from ablate.study.planned import Plan
from ablate.study.study import Study
from ablate.study.words import Analyze

# Stages whose trials leave no weights of their own to look into.
NO_MODEL = (StageName.SEARCH, StageName.ENSEMBLE, StageName.MEASURE)


@dataclass(frozen=True)
class _Job:
    """One run of an analysis."""

    word: Analyze
    options: object
    arms: tuple[str, ...]


def check_analyses(study: Study) -> None:
    """Check the names, options and numbers of trials of a study's analyses."""
    for word in study.analyses:
        _options(study, word, published=False)
        _options(study, word, published=True)
        _groups(word, word.arms)


def analyse(
    plan: Plan, ended: Mapping[str, Journal], workspace: Workspace, note: Callable[[str], None]
) -> None:
    """Make what is missing. A failure must not stop a finished study: it is noted."""
    key = plan.record.key
    if not plan.study.analyses:
        return
    made = {(each.analysis, each.options, each.trials): each for each in _made(workspace, key)}
    found = []
    for job in _jobs(plan):
        try:
            trials = tuple(_trial(plan.record, arm) for arm in job.arms)
            known = made.get((job.word.analysis, repr(job.options), trials))
            found.append(known or _found(plan.study, job, trials, ended, workspace))
        except Exception as error:
            kind = "" if isinstance(error, AblateError) else f"{type(error).__name__}: "
            note(f"analysis '{job.word.analysis}' failed: {kind}{redacted(str(error))}")
    try:
        findings.write(workspace.store, key, found)
    except StoreError as error:
        note(
            f"the findings of {key}'s analyses could not be saved, so its page lacks them: "
            f"{redacted(str(error))}"
        )


def _made(workspace: Workspace, key: str) -> Sequence[SavedFinding]:
    try:
        return findings.read(workspace.store, key)
    except DamagedError:
        return ()  # every finding can be made again


def _options(study: Study, word: Analyze, *, published: bool) -> object:
    where = f"{study.file or study.name}: analysis '{word.analysis}'"
    values = {**word.options, **(word.published if published else {})}
    return fields.build(analyses_with(word.analysis).get(word.analysis).options, values, where)


def _groups(word: Analyze, arms: Sequence[str]) -> list[tuple[str, ...]]:
    """The arms of each run: one by one, or all together if the analysis takes several trials."""
    chosen = analyses_with(word.analysis).get(word.analysis)
    if chosen.num_subjects == (1, 1):
        return [(arm,) for arm in arms]
    analyses_with(word.analysis).check_number(word.analysis, chosen, len(arms))
    return [tuple(arms)]


def _jobs(plan: Plan) -> Iterator[_Job]:
    """Every run of an analysis whose arms this scale has."""
    here = {arm.name for arm in plan.record.arms}
    for word in plan.study.analyses:
        options = _options(plan.study, word, published=plan.scale.published)
        for group in _groups(word, word.arms):
            if here.issuperset(group):
                yield _Job(word, options, group)


def _trial(record: StudyRecord, arm: str) -> str:
    """The trial of an arm's last model of the first seed."""
    own = [t for t in record.trials if t.arm == arm and t.stage not in NO_MODEL]
    if not own:
        raise TrialError(f"the arm '{arm}' has no trained model.")
    first = min(trial.seed_index for trial in own)
    # A record lists a seed's trials in the order of their stages.
    return [trial.id for trial in own if trial.seed_index == first][-1]


def _in_paper(word: Analyze, study: Study) -> str:
    """What the paper prints in the figure or table, for each of its models."""
    if not word.shows:
        return ""
    rows = papers.rows(study.paper, word.shows)
    shown = (row.shows or ", ".join(cell.printed for cell in row.cells) for row in rows)
    models = (row.name for row in rows)
    return f"{word.shows}: " + "; ".join(map(", ".join, zip(models, shown, strict=True)))


def _found(
    study: Study,
    job: _Job,
    trials: tuple[str, ...],
    ended: Mapping[str, Journal],
    workspace: Workspace,
) -> SavedFinding:
    name, store = job.word.analysis, workspace.store
    analyses = analyses_with(name)
    journals = [ended[trial] for trial in trials]
    finding = analyses.found(name, journals, store, workspace.data, job.options)
    folder = workspace.folder / "analyses" / "-".join(trials)
    files = analyses.write(finding, folder, name)
    svg = next((f for f in files if not isinstance(f, str) and f.suffix == ".svg"), None)
    return SavedFinding(
        analysis=name,
        options=repr(job.options),
        trials=trials,
        paper=_in_paper(job.word, study),
        title=finding.title,
        columns=tuple(finding.columns),
        rows=tuple(map(tuple, analyses.text_rows(finding))),
        notes=tuple(finding.notes),
        svg=svg.read_text(encoding="utf-8") if svg else "",
    )
