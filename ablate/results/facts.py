"""All that is recorded of a trial besides config and numbers, and of a study besides its record:
each fact is declared once.

From these lists come the tags of MLflow's runs, the schema of the mirror, the columns of `trials`
and of `studies` in SQL, and their tables in docs/asking.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from ablate.config.identity import digest
from ablate.results.labels import Label
from ablate.results.result import operations_of
from ablate.store.attempt import Attempt
from ablate.store.journal import Journal
from ablate.store.numbers import without_nan
from ablate.store.study_record import StudyRecord

TRIAL, HOME, REASON = "ablate.trial", "ablate.study_key", "reason"  # tags
STUDY_RUN = "ablate.study_run"  # the tag of a study's own run
NEITHER = "neither"  # no kernels, nor torch instead of them: nothing for kernels to compute


class Kind(StrEnum):
    """The type of a column, as SQL names it."""

    TEXT = "VARCHAR"
    WHOLE = "BIGINT"
    NUMBER = "DOUBLE"
    TRUTH = "BOOLEAN"


@dataclass(frozen=True)
class TrialFacts:
    """What the facts of a trial are taken from: its journal, and the study that records it."""

    journal: Journal
    status: str
    study: StudyRecord
    label: Label

    @property
    def attempt(self) -> Attempt:
        """The trial's last attempt."""
        return self.journal.last_attempt

    @property
    def git(self) -> Mapping[str, Any]:
        """The commit of the study's folder; empty if there is none."""
        return self.attempt.git or {}

    @property
    def ablate_git(self) -> Mapping[str, Any]:
        """The commit of ablate itself; empty if there is none."""
        return self.attempt.ablate_git or {}


@dataclass(frozen=True)
class StudyFacts:
    """What the facts of a study are taken from."""

    record: StudyRecord
    status: str


T = TypeVar("T")


@dataclass(frozen=True)
class Fact(Generic[T]):
    """One thing to know of a trial, or of a study."""

    name: str  # its column in `trials`, or `studies`
    kind: Kind
    of: Callable[[T], Any]  # empty: None or ""
    doc: str  # its meaning in the pages; empty: left out there
    tag: str = ""  # MLflow's, if it is not the name
    by_study: bool = False  # it depends on the study that ran the trial

    @property
    def recorded_as(self) -> str:
        """The name of its tag in MLflow."""
        return self.tag or self.name


