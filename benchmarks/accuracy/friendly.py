"""Error of friendly means over n and d, against the rate of the theory and against knowing the center.

    python -m benchmarks.accuracy.friendly [--output out] [--repeats 5]

Rows N(c, I_d) with c at distance 10^6, epsilon = 1, delta = 1e-6, radius from the law of two rows' distance. Writes
friendly_accuracy.png and prints, for each d and n, root mean square norms over the repeats:
  noise      the private mean minus the plain mean of the rows
  ratio      noise over d sqrt(ln(1/delta)) / (n epsilon): the theory's rate, so nearly constant for large n
  usual      the noise that 2 r s_n / (W_lo mu2), a fixed threshold, would need with its best split, over noise
  total      the private mean minus the true center
  sampling   the plain mean minus the true center
  known      the same error of `es.mean` for rows whose center is known to within 10% of their spread
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from scipy.special import ndtri

import ellipsum as es
from ellipsum.display.plots.drawing import COLORS, figure
from ellipsum.friendly import friendly_mean
from ellipsum.friendly.plan import friendly_plan

EPSILON, DELTA = 1.0, 1e-6
DIMENSIONS, SIZES = (10, 30, 100), (200, 500, 1000, 3000, 10_000)
FAR = 1e6


def root_mean_square(offsets: list[np.ndarray]) -> float:
    return math.sqrt(np.mean([offset @ offset for offset in offsets]))


def usual_noise(n: int, d: int, radius: float) -> float:
    """The fixed-threshold form at the same budget: its best split and threshold when all rows agree."""
    plan = friendly_plan(n, d, radius, budget=es.Budget(epsilon=EPSILON, delta=DELTA))
    mu, slack, stability = plan.privacy.mu, plan.slack, 1 + 2 * (n - 1) / (n - 2)
    share = np.linspace(0.005, 0.98, 400)
    lowest = n - (1.2816 - ndtri(slack)) * stability / (mu * np.sqrt(share))
    noise = np.where(lowest > stability, 2 * radius * stability / (lowest * mu * np.sqrt(1 - share)), np.inf)
    return float(noise.min()) * math.sqrt(d)


def measure(n: int, d: int, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    center = np.full(d, FAR / math.sqrt(d))
    noise, total, sampling, known = [], [], [], []
    radius = math.nan
    for _ in range(repeats):
        rows = rng.normal(size=(n, d)) + center
        plain = rows.mean(axis=0)
        release = friendly_mean(rows, es.Normal(0, std=1.0), epsilon=EPSILON, delta=DELTA, rng=rng)
        if not release:
            continue
        radius = release.plan.radius
        guess = es.Normal(center, std=np.ones(d), center_error=0.1)
        informed = es.mean(rows, guess, epsilon=EPSILON, delta=DELTA, rng=rng)
        noise.append(release.value - plain)
        total.append(release.value - center)
        sampling.append(plain - center)
        known.append(informed.value - center)
    if not noise:
        return {}
    found = root_mean_square(noise)
    rate = d * math.sqrt(math.log(1 / DELTA)) / (n * EPSILON)
    return {
        "noise": found,
        "ratio": found / rate,
        "usual": usual_noise(n, d, radius) / found,
        "total": root_mean_square(total),
        "sampling": root_mean_square(sampling),
        "known": root_mean_square(known),
    }


def draw(results: dict[tuple[int, int], dict[str, float]], path: Path) -> None:
    made, axes = figure(12, 4.6, columns=2)
    for color, d in zip(COLORS[1:], DIMENSIONS, strict=False):
        sizes = [n for n in SIZES if results[d, n]]
        theory = [d * math.sqrt(math.log(1 / DELTA)) / (n * EPSILON) for n in sizes]
        axes[0].plot(sizes, [results[d, n]["noise"] for n in sizes], "o-", color=color, label=f"d = {d}")
        axes[0].plot(sizes, theory, ":", color=color)
        axes[1].plot(sizes, [results[d, n]["total"] for n in sizes], "o-", color=color, label=f"d = {d}, friendly")
        axes[1].plot(sizes, [results[d, n]["known"] for n in sizes], "--", color=color)
        axes[1].plot(sizes, [results[d, n]["sampling"] for n in sizes], ":", color=color)
    axes[0].set_title("Private minus plain mean (dotted: the theory's rate)", fontsize=10)
    axes[1].set_title("Distance from the true center (dashed: center known, dotted: no privacy)", fontsize=10)
    for axis in axes:
        axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="root mean square norm")
        axis.legend(frameon=False)
    made.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    results: dict[tuple[int, int], dict[str, float]] = {}
    heads = ("noise", "ratio", "usual", "total", "sampling", "known")
    print(f"{'d':>5} {'n':>7} " + " ".join(f"{head:>9}" for head in heads))
    for d in DIMENSIONS:
        for n in SIZES:
            results[d, n] = measure(n, d, options.repeats, rng)
            shown = " ".join(f"{results[d, n].get(head, math.nan):9.4g}" for head in heads)
            print(f"{d:5d} {n:7d} {shown}", flush=True)
    draw(results, options.output / "friendly_accuracy.png")
    print(options.output / "friendly_accuracy.png")


if __name__ == "__main__":
    main()
