"""What a coordinate of spherical noise, and of noise in blocks, costs on one core, against Gaussian noise.

    python -m benchmarks.speed.noise_laws [--rounds 30]

Least time of a call over many; the laws take turns. All columns in one block, as the laws of one release have them;
groups with a block of eight columns each are shown beside, and not judged: a block of eight draws nine numbers
more. Fails (exit code 1) where a law takes more than 3 times the Gaussian's time per coordinate from d = 1000 on.
Where memory that is given back is slow to get again, MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ at 4000000000
leave that out of the times.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from ellipsum.noise import Stream, add_noise, shift_for
from ellipsum.noise.vectors import add_ball_noise, add_box_noise
from ellipsum.numerics.wide_integers import Wide

from .noise import SECONDS_A_TURN, STD, Call

SIZES, MOST = (1_000, 10_000, 100_000, 1_000_000), 3.0
BLOCK, GROUPS = 8, "groups of 8"


def contenders(d: int) -> dict[str, Call]:
    sums, shift = Wide.from_int64(np.random.default_rng(0).integers(-(2**60), 2**60, d)), shift_for(STD)
    groups = Wide(sums.high.reshape(-1, BLOCK), sums.low.reshape(-1, BLOCK))
    return {
        "gaussian": lambda: add_noise(sums, STD, shift, Stream.open()),
        "ball": lambda: add_ball_noise(sums, STD / d**0.5, Stream.open()),
        "one block": lambda: add_box_noise(sums, [d], [STD / d], Stream.open()),
        GROUPS: lambda: add_box_noise(groups, [BLOCK], [STD], Stream.open()),
    }


def least(call: Call, seconds: float) -> float:
    """Least time of one call, over calls for so many seconds."""
    begin, best = time.perf_counter(), float("inf")
    while time.perf_counter() < begin + seconds:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def race(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    for call in calls.values():
        call()  # compiled and warm
    turns = [{name: least(call, SECONDS_A_TURN) for name, call in calls.items()} for _ in range(rounds)]
    return {name: min(turn[name] for turn in turns) for name in calls}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds, held = parser.parse_args().rounds, True
    print(f"{'d':>9}  {'law':<14}{'ns a coordinate':>16}{'x gaussian':>12}")
    for d in SIZES:
        seconds = race(contenders(d), rounds)
        for name, value in seconds.items():
            times = value / seconds["gaussian"]
            held &= times <= MOST or name == GROUPS
            print(f"{d:>9,}  {name:<14}{1e9 * value / d:>16.1f}{times:>12.2f}", flush=True)
    print(f"{'holds' if held else 'FAILS'}  at most {MOST:g} times the Gaussian's time per coordinate")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
