"""What early stopping saves in a search: replays on recorded learning curves, over many seeds.

    python -m benchmarks.search [--seeds 100] [--trials 60]     half an hour on one core

Each strategy suggests configurations and sees the recorded curve of each (`search_curves.py`) epoch
by epoch, until it stops it or the curve ends (`search_replay.py`). Random search without stopping
runs 60 trials to their end; the others may spend as many updates as it did with the same seed. What
is compared is how many they need to find a trial as good as the best of random search's.
Updates are counted and nothing is timed, so the figures are the same on any machine.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import search_curves
from benchmarks.search_curves import Table
from benchmarks.search_replay import Ours, Replay, Stock, Strategy, replay

HERE = Path(__file__).parent
LIMIT = 1 / 3  # of random search's updates, at the median
RANDOM, OURS = "random search, no stopping", "ablate: TPE + ASHA"
OTHERS: Mapping[str, Callable[[int], Strategy]] = {
    OURS: lambda seed: Ours(seed, "tpe", "asha"),
    "OptunaSearch + ASHA, defaults": lambda seed: Stock(seed),
    "OptunaSearch + ASHA, reducing by 3": lambda seed: Stock(seed, reduction_factor=3),
    "ablate: random + ASHA": lambda seed: Ours(seed, "random", "asha"),
    "ablate: TPE, no stopping": lambda seed: Ours(seed, "tpe", None),
}
WORKERS = {1: 1.0, 4: 0.2}  # trials at a time, and the share of the seeds
Runs = dict[str, list[Replay]]  # by strategy, a replay a seed


def replays(table: Table, seeds: Sequence[int], trials: int, workers: int) -> Runs:
    """Run every strategy with every seed; all may spend what random search spent."""
    runs: Runs = {name: [] for name in (RANDOM, *OTHERS)}
    for seed in seeds:
        bar = replay(Ours(seed, "random", None), table, trials=trials, workers=workers)
        runs[RANDOM].append(bar)
        for name, made in OTHERS.items():
            may = {"updates": bar.updates, "workers": workers}
            runs[name].append(replay(made(seed), table, **may))
    return runs


def summary(runs: Runs) -> dict[str, dict[str, float | None]]:
    """Return when each strategy reaches the best of random search with the same seed."""
    return {name: _summary(result, runs[RANDOM]) for name, result in runs.items()}


def _summary(result: Sequence[Replay], bars: Sequence[Replay]) -> dict[str, float | None]:
    pairs = list(zip(result, bars, strict=True))
    until = [run.reached(bar.best) for run, bar in pairs]
    shares = [u / bar.updates for u, bar in zip(until, bars, strict=True)]
    own = [u / bar.reached(bar.best) for u, bar in zip(until, bars, strict=True)]
    low, middle, high = _quartiles(shares)
    figures = {
        "updates": statistics.median(until),
        "share": middle,  # of all that random search spends
        "share_low": low,
        "share_high": high,
        "share_of_own": statistics.median(own),  # of what it spends until its best has ended
        "reached": sum(u < math.inf for u in until) / len(until),
        "final_ppl": math.exp(statistics.median(run.best for run in result)),
        "trials": statistics.median(run.asked for run in result),
    }
    return {name: None if math.isinf(n) else round(n, 4) for name, n in figures.items()}


def _quartiles(shares: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile, each a share or between two."""
    ordered = sorted(shares)
    half = len(ordered) // 2
    parts = (ordered[: half or 1], ordered, ordered[-half or -1 :])
    low, middle, high = (statistics.median(part) for part in parts)
    return low, middle, high


def verdict(result: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """Return whether the claims hold."""
    shares = {name: math.inf if f["share"] is None else f["share"] for name, f in result.items()}
    stock = min(share for name, share in shares.items() if name.startswith("OptunaSearch"))
    return {"a third": shares[OURS] <= LIMIT, "beats stock": shares[OURS] < stock}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=60, help="of random search")
    options = parser.parse_args()
    table, seeds = search_curves.read(), range(1, options.seeds + 1)
    results: dict[str, Any] = {"configurations": len(table.curves), **vars(options), "workers": {}}
    for workers, share in WORKERS.items():
        some = seeds[: max(1, round(share * len(seeds)))]
        runs = replays(table, some, options.trials, workers)
        result = summary(runs)
        told = {"seeds": len(some), "strategies": result, "claims": verdict(result)}
        results["workers"][workers] = told
        show(f"{workers} at a time, {len(some)} seeds", result)
        if workers == 1:
            draw(runs, HERE / "search.png")
    (HERE / "search.json").write_text(json.dumps(results, indent=1) + "\n")


def show(title: str, result: Mapping[str, Mapping[str, Any]]) -> None:
    names = ("updates", "share", "share_low", "share_high", "share_of_own", "reached", "final_ppl")
    print(f"{title:36}" + "".join(f"{name:>14}" for name in (*names, "trials")))
    for strategy, figures in result.items():
        shown = (figures[name] for name in (*names, "trials"))
        print(f"{strategy:36}" + "".join(f"{'never' if n is None else n:>14}" for n in shown))


def draw(runs: Runs, path: Path) -> None:
    """Plot the best so far against updates: the median over seeds, and the middle half."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    budget = statistics.median(run.updates for run in runs[RANDOM])
    grid = [budget * step / 200 for step in range(1, 201)]
    axes = pyplot.subplots(figsize=(8, 5), layout="constrained")[1]
    for name, result in runs.items():
        bands = [_quartiles([math.exp(run.best_at(at)) for run in result]) for at in grid]
        shown = [(at, *band) for at, band in zip(grid, bands, strict=True) if band[2] < math.inf]
        at, low, middle, high = zip(*shown, strict=True)
        axes.plot(at, middle, label=name, linewidth=2.5 if name == OURS else 1.2)
        axes.fill_between(at, low, high, alpha=0.12)
    axes.axvline(budget * LIMIT, color="black", linewidth=0.8, linestyle=":")
    axes.set_xlabel("updates (dotted: a third of random search's)")
    axes.set_ylabel("best validation perplexity so far")
    axes.legend(fontsize=8)
    pyplot.gcf().savefig(path, dpi=110)
    pyplot.close()


if __name__ == "__main__":
    main()
