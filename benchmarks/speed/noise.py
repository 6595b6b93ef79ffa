"""What a noisy coordinate costs on one core: ellipsum against numpy's normals and OpenDP's Gaussian.

    python -m benchmarks.speed.noise

Least time of several rounds; the contenders take turns within a round, so that a slow moment of the machine
meets all of them. The ratios count, not the times. numpy's normals are neither secret nor correctly rounded.
All are single-threaded. OpenDP is compared if it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ellipsum.noise import Stream, add_noise, shift_for
from ellipsum.numerics.wide_integers import Wide

ROUNDS = 15
SECONDS_A_TURN = 0.02
STD = 1.3e9
Call = Callable[[], object]


def seconds_a_call(call: Call, repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats


def race(contenders: dict[str, Call]) -> dict[str, float]:
    """Least seconds a call of each contender."""
    for call in contenders.values():
        call()  # compiled and warm
    repeats = {name: max(1, int(SECONDS_A_TURN / seconds_a_call(call, 1))) for name, call in contenders.items()}
    turns = [{name: seconds_a_call(call, repeats[name]) for name, call in contenders.items()} for _ in range(ROUNDS)]
    return {name: min(turn[name] for turn in turns) for name in contenders}


def opendp_gaussian(size: int) -> Call | None:
    """OpenDP's Gaussian on a vector of doubles, or None if the package is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0)
    zeros = [0.0] * size
    return lambda: measurement(zeros)


def compare(size: int, with_opendp: bool) -> None:
    """Print one line a contender."""
    rng = np.random.default_rng(0)
    sums, shift = Wide.from_int64(rng.integers(-(2**60), 2**60, size)), shift_for(STD)
    contenders: dict[str, Call] = {
        "ellipsum": lambda: add_noise(sums, STD, shift, Stream.open()),
        "numpy standard_normal": lambda: rng.standard_normal(size),
    }
    rival = opendp_gaussian(size) if with_opendp else None
    if rival is not None:
        contenders["OpenDP make_gaussian"] = rival
    seconds = race(contenders)
    for name, value in seconds.items():
        times = value / seconds["ellipsum"]
        print(f"{size:>9,}  {name:<22}{1e9 * value / size:>12.1f}{1e6 * value:>14.1f}{times:>14.3g}")
    if with_opendp and rival is None:
        print(f"{size:>9,}  OpenDP is not installed (pip install opendp): not compared")


def main() -> None:
    print("        d                        ns a coordinate     µs a call    x ellipsum")
    compare(10, with_opendp=False)
    compare(1_000, with_opendp=True)
    compare(1_000_000, with_opendp=False)


if __name__ == "__main__":
    main()
