"""Errors of three private means, here and in other libraries: the table of docs/concepts/comparison.md (docs extra).

`python -m benchmarks.peer_means` prints the root mean square error of each column over many releases.
"""

from collections.abc import Callable

import diffprivlib.tools
import numpy as np
import opendp.prelude as dp
from sklearn.datasets import load_diabetes

import ellipsum as es

RUNS = 4_000
BOUNDS = {"age": (18.0, 90.0), "bmi": (12.0, 60.0), "bp": (40.0, 180.0)}
PATIENTS = load_diabetes(as_frame=True, scaled=False).frame[list(BOUNDS)]


def opendp_means() -> Callable[[], list[float]]:
    """A third of epsilon for each column, as the page has it."""
    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(PATIENTS)), dp.symmetric_distance()

    def mechanism(name: str) -> Callable[[list[float]], float]:
        clamped = numbers >> dp.t.then_clamp(BOUNDS[name]) >> dp.t.then_mean()
        return dp.binary_search_chain(lambda scale: clamped >> dp.m.then_laplace(scale), d_in=2, d_out=1 / 3)

    mechanisms = {name: mechanism(name) for name in BOUNDS}
    return lambda: [mechanisms[name](PATIENTS[name].to_list()) for name in BOUNDS]


def diffprivlib_means() -> Callable[[], list[float]]:
    bounds = tuple(zip(*BOUNDS.values(), strict=True))
    return lambda: diffprivlib.tools.mean(PATIENTS.to_numpy(), epsilon=1, bounds=bounds, axis=0)


def own_means(**arguments: str) -> Callable[[], list[float]]:
    return lambda: es.mean(PATIENTS, es.Box(BOUNDS), epsilon=1, delta=0, **arguments).value


def releases() -> dict[str, Callable[[], list[float]]]:
    return {
        "OpenDP": opendp_means(),
        "diffprivlib": diffprivlib_means(),
        "ellipsum, no value missing": own_means(missing="none"),
        "ellipsum": own_means(),
    }


def error(release: Callable[[], list[float]], runs: int = RUNS) -> np.ndarray:
    true_means = PATIENTS.mean().to_numpy()
    return np.sqrt(np.mean([(release() - true_means) ** 2 for _ in range(runs)], axis=0))


if __name__ == "__main__":
    for label, release in releases().items():
        print(f"{label:30}", " ".join(f"{value:8.2f}" for value in error(release)), flush=True)
