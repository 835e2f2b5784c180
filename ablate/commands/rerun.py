"""Repeat a recorded trial, and say whether every bit agrees."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.commands import _options
from ablate.commands.trial import run_showing
from ablate.config.identity import Keep, Trial
from ablate.config.tasks import FUNCTION
from ablate.errors import TrialError
from ablate.store import journal as journals
from ablate.store.journal import COMPILED, KERNELS, TORCH, UNKNOWN, Journal, find
from ablate.store.leftovers import owned_folder
from ablate.store.outcome import Status
from ablate.store.store import Store, remake
from ablate.store.workspace import Workspace
from ablate.trial.checkpoint import weights_key
from ablate.trial.provenance import trust
from ablate.trial.provenance.changes import Changes
from ablate.trial.run import load_recorded

# Fields that differ although nothing is wrong; `computed_by` has a sentence of its own.
DIFFERS_BY_ATTEMPT = {"started", "from_epoch", "epochs_before", "pid", "computed_by", "closure"}
# What decides the bits, besides the code of the trial.
OF_BITS = ("processor", "kernels", "versions", "python")
DIFFERENT = (
    "Kernels and torch compute the same formulas with different rounding, which training "
    "amplifies: results can differ by more than a perplexity point (33.87 and 32.53, for example)."
)
EXAMPLE = "ablate trial rerun 3f2a9c"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate trial rerun`."""
    parser.add_argument("trial", help="a trial's id (a unique prefix is enough)")
    _options.add_trust(parser)
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> int:
    """Train a recorded trial again; return 0 if the results are the same."""
    return rerun_trial(options.trial, _options.workspace(options), trusted=options.trust)


def rerun_trial(trial_id: str, workspace: Workspace, *, trusted: bool = False) -> int:
    """Repeat a recorded trial from its start, in a temporary store, and compare every bit.

    `trusted`: the user trusts the files of code that its record names.
    """
    recorded = find(workspace.store, trial_id)
    if recorded.outcome is None or recorded.status != Status.COMPLETED:
        raise TrialError(
            f"trial {recorded.trial.id} has not completed: there is nothing to repeat."
        )
    if trusted:
        trust.remember(recorded.trial.modules)
    load_recorded(recorded.trial)
    print(f"trial {recorded.trial.id}: {recorded.trial.name}")
    with owned_folder("ablate-rerun-", Path(tempfile.gettempdir())) as folder:
        store = _with_parents(Store(str(folder)), workspace.store, recorded.trial)
        # The outcome's digest is of the weights, which need not be kept to compare them.
        again = run_showing(replace(recorded.trial, keep=Keep.NOTHING), store, workspace.data)
    if again.outcome is None or again.status != Status.COMPLETED:
        why = again.outcome and again.outcome.reason
        raise TrialError(f"the repetition did not complete: {again.status}: {why}")
    if again.outcome.digest == recorded.outcome.digest:
        weights = recorded.outcome.num_parameters is not None
        print(f"every bit agrees: the same {'weights, and so the same ' if weights else ''}numbers")
        return 0
    _show_difference(recorded, again)
    return 1


def _with_parents(store: Store, recorded: Store, trial: Trial) -> Store:
    """Copy the weights and journals that a trial builds on into its store."""
    for parent in trial.parent_ids():
        for key in (weights_key(parent), journals.key(parent)):
            data = recorded.read(key)
            if data is None:
                raise TrialError(f"{key} is missing from {recorded.uri}. {remake(parent)}")
            store.write(key, data)
    return store


def _show_difference(recorded: Journal, again: Journal) -> None:
    print("the bits differ:")
    for name, value in recorded.metrics.items():
        print(f"  {name}: recorded {value!r}, now {again.metrics.get(name)!r}")
    before, now = (journal.last_attempt.to_plain() for journal in (recorded, again))
    for name in sorted(set(before) & set(now) - DIFFERS_BY_ATTEMPT):  # older records lack some
        if before[name] != now[name]:
            print(f"  {name} was {before[name]}, is {now[name]}")
    for change in Changes().since(recorded.trial, recorded):
        print(f"  {change}")
    print(f"  {_promised(before, now)}")
    if recorded.trial.runner != FUNCTION or recorded.computed_by | again.computed_by:
        print(f"  {_kernels_then_and_now(recorded, again)}")


def _promised(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say whether these two should have agreed in every bit."""
    unknown = [name for name in OF_BITS if name not in before]
    others = [name for name in OF_BITS if name not in unknown and before[name] != now.get(name)]
    if not unknown and not others:
        return "processor, kernels and versions are the same, so every bit should have agreed."
    lacks = f"the record does not have its {' and its '.join(unknown)}" if unknown else ""
    differ = f"{', '.join(others)} differ" if others else ""
    why = "; ".join(filter(None, [differ, lacks]))
    return f"Bits agree on the same processor, with the same kernels and versions: here {why}."


def _kernels_then_and_now(recorded: Journal, again: Journal) -> str:
    """Describe whether kernels computed one of the two and torch the other."""
    now = _computed_by(again)
    if UNKNOWN in recorded.computed_by:
        return (
            "whether kernels or torch computed the record is unknown, as for every older record; "
            f"now: {now}. {DIFFERENT}"
        )
    if recorded.computed_by == again.computed_by:
        return f"kernels: the same as in the record ({now})"
    return (
        f"recorded with {_computed_by(recorded)}; now with {now}. {DIFFERENT} {_remedy(recorded)}"
    )


def _computed_by(journal: Journal) -> str:
    return (
        ", ".join(journal.last_attempt.computed_by or ()) or "no operation that kernels can compute"
    )


def _remedy(recorded: Journal) -> str:
    if COMPILED in recorded.computed_by:
        return "Compiled training repeats to the same bits only with the same torch and compiler."
    if recorded.computed_by == {TORCH}:
        return "To repeat it as it was recorded: ABLATE_NATIVE=off ablate trial rerun ..."
    if recorded.computed_by == {KERNELS}:
        return "To repeat it as it was recorded: unset ABLATE_NATIVE=off, and have a C++ compiler."
    return "It was resumed under another setting, so it cannot be repeated as it was recorded."
