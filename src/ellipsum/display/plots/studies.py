"""Figures of the demo, and of the evaluation in the source document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...errors import Floats
from .drawing import BLACK, COLORS, figure, hatch, label, save, stroke, styled


@styled()
def compare_noise(
    names: Sequence[str], widths: Floats, forecasts: Mapping[str, Floats], measured: Mapping[str, Floats], path: Path
) -> None:
    """Error of each column relative to the width of its bounds: measured as bars, forecast as ticks."""
    picture, axis = figure()
    places = np.arange(len(names))
    share = 0.8 / len(measured)
    for i, (kind, errors) in enumerate(measured.items()):
        x = places + (i - (len(measured) - 1) / 2) * share
        axis.bar(x, errors / widths, share, label=f"{kind}: measured", **hatch(i))
        axis.scatter(x, forecasts[kind] / widths, marker="_", s=160, color=BLACK, zorder=3)
    axis.scatter([], [], marker="_", s=160, color=BLACK, label="forecast")
    axis.set_yscale("log")
    axis.set_xticks(places, [label(name) for name in names], rotation=25, ha="right")
    axis.set_ylabel("error / width of the bounds")
    axis.set_title("Error of a private mean at one budget")
    picture.legend(loc="outside lower center", ncols=4)
    save(picture, path)


@styled()
def zipf_spreads(spreads: Mapping[float, Floats], path: Path) -> Path:
    """Figure 1: share of each dimension's std for several skews."""
    picture, axes = figure(11, 3.4, len(spreads))
    for axis, (alpha, stds) in zip(axes, spreads.items(), strict=True):
        axis.bar(np.arange(1, stds.size + 1), stds, width=1.0, color=COLORS[0])
        axis.set_title(f"alpha = {alpha:g}")
        axis.set_xlabel("dimension")
    axes[0].set_ylabel("std")
    save(picture, path)
    return path


@styled()
def improvements(ratios: Sequence[Mapping[str, float]], path: Path) -> Path:
    """Figure 2: ratio of the squared noise without and with the transformation, against the skew."""
    dimensions = sorted({row["d"] for row in ratios})
    picture, axes = figure(13, 4.2, len(dimensions))
    for axis, d in zip(axes, dimensions, strict=True):
        for i, n in enumerate(sorted({row["n"] for row in ratios})):
            rows = [row for row in ratios if row["d"] == d and row["n"] == n]
            alphas = [row["alpha"] for row in rows]
            for rule, name in (("closed_form", "closed form"), ("optimized", "optimized")):
                style = {**stroke(i), "linestyle": "--" if rule == "closed_form" else "-"}
                axis.plot(alphas, [row[rule] for row in rows], **style, markevery=4, label=f"n = {n:g}, {name}")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(f"d = {d:g}")
        axis.set_xlabel("skew alpha")
    axes[0].set_ylabel("squared noise, without / with transformation")
    axes[0].legend()
    save(picture, path)
    return path


@styled()
def total_errors(rows: Sequence[Mapping[str, float]], path: Path) -> Path:
    """Figure 3: measured ratio of the total squared errors of the source's rule and of ellipsum."""
    picture, axis = figure()
    places = np.arange(len(rows))
    for i, (name, words) in enumerate((("optimal", "exact center"), ("default", "default (center known to 0.1 std)"))):
        axis.bar(places + (i - 0.5) * 0.4, [row[f"{name}_gain"] for row in rows], 0.4, label=words, **hatch(i))
    axis.axhline(1, color=BLACK, linewidth=0.8)
    axis.set_xticks(places, [f"alpha {row['alpha']:g}\nn {row['n']:g}" for row in rows])
    axis.set_ylabel("total squared error, source's rule / ellipsum")
    axis.set_title("Noise and clipping together, measured: d = 100, epsilon = 1, delta = 1e-6")
    axis.legend()
    save(picture, path)
    return path
