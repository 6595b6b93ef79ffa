"""From a real file to published means: the Wisconsin breast cancer table that ships with scikit-learn.

Run: python examples/breast_cancer.py
Writes the table as CSV, publishes means with the command line, then measures the true error of 200 releases
(with a test generator: the truth may be looked at only because the table is public) beside the forecast.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

import ellipsum as es

# Bounds from what the measurements are (millimeters, shares), not from the table.
BOUNDS = {
    "mean radius": (5, 30),
    "mean texture": (5, 45),
    "mean perimeter": (40, 200),
    "mean area": (100, 2600),
    "mean smoothness": (0, 0.2),
    "mean compactness": (0, 0.4),
}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
WEIGHTS = "relative"  # the columns have different units: count each error in units of its own bounds


def main() -> None:
    table = load_breast_cancer(as_frame=True).data
    with tempfile.TemporaryDirectory() as folder:
        data, bounds = Path(folder, "cells.csv"), Path(folder, "bounds.json")
        table.to_csv(data, index=False)
        bounds.write_text(json.dumps(BOUNDS))
        command = ["mean", data, "--bounds", bounds, "--epsilon", BUDGET["epsilon"], "--delta", BUDGET["delta"]]
        command += ["--weights", WEIGHTS]
        subprocess.run([sys.executable, "-m", "ellipsum", *map(str, command)], check=True)
    chosen = table[list(BOUNDS)]
    truth = chosen.to_numpy().mean(axis=0)
    plan = es.plan(es.Box(BOUNDS), n=len(table), statistic="mean", weights=WEIGHTS, **BUDGET)
    equal = {"shape": "ball", "weights": "equal", "noise": "gaussian"}
    ball = es.plan(es.Box(BOUNDS), n=len(table), statistic="mean", **equal, **BUDGET)
    rng = np.random.default_rng(0)
    errors = np.stack([plan.release(chosen, rng=rng).value - truth for _ in range(200)])
    measured = np.sqrt(np.mean(errors**2, axis=0))
    print("| column | true mean | true error | forecast | equal noise would be |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for j, name in enumerate(BOUNDS):
        cells = (truth[j], measured[j], plan.noise_std[j], ball.noise_std[j])
        print(f"| {name} | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
