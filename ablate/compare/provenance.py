"""What is behind a table: kept when a table is exported, shown by `ablate provenance HASH`.

An exported table carries a hash of its contents, and the store keeps the contents under it
(`tables/<hash>.json`): should the study go on afterwards, the hash still leads to the trials that
stand in the table, and to what they had found when it was made.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ablate import journal as journals
from ablate.errors import TrialError, unknown
from ablate.journal import Journal
from ablate.layout import Grid
from ablate.store import Store

SHORTEST = 4  # digits of a hash that are enough, if only one begins so


def keep(store: Store, key: str, contents: Mapping[str, Any]) -> None:
    """Remember what a table is made of; it was the same before if its hash is."""
    place = f"tables/{key}.json"
    if not store.exists(place):
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        store.write_json(place, {"made": made, "contents": journals.without_nan(contents)})


def show(store: Store, key: str) -> str:
    """Trials, configs, data, code and environment behind a hash, or its first digits."""
    whole = _found(store, key)
    kept = store.read_json(f"tables/{whole}.json") or {}
    contents = kept["contents"]
    results = {trial: r for arm in contents["arms"] for trial, r in arm["trials"].items()}
    results |= contents["ensembles"]
    known = journals.read_all(store, results)
    lines = [
        f"table {whole} of {contents['study']}, made {kept['made']}",
        f"corpus digest {contents['corpus_digest']}",
        "whole" if contents["whole"] else "INCOMPLETE when it was made",
        "",
        *_trials(contents, known),
        *_arms(contents, known),
        *_places("code", known, _code),
        *_places("environment", known, _environment),
        *_changed(results, known),
        "",
        "An arm's whole config: ablate rerun TRIAL repeats a trial from it.",
    ]
    return "\n".join(lines)


def _found(store: Store, key: str) -> str:
    every = [name.removesuffix(".json") for name in store.names("tables")]
    matching = [name for name in every if name.startswith(key) and len(key) >= SHORTEST]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise TrialError(f"{len(matching)} tables begin with {key}: {', '.join(matching)}.")
    if not every:
        raise TrialError(
            f"no table has been exported from {store.uri}. `ablate table STUDY --format latex` "
            "gives a table and its hash."
        )
    raise TrialError(unknown("table", key, every, store.uri))


def _trials(contents: Mapping[str, Any], known: Mapping[str, Journal]) -> list[str]:
    rows = []
    for arm in [*contents["arms"], {"name": "ensemble", "trials": contents["ensembles"]}]:
        for trial, found in arm["trials"].items():
            journal = known.get(trial)
            metrics = found.get("metrics", {})
            seed = str(journal.trial.seed) if journal else "?"
            losses = [_loss(metrics.get(f"{split}_nll")) for split in ("valid", "test")]
            rows.append([arm["name"], seed, trial, *losses, str(found.get("digest") or "")])
    titles = ["arm", "seed", "trial", "valid nats", "test nats", "result digest"]
    return Grid(titles, rows, left=["trial", "result digest"]).lines(100, "-")


def _loss(nats: Any) -> str:
    return f"{nats:.6f}" if isinstance(nats, int | float) else ""


def _arms(contents: Mapping[str, Any], known: Mapping[str, Journal]) -> Iterator[str]:
    """What every arm was told: what all share once, then what is an arm's own."""
    configs = {}
    for arm in contents["arms"]:
        found = [known[trial].config for trial in arm["trials"] if trial in known]
        if found:
            configs[arm["name"]] = {name: json.dumps(v) for name, v in found[0].items()}
    if not configs:
        return
    items = [set(config.items()) for config in configs.values()]
    shared = set.intersection(*items)
    yield from ("", "config shared by all arms")
    yield from (f"  {name} = {value}" for name, value in sorted(shared))
    for name, config in configs.items():
        own = sorted(set(config.items()) - shared)
        if own:
            yield from ("", f"config of {name}")
            yield from (f"  {field} = {value}" for field, value in own)


def _places(what: str, known: Mapping[str, Journal], told: Any) -> Iterator[str]:
    """Each code or environment, and how many of the trials ran in it."""
    counts: dict[str, int] = {}
    for journal in known.values():
        place = journal.attempts[-1] if journal.attempts else {}
        text = told(place)
        counts[text] = counts.get(text, 0) + 1
    yield from ("", what)
    for text, num in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {num} trial{'' if num == 1 else 's'}: {text}"


def _code(place: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name} {_commit(place.get(key) or {})}"
        for name, key in (("ablate", "ablate_git"), ("study's folder", "git"))
    )


def _commit(git: Mapping[str, Any]) -> str:
    dirty = ", with changes not committed" if git.get("dirty") else ""
    return f"commit {git['commit']}{dirty}" if git.get("commit") else "not under git"


def _environment(place: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {v}" for name, v in (place.get("versions") or {}).items())
    return f"{place.get('host', '?')}, {place.get('hardware', '?')}; {versions or 'no versions'}"


def _changed(results: Mapping[str, Any], known: Mapping[str, Journal]) -> Iterable[str]:
    """What the store says otherwise today."""
    for trial, then in results.items():
        journal = known.get(trial)
        if journal is None:
            yield f"trial {trial} is not in this store any more."
        elif (journal.outcome or {}).get("digest") != then.get("digest"):
            yield f"trial {trial} has found something else since this table was made."
