"""From a real file to published means: the Wisconsin breast cancer table that ships with scikit-learn.

Run: python examples/breast_cancer.py
Writes the table as CSV, publishes means with the command line, then prints the measured error of 200 releases beside
the expected error. The true means may be shown only because the table is public.
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


def main() -> None:
    table = load_breast_cancer(as_frame=True).data
    with tempfile.TemporaryDirectory() as folder:
        data, bounds = Path(folder, "cells.csv"), Path(folder, "bounds.json")
        table.to_csv(data, index=False)
        bounds.write_text(json.dumps(BOUNDS))
        command = ["mean", data, "--bounds", bounds, "--epsilon", BUDGET["epsilon"], "--delta", BUDGET["delta"]]
        subprocess.run([sys.executable, "-m", "ellipsum", *map(str, command)], check=True)
    chosen = table[list(BOUNDS)]
    true_means = chosen.to_numpy().mean(axis=0)
    plan = es.plan("mean", es.Box(BOUNDS), n=len(table), **BUDGET)
    isotropic = es.plan("mean", es.Box(BOUNDS, shape="ball"), n=len(table), noise="gaussian", **BUDGET)
    rng = np.random.default_rng(0)
    errors = np.stack([plan.release(chosen, rng=rng).value - true_means for _ in range(200)])
    measured = np.sqrt(np.mean(errors**2, axis=0))
    print("| column | mean | measured error | expected error | isotropic Gaussian noise, expected |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for j, name in enumerate(BOUNDS):
        cells = (true_means[j], measured[j], plan.expected_error[j], isotropic.expected_error[j])
        print(f"| {name} | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
