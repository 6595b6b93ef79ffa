"""`python -m benchmarks`: one table of what has a target, with the processor's name, beside what was recorded before.

    python -m benchmarks [kernels wide groups files start] [--repeats 5] [--record]

Ratios are against something measured in the same run: numpy's sum, a C loop, numpy's normals, DuckDB, pyarrow. What
takes longer than it did when it was last recorded on such a processor is named in a warning; --record writes down
what was measured now. Growth in rows, columns, groups and people: python -m benchmarks.growth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module

from ._table import ROOT, Measured, busy, processor, record, recorded, slower, sound

SECTIONS = ("start", "kernels", "wide", "groups", "files")


def lines_of(section: str, repeats: int) -> Iterator[Measured]:
    """What a section measures, in a process of its own: what one holds in memory is none of the other's business."""
    command = [sys.executable, "-m", "benchmarks", section, "--repeats", str(repeats), "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Measured(**json.loads(line))
    if process.returncode:
        print(f"{section} failed", file=sys.stderr)


def print_table(sections: list[str], repeats: int, keep: bool) -> None:
    """Prints every line as it is measured; slower than recorded is a warning, never a failure."""
    before = recorded().get(processor(), {})
    was_busy = busy()
    print(processor())
    if was_busy:
        print("Other work runs here: times that pass, with (*), say little, and are not recorded.")
    print(f"{'work':<64} {'measured':>11} {'target':>8} {'recorded':>9}")
    done = []
    for section in sections:
        for row in lines_of(section, repeats):
            print(row.line(before.get(row.work)), flush=True)
            done.append(row)
    held = [row for row in done if row.target is not None]
    print(f"{sum(row.met for row in held)} of {len(held)} targets are met")
    for line in slower(sound(held, was_busy), before):
        print(line, file=sys.stderr)
    if keep:
        record(sound(held, was_busy))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}; else all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="write down what was measured, for later runs")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"no section is named {', '.join(sorted(unknown))}")
    if not given.json:
        print_table(given.sections or list(SECTIONS), given.repeats, given.record)
        return
    for section in given.sections:
        warnings.simplefilter("ignore")
        for row in import_module(f".speed.{section}", __package__).measured(given.repeats):
            print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
