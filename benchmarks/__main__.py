"""`python -m benchmarks`: one table of what has a target, with the processor's name, beside what was recorded before.

    python -m benchmarks [--entries 100000000] [--repeats 9] [--record]
    python -m benchmarks name ...     every benchmark whose name holds one of the words
    python -m benchmarks all          every benchmark but those that need an engine or a large disk of their own

Ratios are against something measured in the same run. What takes longer than it did when it was last recorded on such
a processor is named in a warning; --record writes down what was measured now.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ._table import Measured, busy, processor, record, recorded, sound, warnings

HERE = Path(__file__).parent
HEAVY = ("spark", "lake", "learning")  # need an engine of their own, or a large disk: run by name only


def _named(words: list[str]) -> int:
    names = sorted(
        f"benchmarks.{path.parent.name}.{path.stem}" for path in HERE.glob("*/*.py") if not path.stem.startswith("_")
    )
    usual = [name for name in names if name.rpartition(".")[2] not in HEAVY]
    chosen = usual if words == ["all"] else [name for name in names if any(word in name for word in words)]
    if not chosen:
        print(f"no benchmark matches {' '.join(words)}; there are: {', '.join(names)}")
        return 2
    failed = []
    for name in chosen:
        print(f"\n== {name} ==", flush=True)
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-m", name], cwd=HERE.parent, check=False)
        print(f"({time.monotonic() - begin:.0f} s)", flush=True)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _measured(entries: int, repeats: int) -> Iterator[Measured]:
    from .speed import accumulate, mathematics, release, wide

    yield from release.measured()
    yield from wide.measured()
    yield from mathematics.measured()
    yield from accumulate.measured(entries, repeats)


def _table(entries: int, repeats: int, keep: bool) -> None:
    """Prints every line as it is measured; slower than recorded is a warning, never a failure."""
    before = recorded().get(processor(), {})
    print(processor())
    was_busy = busy()
    if was_busy:
        print("Other work runs here: what is measured with two threads says little, and is not recorded.")
    print(f"{'work':<62} {'measured':>11} {'target':>8}")
    done = []
    for row in _measured(entries, repeats):
        print(row.line, flush=True)
        done.append(row)
    held = [row for row in done if row.target is not None]
    print(f"{sum(row.met for row in held)} of {len(held)} targets are met")
    for line in warnings(sound(held, was_busy), before):
        print(line, file=sys.stderr)
    if keep:
        record(sound(held, was_busy))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="names of benchmarks, or all")
    parser.add_argument("--entries", type=int, default=10**8, help="rows x columns of each array that is summed")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--record", action="store_true", help="write down what was measured, for later runs")
    arguments = parser.parse_args()
    if arguments.words:
        return _named(arguments.words)
    _table(arguments.entries, arguments.repeats, arguments.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
