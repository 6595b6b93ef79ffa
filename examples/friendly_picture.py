"""What the friendly filter does beyond normal data: a picture of weights, cores and private means.

    python examples/friendly_picture.py [folder]

Writes friendly_picture.png. Colors show each row's weight, which is raw data: made-up rows may be drawn so, real
ones may not. Only the star and the noisy core fraction in the title are private.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import ellipsum as es
from ellipsum.display.plots.drawing import figure
from ellipsum.friendly.core import near_counts, quantize, row_weights

RADIUS, ROWS = 5.0, 2000


def invent(rng: np.random.Generator) -> dict[str, np.ndarray]:
    normal = rng.normal(size=(ROWS, 2))
    contaminated = normal.copy()
    contaminated[: ROWS // 8] = rng.normal([9, 6], 0.7, size=(ROWS // 8, 2))
    third = ROWS // 3
    clusters = normal.copy() * 0.8
    clusters[:third] += [8, 0]
    clusters[third : 2 * third] += [4, 7]
    heavy = rng.standard_t(1.5, size=(ROWS, 2))
    return {
        "normal": normal,
        "one row in eight elsewhere": contaminated,
        "heavy tails": heavy,
        "three clusters": clusters,
    }


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    made, axes = figure(15, 4.2, columns=4)
    for axis, (name, rows) in zip(axes, invent(np.random.default_rng(4)).items(), strict=True):
        weights = row_weights(near_counts(quantize(rows, RADIUS)), ROWS) / (ROWS - 1)
        shades = axis.scatter(*rows.T, c=weights, s=4, cmap="viridis", vmin=0, vmax=1)
        axis.scatter(*rows.mean(axis=0), marker="x", s=90, color="black", label="plain mean")
        result = es.friendly_mean(rows, RADIUS, epsilon=1.0, delta=1e-6)
        if result:
            axis.scatter(
                *result.value, marker="*", s=190, color="red", edgecolor="white", label="private friendly mean"
            )
        outcome = "released" if result else "no center"
        axis.set_title(f"{name}\n{outcome}, core fraction {result.core_fraction:.2f}", fontsize=10)
        axis.set(xlim=(-9, 13), ylim=(-9, 12), aspect="equal")
    axes[0].legend(frameon=False, loc="lower left", fontsize=8)
    made.colorbar(shades, ax=axes, label="weight of a row", shrink=0.85)
    path = folder / "friendly_picture.png"
    made.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    main()
