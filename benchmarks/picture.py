"""One picture of the table: how far each figure is from its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw a bar for each figure, to the right if it meets its limit. Needs matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("agg")
    from matplotlib import pyplot

    figures = [f for row in results["rows"].values() for f in row["figures"] if f["limit"]]
    if not figures:
        return
    margins = [_margin(figure) for figure in figures]
    axes = pyplot.subplots(figsize=(11, 1 + 0.28 * len(figures)), layout="constrained")[1]
    colours = ["tab:blue" if margin >= 1 else "tab:red" for margin in margins]
    axes.barh(range(len(figures)), [m - 1 for m in margins], left=1, color=colours)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(figures)), [figure["what"] for figure in figures], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("ratio over its limit: right of 1 it is kept")
    axes.set_title(results["machine"]["processor"], fontsize=9)
    pyplot.gcf().savefig(path, dpi=110)
    pyplot.close()


def _margin(figure: dict[str, Any]) -> float:
    """Return how many times better than the limit a figure is."""
    if figure["sense"] == "faster":
        return figure["ratio"] / figure["limit"]
    return figure["limit"] / max(figure["ratio"], figure["limit"] / 100)
