"""Run one trial from a config, with torch alone."""

from __future__ import annotations

import argparse
import contextlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ablate.commands import _options
from ablate.config.identity import Trial, make_trial
from ablate.config.resolve import resolve_near
from ablate.errors import ConfigError, HeldError, TrialError, unknown
from ablate.store import journal as journals
from ablate.store.claims import Claims
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.workspace import Workspace, make_folders
from ablate.trial.provenance.changes import Changes
from ablate.trial.run import TrialRun

SHOWN = {  # metrics of an epoch; a custom runner may lack some
    "train_nll": "train {:.4f} nats",
    "valid_ppl": "valid {:.2f} ppl",
    "seconds": "{:.1f} s",
}

EXAMPLE = "ablate trial config.toml --seed 2"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate trial`."""
    parser.add_argument("config", help="a TOML file of values")
    for name, help in (("seed", "random seed"), ("threads", "torch threads")):
        kind = getattr(_options, name)
        parser.add_argument(
            f"--{name}", type=kind, default=1, metavar="N", help=f"{help} (default: 1)"
        )
    _options.add_code(parser, "a file that registers the config's task or techniques")
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> int:
    """Train a single config without a study; return the exit status."""
    workspace = _options.workspace(options)
    code = _options.executed_code(options)
    return run_config(options.config, options.seed, options.threads, workspace, code)


def run_config(
    config: str, seed: int, threads: int, workspace: Workspace, code: tuple[str, ...] = ()
) -> int:
    """Run the trial that a TOML file describes, showing one line per epoch."""
    from ablate.config.data_source import source_of

    values = read_values(Path(config))
    resolved = resolve_near(values, Path(config).parent, config)
    make_folders(workspace)
    corpus = resolved.data
    trial = make_trial(
        resolved,
        values={**values, **resolved.files},
        seed=seed,
        threads=threads,
        corpus_digest=source_of(corpus, workspace.data).digest() if corpus else "",
        modules=code,
        study="trial",
        arm=Path(config).stem,
    )
    _check_text(trial, workspace.data)
    print(f"trial {trial.id}: {trial.name}")
    with _claimed(workspace.store, trial.id):
        known = journals.reopened(workspace.store, trial.id)  # a failed trial is tried again
        _check_made_alike(trial, known, workspace.store)
        _show_outcome(run_showing(trial, workspace.store, workspace.data))
    return 0


@contextlib.contextmanager
def _claimed(store: Store, trial_id: str) -> Iterator[None]:
    """Keep other processes from running the trial; a finished trial needs no such claim."""
    with contextlib.closing(Claims(store)) as claims:
        if not claims.claim(trial_id):
            known = journals.read(store, trial_id)
            if known is None or not known.is_done:
                raise HeldError(
                    f"trial {trial_id} is being run by another process, for a study or by "
                    "`ablate trial`. Wait for it, or stop it, and run the same command again: it "
                    "shows the result of the other one, or resumes where that stopped."
                )
        yield


def _check_made_alike(trial: Trial, known: Journal | None, store: Store) -> None:
    """Refuse to show, or to resume, a trial that other code, defaults or data made."""
    if known is None or not (known.is_done or known.epochs):
        return
    if changes := ", ".join(map(str, Changes().since(trial, known))):
        raise TrialError(
            f"trial {trial.id} is on record and not of today's code: {changes}. Instead: raise the "
            "version of its task or technique, which makes another trial; or delete the folder "
            f"trials/{trial.id} of {store.uri}, and it is trained again."
        )


def _check_text(trial: Trial, data: str) -> None:
    """Refuse a text that the trial's evaluators cannot read, before it trains."""
    if trial.config.listed.get("evaluator"):
        trial.config.kind.asked.check_text(trial.config, data, trial.seed)


def read_values(path: Path) -> dict[str, Any]:
    """Read flat values from a TOML file: tables are slots, and keys their fields.

    corpus.name = "ptb"
    backbone = { name = "lstm", units = 200 }     # or: [backbone] name = "lstm"
    """
    try:
        return dict(_flat(tomllib.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        near = sorted(str(file) for file in path.parent.glob("*.toml"))
        raise ConfigError(unknown("config file", str(path), near)) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}.") from None
    except ValueError as error:  # the errors of TOML and of UTF-8 include the position
        raise ConfigError(f"{path}: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{path}: its values are nested too deeply to be read.") from None


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        # In a slot `name` is the technique; the corpus is a section with a field of this name.
        elif key == "name" and prefix and prefix != "corpus.":
            yield prefix.rstrip("."), value
        else:
            yield f"{prefix}{key}", value


def run_showing(trial: Trial, store: Store, data: str) -> Journal:
    """Run a trial to its end, showing one line per epoch."""
    run = TrialRun(trial, store, data)
    done = False
    while not done:
        done = run.advance(2.0)  # seconds, or to the end of the epoch
        if run.epoch is not None:
            epoch = run.epoch.to_plain()
            # A function reports what it likes; of a model's numbers, SHOWN has the telling ones.
            given = epoch if trial.config.kind.function else {}
            own = [f"{n} {v:.5g}" for n, v in given.items() if n not in ("epoch", *SHOWN)]
            shown = [text.format(epoch[name]) for name, text in SHOWN.items() if name in epoch]
            print(f"  epoch {run.epoch.number}: {', '.join([*own, *shown])}")
    return run.journal


def _show_outcome(journal: Journal) -> None:
    outcome = journal.outcome
    if outcome is None or outcome.status != Status.COMPLETED:
        why = [f"{journal.status}: {outcome and outcome.reason}", outcome and outcome.frames]
        raise TrialError("\n".join(filter(None, why)))
    if outcome.num_parameters is not None:
        print(f"  {outcome.num_parameters:,} parameters")
    for name, value in outcome.metrics.items():
        print(f"  {name} {value:.4f}")
