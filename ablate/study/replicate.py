"""A replication: the same study on the next seeds and searches that nobody has looked at.

It is a scale of its own, `laptop-replicate` of `laptop`, with one look at its end.
"""

from __future__ import annotations

from dataclasses import replace

from ablate.compare.judged import Judged
from ablate.errors import StudyError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord, study_key
from ablate.study.several import renamed
from ablate.study.study import Study
from ablate.study.words import Scale


def replicated(
    study: Study, scale_name: str | None, number: int, store: Store
) -> tuple[Study, str]:
    """Return the study with the scale that replicates one, for the `number`-th time, and its name.

    A replication that has started keeps its seeds. The first starts after the seeds on the record
    of what it replicates, and each further one after those of the one before.
    """
    name, scale = study.scale(scale_name)
    earlier = [_renamed(name, scale, num)[0] for num in range(1, number)]
    before = [_read(store, study_key(study.name, one)) for one in (name, *earlier)]
    new, scale = _renamed(name, scale, number)
    own = study_key(study.name, new)
    if study_record.exists(store, own):
        started = study_record.read(store, own)
        first_seed, first_search = started.first_seed, started.first_search
    else:
        first_seed = max(map(_after_seeds, before))
        first_search = max(record.first_search + _num_searches(record) for record in before)
    note = (
        f"Replicates {' and '.join(_with_result(store, record) for record in before)} on seeds "
        f"from {first_seed} on."
    )
    fresh = _on_fresh_seeds(scale, first_seed, first_search)
    fresh = replace(fresh, note=" ".join(filter(None, [note, scale.note])))
    return replace(study, scales={**study.scales, new: fresh}), new


def _with_result(store: Store, record: StudyRecord) -> str:
    """An earlier run with its seeds, and what came of it: a replication that succeeds after others
    that failed is one of several."""
    arms = Judged(record, journals.read_all(store, record.trial_ids())).arms
    words = [f"{arm.name} {arm.comparison.verdict}" for arm in arms if arm.comparison]
    seeds = f"seeds {record.first_seed} to {_after_seeds(record) - 1}"
    return f"{record.key} ({seeds}: {', '.join(words) or 'no result'})"


def _renamed(name: str, scale: Scale, number: int) -> tuple[str, Scale]:
    return renamed(name, scale, "-replicate" if number == 1 else f"-replicate-{number}")


def _on_fresh_seeds(scale: Scale, first_seed: int, first_search: int) -> Scale:
    search = scale.search and replace(scale.search, looks=(), first_seed=first_search)
    return replace(scale, looks=(), first_seed=first_seed, search=search)


def _read(store: Store, key: str) -> StudyRecord:
    if not study_record.exists(store, key):
        raise StudyError(
            f"{key} has not been run in {store.uri}, so its seeds are not known, and there is "
            "nothing to replicate. Instead: run it first, without --replicate."
        )
    return study_record.read(store, key)


def _after_seeds(record: StudyRecord) -> int:
    return record.first_seed + record.num_seeds * max(1, _num_searches(record))


def _num_searches(record: StudyRecord) -> int:
    """How many searches an arm has for its settings."""
    return max((s.repeat + 1 for s in record.searches if s.seed_index is None), default=0)
