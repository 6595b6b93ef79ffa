"""Private logistic regression with scikit-learn, unchanged: fit it on blocks, publish where the fits agree.

    python examples/private_logistic_regression.py

No gradient is clipped and nothing of the fit is known to the library. Compared with the plain fit on all rows, on
rows held back.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression  # imported here, so that it is loaded once and not for each block

import ellipsum as es

DELTA, BLOCKS, FEATURES = 1e-6, 400, 6


def fit(block: np.ndarray) -> np.ndarray:
    """Coefficients and intercept; the label is the last column."""
    model = LogisticRegression(C=1.0).fit(block[:, :-1], block[:, -1])
    return np.append(model.coef_[0], model.intercept_)


def accuracy(weights: np.ndarray, rows: np.ndarray) -> float:
    return float(np.mean((rows[:, :-1] @ weights[:-1] + weights[-1] > 0) == (rows[:, -1] > 0.5)))


def main() -> None:
    x, y = make_classification(
        90_000,
        FEATURES,
        n_informative=5,
        n_redundant=0,
        n_clusters_per_class=1,
        flip_y=0.05,
        class_sep=0.7,
        random_state=3,
    )
    rows = np.column_stack([x, y])
    train, held_back = rows[:80_000], rows[80_000:]
    plain = fit(train)
    print(f"{BLOCKS} blocks of {len(train) // BLOCKS} rows, delta = {DELTA:g}")
    print(f"{'':>12} {'accuracy':>9} {'distance from the plain fit':>30}")
    print(f"{'plain':>12} {accuracy(plain, held_back):9.4f}")
    for epsilon in (1.0, 4.0):
        release = es.subsample_and_aggregate(
            fit, train, blocks=BLOCKS, radius=(0.1, 30.0), epsilon=epsilon, delta=DELTA, dimension=FEATURES + 1
        )
        if not release:
            print(f"epsilon {epsilon:4g} no center")
            continue
        distance = float(np.linalg.norm(release.value - plain))
        print(f"epsilon {epsilon:4g} {accuracy(release.value, held_back):9.4f} {distance:30.3f}")
    majority = max(np.mean(held_back[:, -1]), 1 - np.mean(held_back[:, -1]))
    print(f"{'majority':>12} {majority:9.4f}")


if __name__ == "__main__":
    main()
