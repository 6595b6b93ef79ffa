"""What a private projection loses against the raw data, over epsilon and k: near rows, clusters, noise saved.

    python benchmarks/accuracy/projection.py [--output out] [--repeats 3]

Data: the 1,797 images of handwritten digits that come with scikit-learn, 64 columns in 0..16, delta = 1e-6.
Writes projection.png and prints the tables:
  near rows   share of a row's ten nearest rows (in the sketch) that show the same digit
  clusters    adjusted Rand index of k-means (ten clusters) against the digits
  noise       noise variance of the published closed forms over the exact calibration's
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

from ellipsum.projection import project
from ellipsum.projection.curve import certified_scale
from ellipsum.projection.forecast import ProjectionWarning
from ellipsum.rows import Box

matplotlib.use("Agg")
from matplotlib import pyplot

EPSILONS = (10.0, 30.0, 100.0, 300.0, 1000.0)
SIZES = (4, 16, 64)
DELTA = 1e-6


def near_rows(values: Any, digits: Any) -> float:
    found = NearestNeighbors(n_neighbors=11).fit(values).kneighbors(values, return_distance=False)[:, 1:]
    return float(np.mean(digits[found] == digits[:, None]))


def clusters(values: Any, digits: Any) -> float:
    found = KMeans(10, n_init=4, random_state=0).fit_predict(values)
    return float(adjusted_rand_score(digits, found))


def sketched(data: Any, digits: Any, k: int, epsilon: float, repeats: int, **how: Any) -> tuple[float, float]:
    scores = []
    for seed in range(repeats):
        made = project(data, k, Box(0.0, 16.0), epsilon=epsilon, delta=DELTA, rng=np.random.default_rng(seed), **how)
        scores.append((near_rows(made.value, digits), clusters(made.value, digits)))
    near, grouped = np.mean(scores, axis=0)
    return float(near), float(grouped)


def measure(repeats: int) -> tuple[dict[str, list[tuple[float, float]]], tuple[float, float]]:
    digits = load_digits()
    data, labels = digits.data, digits.target
    lines = {f"k = {k}": [sketched(data, labels, k, e, repeats) for e in EPSILONS] for k in SIZES}
    identity = np.eye(data.shape[1])
    lines["rows themselves"] = [sketched(data, labels, 64, e, repeats, matrix=identity) for e in EPSILONS]
    return lines, (near_rows(data, labels), clusters(data, labels))


def noise_saved() -> dict[str, list[tuple[int, float]]]:
    def ratio(calibration: str, k: int, epsilon: float) -> float:
        exact, published = (certified_scale(epsilon, DELTA, k, calibration=c) for c in ("exact", calibration))
        return (exact / published) ** 2

    sizes = (1, 3, 10, 30, 100, 300, 1000)
    return {
        f"{calibration}, epsilon = {epsilon}": [(k, ratio(calibration, k, epsilon)) for k in sizes]
        for calibration in ("tail", "composition")
        for epsilon in (0.1, 0.9)
    }


def draw(path: Path, lines: Any, raw: Any, saved: Any) -> None:
    figure, panels = pyplot.subplots(1, 3, figsize=(13, 4), constrained_layout=True)
    for index, (panel, title) in enumerate(
        zip(panels, ("same digit among ten nearest", "adjusted Rand index"), strict=False)
    ):
        for name, scores in lines.items():
            panel.semilogx(EPSILONS, [score[index] for score in scores], marker="o", label=name)
        panel.axhline(raw[index], color="black", linestyle=":", label="raw data")
        panel.set(xlabel="epsilon (delta = 1e-6)", ylabel=title, ylim=(0, 1))
    panels[0].legend()
    for name, points in saved.items():
        panels[2].loglog(*zip(*points, strict=True), marker="o", label=name)
    panels[2].set(xlabel="k", ylabel="noise variance / exact calibration's")
    panels[2].legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)
        lines, raw = measure(given.repeats)
    saved = noise_saved()
    print("epsilon          " + "".join(f"{e:>16g}" for e in EPSILONS) + "        raw data")
    for index, title in enumerate(("near rows", "clusters")):
        for name, scores in lines.items():
            print(f"{title:10}{name:>16}" + "".join(f"{s[index]:>14.3f}" for s in scores) + f"{raw[index]:>14.3f}")
    for name, points in saved.items():
        print(f"{name:28}" + "  ".join(f"k={k}: {value:.4g}" for k, value in points))
    draw(given.output / "projection.png", lines, raw, saved)
    print(f"wrote {given.output / 'projection.png'}")


if __name__ == "__main__":
    main()
