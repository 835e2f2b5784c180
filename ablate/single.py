"""One trial by itself, with torch alone: `ablate trial CONFIG.toml`, `ablate rerun TRIAL`."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate import journal as journals
from ablate.config import resolve
from ablate.errors import ConfigError, TrialError, unknown
from ablate.identity import Trial, make_trial
from ablate.journal import COMPLETED, Journal, find
from ablate.store import Store
from ablate.trial import TrialRun
from ablate.workspace import Workspace, make_folders


def run_config(config: str, seed: int, threads: int, workspace: Workspace) -> int:
    """Run the trial that a TOML file describes, showing an epoch a line."""
    from ablate.data.corpus import corpus_digest

    values = read_values(Path(config))
    resolved = resolve(values, config)
    make_folders(workspace)
    trial = make_trial(
        resolved,
        values=values,
        seed=seed,
        threads=threads,
        corpus_digest=corpus_digest(resolved.corpus, workspace.data),
        study="trial",
        arm=Path(config).stem,
    )
    print(f"trial {trial.id}: {config}, seed {seed}")
    journals.reopened(workspace.store, trial.id)
    journal = _run(trial, workspace.store, workspace.data)
    return _show_outcome(journal)


def rerun_trial(trial_id: str, workspace: Workspace) -> int:
    """Repeat a recorded trial from its beginning, elsewhere, and compare every bit."""
    recorded = find(workspace.store, trial_id)
    if recorded.status != COMPLETED or recorded.outcome is None:
        raise TrialError(
            f"trial {recorded.trial.id} has not completed; there is nothing to repeat."
        )
    print(f"trial {recorded.trial.id}: {recorded.trial.arm}, seed {recorded.trial.seed}")
    with tempfile.TemporaryDirectory() as folder:
        store = _with_parents(Store(folder), workspace.store, recorded.trial)
        again = _run(replace(recorded.trial, keep="nothing"), store, workspace.data)
    if again.outcome is None or again.status != COMPLETED:
        raise TrialError(f"the repetition did not complete: {again.outcome}.")
    if again.outcome["digest"] == recorded.outcome["digest"]:
        print("the bits agree: the same weights, and so the same numbers")
        return 0
    _show_difference(recorded, again)
    return 1


def read_values(path: Path) -> dict[str, Any]:
    """Flat values from a TOML file: tables are slots, and keys their fields.

    corpus.name = "ptb"
    backbone = { name = "lstm", units = 200 }     # or: [backbone] name = "lstm"
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = sorted(str(found) for found in path.parent.glob("*.toml"))
        raise ConfigError(unknown("config file", str(path), near)) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}.") from None
    except ValueError as error:  # TOML and UTF-8 both say where
        raise ConfigError(f"{path}: {error}.") from None
    return dict(_flat(data))


def _flat(data: Mapping[str, Any], prefix: str = ""):
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif key == "name" and prefix and prefix != "corpus.":
            yield prefix.rstrip("."), value
        else:
            yield f"{prefix}{key}", value


def _with_parents(store: Store, recorded: Store, trial: Trial) -> Store:
    """The weights and journals that a trial builds on, beside it."""
    from ablate.train.checkpoint import weights_key

    for parent in trial.parent_ids():
        for key in (weights_key(parent), journals.key(parent)):
            data = recorded.read(key)
            if data is None:
                raise TrialError(f"{key} is gone from {recorded.uri}: run its study again.")
            store.write(key, data)
    return store


def _run(trial: Trial, store: Store, data: str) -> Journal:
    run = TrialRun(trial, store, data)
    while True:
        progress = run.advance(2.0)
        if progress.epoch is not None:
            epoch = progress.epoch
            print(
                f"  epoch {epoch['epoch']}: train {epoch['train_nll']:.4f} nats, "
                f"valid {epoch['valid_ppl']:.2f} ppl, {epoch['seconds']:.1f} s"
            )
        if progress.done:
            return run.journal


def _show_outcome(journal: Journal) -> int:
    outcome = journal.outcome or {}
    if journal.status != COMPLETED:
        frames = outcome.get("frames")
        raise TrialError(
            f"{journal.status}: {outcome.get('reason')}" + (f"\n{frames}" if frames else "")
        )
    print(f"  {outcome['num_parameters']:,} parameters")
    for name, value in outcome["metrics"].items():
        print(f"  {name} {value:.4f}")
    return 0


def _show_difference(recorded: Journal, again: Journal) -> None:
    print("the bits do not agree:")
    for name, value in (recorded.outcome or {})["metrics"].items():
        print(f"  {name}: recorded {value!r}, now {(again.outcome or {})['metrics'].get(name)!r}")
    before, now = recorded.attempts[-1], again.attempts[-1]
    for name in sorted(set(before) & set(now) - {"started", "from_epoch", "epochs_before", "pid"}):
        if before[name] != now[name]:
            print(f"  {name} was {before[name]}, is {now[name]}")
