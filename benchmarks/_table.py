"""One table of what was measured: work, value, target, met or not; and what was recorded on such a processor before."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "benchmarks" / "recorded.json"
SLOWER = 1.25  # times what was recorded: from here on the table says so
QUIET = 0.5  # processes that want a processor: more are others
Record = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Measured:
    """A ratio to something measured in the same run (no unit), or a time; `target`: at most this."""

    work: str
    value: float
    target: float | None = None
    unit: str = "x"
    shared: bool = False
    """Whether it needs the machine for itself: time that passes, rather than that of the processor."""

    @property
    def met(self) -> bool:
        return self.target is None or self.value <= self.target

    def line(self, before: float | None = None) -> str:
        """A line of the table; before: what was recorded on such a processor."""
        target = "" if self.target is None else f"{self.target:g} {self.unit}"
        known = "" if before is None else f"{before:g} {self.unit}"
        met = "" if self.target is None else "met" if self.met else "NOT MET"
        work = f"{self.work} (*)" if self.shared else self.work
        return f"{work:<64} {self.value:>8.3g} {self.unit:<2} {target:>8} {known:>9}  {met}".rstrip()


def processor() -> str:
    """The processor's own name, and how many of its cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_name()}, {cores} cores"


def _name() -> str:
    told = {"family": "", "name": ""}
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            told["name"] = value.strip()
        if key.strip() in ("cpu family", "model"):
            told["family"] = f"{told['family']} {key.strip()} {value.strip()}"
        if not line.strip():
            break
    return f"{told['name'] or platform.machine()} ({told['family'].strip()})"


def busy() -> bool:
    """Whether other work seems to run on this machine."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > QUIET


def sound(measured: Iterable[Measured], was_busy: bool) -> list[Measured]:
    """What may be compared and recorded: on a busy machine, all but what needs it for itself."""
    return [row for row in measured if not (was_busy and row.shared)]


def recorded() -> Record:
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else {}


def slower(measured: Iterable[Measured], before: dict[str, float]) -> list[str]:
    """What takes longer than it did when it was last recorded on such a processor."""
    known = [(row, before[row.work]) for row in measured if row.work in before]
    worse = [(row, last) for row, last in known if row.value > SLOWER * last]
    return [f"warning: {row.work}: {row.value:.3g} {row.unit}, was {last:.3g}" for row, last in worse]


def record(measured: Iterable[Measured]) -> None:
    """From now on, this is what such a processor is compared with."""
    all_of_them = recorded()
    mine = all_of_them.setdefault(processor(), {})
    mine.update({row.work: float(f"{row.value:.3g}") for row in measured})
    RECORDED.write_text(json.dumps(all_of_them, indent=1, sort_keys=True) + "\n")