TEXT, WHOLE, NUMBER, TRUTH = Kind.TEXT, Kind.WHOLE, Kind.NUMBER, Kind.TRUTH
# In the order of their columns. Of several studies of a trial, the study that ran the trial first
# gives the facts that are `by_study`.
FACTS: tuple[Fact[TrialFacts], ...] = (
    Fact("trial", TEXT, lambda t: t.journal.trial.id, "its id", TRIAL),
    Fact("study", TEXT, lambda t: t.study.name, "the study that ran it", by_study=True),
    Fact("scale", TEXT, lambda t: t.study.scale, "the study's scale", by_study=True),
    Fact("arm", TEXT, lambda t: t.label.arm, "its arm there", by_study=True),
    Fact("stage", TEXT, lambda t: t.label.stage,
         "its stage: train, search, measure, ...", by_study=True),
    Fact("seed", WHOLE, lambda t: t.journal.trial.seed, "its seed"),
    Fact("seed_index", WHOLE, lambda t: t.label.seed_index,
         "pairs arms: trials of equal index have equal seeds", by_study=True),
    Fact("in_cell", TRUTH, lambda t: t.label.final,
         "its result counts for its arm: not a trial of a search, not an early stage",
         by_study=True),
    Fact("status", TEXT, lambda t: t.status,
         "completed, diverged, pruned, failed, running or interrupted"),
    Fact(REASON, TEXT, lambda t: t.journal.outcome and t.journal.outcome.reason,
         "why it has no result"),
    Fact("paper", TEXT, lambda t: t.study.paper, "the paper that the study is about",
         by_study=True),
    Fact("table_name", TEXT, lambda t: ", ".join(t.study.tables), "that paper's tables", "table",
         by_study=True),
    Fact("corpus", TEXT, lambda t: (t.journal.config or t.journal.trial.values).get("corpus.name"),
         "the corpus; null for tasks without one"),
    Fact("corpus_digest", TEXT, lambda t: t.journal.trial.corpus_digest, "hash of its tokens"),
    Fact("parents", TEXT,
         lambda t: ", ".join(f"{parent.role}:{parent.id}" for parent in t.journal.trial.parents),
         "the trials it builds on, each with its role"),
    Fact("device", TEXT, lambda t: t.journal.trial.device, "cpu, cuda, ..."),
    Fact("precision", TEXT, lambda t: t.journal.trial.precision, "float32, bfloat16, ..."),
    Fact("threads", WHOLE, lambda t: t.journal.trial.threads, "threads that it computes with"),
    Fact("processes", WHOLE, lambda t: t.attempt.processes or 1,
         "processes that train it together, each with its share of a batch's rows"),
    Fact("reads_test", TRUTH, lambda t: t.journal.trial.reads_test,
         "whether it read the test split"),
    Fact("runner", TEXT, lambda t: t.journal.trial.runner, "what trained or evaluated it"),
    Fact("attempts", WHOLE, lambda t: len(t.journal.attempts), "how often it was started"),
    Fact("num_epochs", WHOLE, lambda t: len(t.journal.epochs), "epochs that it finished", "epochs"),
    Fact("operations", NUMBER, lambda t: operations_of(t.journal) or None,
         "floating point operations of its training, estimated, without the optimizer; null in "
         "older records and for your own tasks"),
    Fact("host", TEXT, lambda t: t.attempt.host, "where it ran"),
    Fact("hardware", TEXT, lambda t: t.attempt.hardware, "on which processor or GPU"),
    Fact("processor", TEXT, lambda t: t.attempt.processor,
         "the processor's name, family, model and instruction sets; null in older records"),
    Fact("kernels", TEXT, lambda t: t.attempt.kernels,
         "digest of the sources of ablate's kernels; null in older records"),
    Fact("versions", TEXT,
         lambda t: ", ".join(f"{n} {v}" for n, v in (t.attempt.versions or {}).items()),
         "of Python, torch and ablate"),
    Fact("computed_by", TEXT, lambda t: ways(t.attempt),
         "`kernels: COMPILER`, `torch: WHY NO KERNELS`, both (resumed), or `neither` (nothing that "
         "kernels can compute); `torch: one batch of N seeds`; `compiled: BACKEND, TORCH` if torch "
         "compiled it; empty in older records"),
    Fact("sources", TEXT,
         lambda t: "; ".join(map(" ".join, sorted(t.attempt.code.items()))),
         "your own files of code that the trial ran, with digests: `digits.py 1a2b3c4d`"),
    Fact("inputs", TEXT, lambda t: "; ".join(t.attempt.inputs),
         "what else your code read: packages with versions, files and variables with digests, as "
         "`numpy 2.1.0; $DEPTH 5e6f7a8b`"),
    Fact("neutral", TEXT, lambda t: ", ".join(t.attempt.neutral or ()),
         "settings of your own task that cannot change a result"),
    Fact("git_commit", TEXT, lambda t: t.git.get("commit"), "the study's commit"),
    Fact("git_dirty", TRUTH, lambda t: t.git.get("dirty"), "the study has uncommitted code"),
    Fact("ablate_commit", TEXT, lambda t: t.ablate_git.get("commit"), "ablate's own commit"),
    Fact("ablate_dirty", TRUTH, lambda t: t.ablate_git.get("dirty"),
         "ablate has uncommitted code"),
    Fact("config_hash", TEXT,
         lambda t: digest(without_nan(t.journal.config or dict(t.journal.trial.values))),
         "hash of its resolved config"),
    Fact("result_digest", TEXT, lambda t: t.journal.outcome and t.journal.outcome.digest,
         "hash of every bit of its weights"),
    Fact("study_key", TEXT, lambda t: t.study.key, "`study@scale`", HOME, by_study=True),
)  # fmt: skip
OF_STUDIES: tuple[Fact[StudyFacts], ...] = (
    Fact("study_key", TEXT, lambda t: t.record.key, "`study@scale`", STUDY_RUN),
    Fact("study", TEXT, lambda t: t.record.name, "its name"),
    Fact("scale", TEXT, lambda t: t.record.scale, "its scale"),
    Fact("question", TEXT, lambda t: t.record.question, "what it asks"),
    Fact("command", TEXT, lambda t: t.record.command, "the command that runs or resumes it"),
    Fact("paper", TEXT, lambda t: t.record.paper, "the paper that it is about"),
    Fact("table_name", TEXT, lambda t: ", ".join(t.record.tables), "that paper's tables", "table"),
    Fact("corpus", TEXT, lambda t: t.record.corpus, "its corpus, with the options that change its "
         "text; null for tasks without one"),
    Fact("corpus_digest", TEXT, lambda t: t.record.corpus_digest, "hash of its tokens"),
    Fact("level", TEXT, lambda t: t.record.level, "its tokens: word, character, byte, "
         "bpe or tree; null without a corpus"),
    Fact("base_arm", TEXT, lambda t: t.record.base_arm, "the arm that others are compared with"),
    Fact("status", TEXT, lambda t: t.status, "running, interrupted or finished"),
    Fact("imported", TEXT, lambda t: t.record.imported, "the file that its results come from; null "
         "if they were made here"),
    Fact("judged_by", TEXT, lambda t: json.dumps(asdict(t.record.metric)), ""),
)  # fmt: skip
TRIAL_FACTS = tuple(fact for fact in FACTS if not fact.by_study)
STUDY_FACTS = tuple(fact for fact in FACTS if fact.by_study)


def tags_of(facts: Iterable[Fact[T]], subject: T) -> dict[str, Any]:
    """The facts under the names of their tags."""
    return {fact.recorded_as: fact.of(subject) for fact in facts}


def ways(attempt: Attempt) -> str | None:
    """What computed a trial, as text that tells "nothing for kernels" from "not recorded"."""
    return None if attempt.computed_by is None else "; ".join(attempt.computed_by) or NEITHER
