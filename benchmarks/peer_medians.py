"""Errors of private medians and counts, here and in other libraries: a table of docs/concepts/comparison.md.

`python -m benchmarks.peer_medians` prints root mean square errors over many releases: of the median of each column, all
three medians at epsilon = 1 together; and of a count of a histogram of the three columns, at epsilon = 1 together.
"""

from collections.abc import Callable

import diffprivlib.tools
import numpy as np
import opendp.prelude as dp

import ellipsum as es

from .peer_means import BOUNDS, PATIENTS

RUNS = 2_000
BINS = 8
EDGES = {name: np.linspace(*bounds, BINS + 1) for name, bounds in BOUNDS.items()}
CANDIDATES = 1024
"""Equal bins among which OpenDP's quantile chooses."""


def opendp_medians() -> Callable[[], np.ndarray]:
    """A third of epsilon for each column."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(PATIENTS)), dp.symmetric_distance()

    def mechanism(name: str) -> dp.Measurement:
        candidates = np.linspace(*BOUNDS[name], CANDIDATES + 1).tolist()

        def measure(scale: float) -> dp.Measurement:
            return dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, alpha=0.5, scale=scale)

        return measure(dp.binary_search_param(measure, d_in=2, d_out=1 / 3))

    mechanisms = {name: mechanism(name) for name in BOUNDS}
    return lambda: np.array([mechanisms[name](PATIENTS[name].to_list()) for name in BOUNDS])


def diffprivlib_medians() -> Callable[[], np.ndarray]:
    """A third of epsilon for each column."""
    return lambda: np.array(
        [
            diffprivlib.tools.median(PATIENTS[name].to_numpy(), epsilon=1 / 3, bounds=bounds)
            for name, bounds in BOUNDS.items()
        ]
    )


def own_medians(method: str, delta: float) -> Callable[[], np.ndarray]:
    return lambda: es.quantiles(PATIENTS, BOUNDS, 0.5, method=method, epsilon=1, delta=delta).value[:, 0]


def opendp_counts() -> Callable[[], np.ndarray]:
    """A third of epsilon for each column; a row that is replaced is in two bins of each."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
    count = dp.t.make_count_by_categories(*space, categories=list(range(BINS)), null_category=False)
    measure = dp.binary_search_chain(lambda scale: count >> dp.m.then_laplace(scale), d_in=2, d_out=1 / 3)
    codes = [(np.digitize(PATIENTS[name], EDGES[name]) - 1).astype(np.int32).tolist() for name in BOUNDS]
    return lambda: np.array([measure(cells) for cells in codes], float)


def diffprivlib_counts() -> Callable[[], np.ndarray]:
    """Its epsilon is for one row more or less: a sixth for each column of rows that are replaced."""
    columns = [(PATIENTS[name].to_numpy(), bounds) for name, bounds in BOUNDS.items()]
    return lambda: np.array(
        [diffprivlib.tools.histogram(rows, epsilon=1 / 6, bins=BINS, range=ends)[0] for rows, ends in columns], float
    )


def own_counts() -> Callable[[], np.ndarray]:
    return lambda: np.array(list(es.histogram(PATIENTS, bins=EDGES, epsilon=1, delta=1e-6).value.values()))


def medians() -> dict[str, Callable[[], np.ndarray]]:
    return {
        "OpenDP": opendp_medians(),
        "diffprivlib": diffprivlib_medians(),
        "ellipsum, exponential": own_medians("exponential", 0.0),
        "ellipsum, cdf": own_medians("cdf", 1e-6),
    }


def counts() -> dict[str, Callable[[], np.ndarray]]:
    return {"OpenDP": opendp_counts(), "diffprivlib": diffprivlib_counts(), "ellipsum": own_counts()}


def median_errors(release: Callable[[], np.ndarray], runs: int = RUNS) -> np.ndarray:
    exact = PATIENTS.median().to_numpy()
    return np.sqrt(np.mean([(release() - exact) ** 2 for _ in range(runs)], axis=0))


def count_error(release: Callable[[], np.ndarray], runs: int = RUNS // 10) -> float:
    exact = np.array([np.histogram(PATIENTS[name], EDGES[name])[0] for name in BOUNDS])
    return float(np.sqrt(np.mean([(release() - exact) ** 2 for _ in range(runs)])))


if __name__ == "__main__":
    for label, release in medians().items():
        print(f"{label:30}", " ".join(f"{value:8.2f}" for value in median_errors(release)), flush=True)
    for label, release in counts().items():
        print(f"{label:30} {count_error(release):8.1f}", flush=True)
