"""What is behind a table: stored when a table is exported, shown by `ablate table provenance HASH`.

An exported table carries a hash of its contents: the trials behind its cells, those that measured
their models, their results, the corpus and the code that trained them. The store has the contents
in `tables/<hash>.json`. If the study is resumed later, the hash still leads to the trials in the
table, with the results that they had when it was made.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ablate.compare.formats import table_of, text
from ablate.compare.judged import Judged
from ablate.config.identity import StageName, digest
from ablate.config.metrics import PERPLEXITY, SPLITS, Metric
from ablate.errors import TrialError, unknown
from ablate.store import journal as journals
from ablate.store.attempt import Attempt
from ablate.store.journal import Journal
from ablate.store.numbers import finite, without_nan
from ablate.store.replication import counted
from ablate.store.store import Store, damaged

SHORTEST = 4  # digits that a prefix of a hash has at least
NLL = PERPLEXITY.name  # older tables have no other metric


def save(store: Store, summary: Judged) -> str:
    """Store what a table is made of, and return its hash."""
    contents = contents_of(summary)
    key = digest(contents)
    path = f"tables/{key}.json"
    if not store.exists(path):
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        store.write_json(path, {"made": made, "contents": without_nan(contents)})
    return key


def reference(key: str) -> str:
    """The footnote of an exported table."""
    return f"Table {key}: ablate table provenance {key}"


def contents_of(summary: Judged) -> dict[str, Any]:
    """What a table is made of, as plain data: equal tables have equal contents."""

    def results(trials: Iterable[str]) -> dict[str, Any]:
        return {trial: _result(summary.journals.get(trial)) for trial in trials}

    measures = results(t.id for t in summary.record.trials if t.stage == StageName.MEASURE)
    return {
        "study": summary.record.key,
        # What older tables lack is left out where it says nothing: so their hashes stay.
        **({} if summary.metric.name == NLL else {"metric": summary.metric.name}),
        "corpus_digest": summary.record.corpus_digest,
        "alpha": summary.alpha,
        "whole": summary.whole,
        "planned": {arm.name: arm.counts.planned for arm in summary.arms},
        "arms": [{"name": arm.name, "trials": results(arm.trials)} for arm in summary.arms],
        "ensembles": results(ensemble.trial for ensemble in summary.ensembles),
        **({"measures": measures} if measures else {}),
    }


def _result(journal: Journal | None) -> dict[str, Any]:
    """A trial's metrics, and the code that computed them."""
    if journal is None or journal.outcome is None:
        return {}
    return {
        "metrics": journal.metrics,
        "digest": journal.outcome.digest,
        "code": (journal.last_attempt.ablate_git or {}).get("commit"),
    }


def show(store: Store, key: str) -> str:
    """Trials, configs, data, code and environment behind a hash or a prefix of one."""
    whole = _whole_hash(store, key)
    path = f"tables/{whole}.json"
    saved = store.read_json(path) or {}
    try:
        contents = saved["contents"]
        results = {trial: r for arm in contents["arms"] for trial, r in arm["trials"].items()}
        results |= contents["ensembles"] | contents.get("measures", {})
        if digest(contents) != whole:
            raise ValueError("its contents have another hash")  # damage, like the errors below
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged(store, path, f"{type(error).__name__}: {error}") from error
    known = journals.read_all(store, results)
    lines = [
        f"table {whole} of {contents['study']}, made {saved['made']}",
        *(f"corpus digest {own}" for own in [contents["corpus_digest"]] if own),
        "whole" if contents["whole"] else "INCOMPLETE when it was made",
        "",
        *_trials(contents, known),
        *_arms(contents, known),
        *_counted("code", known, _code),
        *_counted("environment", known, _environment),
        *_changed(results, known),
        "",
        "To repeat a trial from its whole config: ablate trial rerun TRIAL",
    ]
    return "\n".join(lines)


def _whole_hash(store: Store, key: str) -> str:
    hashes = [name.removesuffix(".json") for name in store.names("tables")]
    matching = [name for name in hashes if name.startswith(key) and len(key) >= SHORTEST]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise TrialError(f"{len(matching)} table hashes start with {key}: {', '.join(matching)}.")
    if not hashes:
        raise TrialError(
            f"no table has been exported from {store.uri}. `ablate table STUDY --format latex` "
            "gives a table and its hash."
        )
    raise TrialError(unknown("table", key, hashes, store.uri))


def _trials(contents: Mapping[str, Any], known: Mapping[str, Journal]) -> list[str]:
    rows, metric = [], contents.get("metric", NLL)
    names = [Metric(metric).key(split) for split in SPLITS]
    others = {"ensemble": contents["ensembles"], "measure": contents.get("measures", {})}
    arms = [*contents["arms"], *({"name": n, "trials": trials} for n, trials in others.items())]
    for arm in arms:
        for trial, result in arm["trials"].items():
            journal = known.get(trial)
            seed = str(journal.trial.seed) if journal else "?"
            values = [finite(result.get("metrics", {}).get(name)) for name in names]
            shown = ["" if value is None else f"{value:.6f}" for value in values]
            rows.append([arm["name"], seed, trial, *shown, str(result.get("digest") or "")])
    unit = "nats" if metric == NLL else metric
    titles = ["arm", "seed", "trial", f"valid {unit}", f"test {unit}", "result digest"]
    return text.lines(table_of(titles, rows, left=["trial", "result digest"]))


def _arms(contents: Mapping[str, Any], known: Mapping[str, Journal]) -> Iterator[str]:
    """The config of every arm: once the fields that all share, then those that differ."""
    configs = {name: items for arm in contents["arms"] for name, items in _configs(arm, known)}
    if not configs:
        return
    shared = frozenset.intersection(*configs.values())
    own = {name: config - shared for name, config in configs.items() if config - shared}
    for name, items in {"shared by all arms": shared, **own}.items():
        yield from ("", f"config {name}")
        yield from (f"  {field} = {value}" for field, value in sorted(items))


def _configs(
    arm: Mapping[str, Any], known: Mapping[str, Journal]
) -> Iterator[tuple[str, frozenset[tuple[str, str]]]]:
    """An arm's config; if it has several, as of several searches' winners, each with its seeds."""
    seeds: dict[frozenset[tuple[str, str]], list[str]] = {}
    for journal in (known[trial] for trial in arm["trials"] if trial in known):
        config = frozenset((name, json.dumps(value)) for name, value in journal.config.items())
        seeds.setdefault(config, []).append(str(journal.trial.seed))
    for config, numbers in seeds.items():
        noun = "seed" if len(numbers) == 1 else "seeds"
        apart = f", {noun} {', '.join(numbers)}" if len(seeds) > 1 else ""
        yield f"of {arm['name']}{apart}", config


def _counted(
    what: str, known: Mapping[str, Journal], describe: Callable[[Attempt], str]
) -> Iterator[str]:
    """Each code or environment, and how many of the trials ran in it."""
    counts = Counter(describe(journal.last_attempt) for journal in known.values())
    yield from ("", what)
    for description, num in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {counted(num, 'trial')}: {description}"


def _code(attempt: Attempt) -> str:
    commits = [
        f"{name} {_commit(git or {})}"
        for name, git in (("ablate", attempt.ablate_git), ("study's folder", attempt.git))
    ]
    own = [f"{name} {source}" for name, source in attempt.code.items()]
    return "; ".join([*commits, *own, *attempt.inputs])


def _commit(git: Mapping[str, Any]) -> str:
    dirty = ", with uncommitted changes" if git.get("dirty") else ""
    return f"commit {git['commit']}{dirty}" if git.get("commit") else "not under git"


def _environment(attempt: Attempt) -> str:
    versions = ", ".join(f"{name} {v}" for name, v in (attempt.versions or {}).items())
    ways = ", ".join(attempt.computed_by or ())
    where = f"{attempt.host or '?'}, {attempt.hardware or '?'}"
    known = {"processor": attempt.processor, "kernels": attempt.kernels, "by": ways}
    more = (f"{name} {value}" for name, value in known.items() if value)
    return "; ".join([where, versions or "no versions", *more])


def _changed(results: Mapping[str, Any], known: Mapping[str, Journal]) -> Iterable[str]:
    """Yield what differs in the store today."""
    for trial, then in results.items():
        journal = known.get(trial)
        if journal is None:
            yield f"trial {trial} is no longer in this store."
        elif (journal.outcome and journal.outcome.digest) != then.get("digest"):
            yield f"the result of trial {trial} has changed since this table was made."
