"""A lower bound on what a mechanism gives away, from runs of it on two neighboring data sets.

Proofs: docs/proofs/audit.md, [A1] to [A4] and [A6].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...display.document import Document, TextTable
from ...display.result import Printed
from ...errors import Floats, UsageError, finite, open_unit, whole
from ...noise import public_seed, public_words
from ...request.documentation import public
from ...session import Progress
from ...sources.progress import steps
from ...util import json_codec
from ...util.structural_equality import Alike
from ...version import VERSION
from .events import (
    MU_BOUNDS,
    Event,
    Score,
    at_least,
    at_most,
    choose_for_epsilon,
    choose_for_mu,
    epsilon_bound,
    learn_scores,
)
from .runs import Part, Runner, parts_of, run_parts, trial_of

_LEAST_RUNS, _LEAST_CONFIDENCE = 100, 0.75
_CHOOSING = 10, 20_000  # a tenth of the runs learns scores, a tenth picks the event, at most so many of each
_MOST_LOOKS = 6
_DELTAS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_EPSILONS = np.concatenate([np.zeros(1), np.geomspace(1e-3, 100, 400)])


class Claim(Protocol):
    """A guarantee with a curve: `Privacy`, `Budget`, or another library's."""

    def delta(self, epsilon: float) -> float: ...


@dataclass(frozen=True, repr=False)
class Audit(Printed, Alike):
    """What runs on two neighboring data sets prove: no guarantee below these bounds holds.

    Each bound is wrong with probability at most 1 - confidence, each taken by itself [A2].
    """

    mu_lower: float
    """The mechanism is not mu-Gaussian private for any mu below this; 0 where nothing was found."""
    runs: int
    """Runs on each data set."""
    counted: int
    """Those of them that were counted; the others chose what to count."""
    confidence: float
    score: str
    event: Event
    hits: int
    alarms: int
    failures: tuple[int, int]
    """Counted runs on each data set that raised an exception or gave anything but finite numbers."""
    chosen: tuple[Floats, Floats] = field(compare=False)
    measured: tuple[Floats, Floats] = field(compare=False)
    looks: int = 1
    """How often the runs were looked at, at most; their bounds together are wrong as rarely as is stated [A6]."""

    @property
    def miss(self) -> float:
        return (1 - self.confidence) / self.looks

    def epsilon_lower(self, delta: float) -> float:
        """The mechanism is not (epsilon, delta)-private for any epsilon below this [A1]."""
        delta = finite("delta", delta)
        if not 0 <= delta < 1:
            raise UsageError(f"delta must be at least 0 and below 1, got {delta:g}.")
        event = choose_for_epsilon(*self.chosen, self.miss, delta)
        hits, alarms = event.counts(*self.measured)
        return float(epsilon_bound(hits, alarms, self.counted, self.miss, delta))

    def contradicts(self, claim: Claim) -> bool:
        """Whether the event that was counted is likelier than a guarantee allows [A1]."""
        if self.event.rule == "pooled":
            share = float(at_least(self.hits + self.counted - self.alarms, 2 * self.counted, self.miss))
            return 2 * share - 1 > claim.delta(0.0)
        certain = float(at_least(self.hits, self.counted, self.miss / 2))
        doubtful = float(at_most(self.alarms, self.counted, self.miss / 2))
        return any(certain > math.exp(e) * doubtful + claim.delta(e) for e in _EPSILONS.tolist())

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": "ellipsum.audit/1",
            "version": VERSION,
            "mu_lower": self.mu_lower,
            "epsilon_lower": [{"delta": delta, "epsilon": self.epsilon_lower(delta)} for delta in _DELTAS],
            "runs": self.runs,
            "counted": self.counted,
            "confidence": self.confidence,
            "score": self.score,
            "rule": self.event.rule,
            "hits": self.hits,
            "false_alarms": self.alarms,
            "failures": list(self.failures),
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    def plot(self, path: str | Path | None = None, claim: Claim | None = None) -> Any:
        """A matplotlib figure of audited points, the claimed curve above them; written to a file where one is named."""
        from .picture import audit_plot

        label = f"audited: at least, {self.confidence:.4g} confidence"
        title = f"Audit of {self.runs} runs on each data set: mu >= {self.mu_lower:.4g}"
        return audit_plot(self.epsilon_lower, label, None if claim is None else claim.delta, title, path)

    def document(self, most: int | None = None) -> Document:
        lines = [[f"{delta:g}", f"{self.epsilon_lower(delta):.4g}"] for delta in (0.0, 1e-5, 1e-3)]
        facts = [
            ("Confidence", f"{self.confidence:.4g}"),
            ("Runs", f"{self.runs:,} on each data set, {self.counted:,} of them counted"),
            ("Event", f"{self.score}: {self.hits:,} hits, {self.alarms:,} false alarms"),
        ]
        if any(self.failures):
            facts.append(("Failures", f"{self.failures[0]:,} and {self.failures[1]:,} runs"))
        table = TextTable(["delta", "epsilon at least"], lines)
        return Document(f"Audit: mu >= {self.mu_lower:.4g}", [table], facts)


@public
def audit(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    *,
    runs: int,
    confidence: float = 0.99,
    claim: Claim | None = None,
    processes: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Run a mechanism on two neighboring data sets, and bound from below what it gives away.

    mechanism: a function of data, or of data and a numpy Generator; it returns a number, a vector or a release. With
        a method `many(data, runs, rng)` it draws many outputs in one call, one per row.
    pair: two data sets that its guarantee calls neighbors. The closer to the worst pair, the more is found.
    runs: runs on each of the two data sets.
    claim: a guarantee that is put to the test: the runs end as soon as they contradict it. Bounds are a little lower,
        since the runs are looked at several times.
    processes: interpreters to run it in (default: all cores where runs are made one by one and take seconds).
    rng: a numpy Generator that makes the audit repeatable: mechanisms with two arguments then draw the same numbers.

    A run that fails is an outcome like any other: `Audit.failures`. That nothing is found proves nothing.
    """
    first, second = _two(pair)
    seed = public_seed(rng)
    runs = whole("runs", runs, least=_LEAST_RUNS)
    confidence = open_unit("confidence", confidence)
    if confidence < _LEAST_CONFIDENCE:  # [A3]
        raise UsageError(f"confidence must be at least {_LEAST_CONFIDENCE}, got {confidence:g}.")
    if claim is not None and not callable(getattr(claim, "delta", None)):
        raise UsageError(f"claim must be a guarantee, as es.Privacy is, got {type(claim).__name__}.")
    processes = None if processes is None else whole("processes", processes)
    trial = trial_of(_callable(mechanism), (first, second), seed)
    runner = Runner(mechanism, (first, second), trial.width)
    with steps(progress, public=True) as tell:
        work = _Work(runner, seed, runs, trial.processes(runs, processes), tell)
        return _audited(work, confidence, claim)


def _two(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise UsageError("pair must hold two data sets: (data, the same with one row or person changed).")
    return pair[0], pair[1]


def _callable(mechanism: Any) -> Any:
    if not callable(mechanism) and not hasattr(mechanism, "many"):
        raise UsageError(f"mechanism must be a function of data, got {type(mechanism).__name__}.")
    return mechanism


@dataclass
class _Work:
    """Runs of a mechanism, stage by stage, each stage with seeds of its own."""

    runner: Runner
    seed: bytes
    runs: int
    processes: int
    tell: Progress | None
    done: int = 0

    def outputs(self, stage: int, runs: int) -> Iterator[tuple[int, Floats]]:
        """(which data set, outputs of some runs on it), so many of each data set in all."""
        seed = public_words(self.seed, stage, 1).tobytes()
        many = hasattr(self.runner.mechanism, "many")
        parts = [part for which in (0, 1) for part in parts_of(which, runs, seed, many)]
        for part, outputs in zip(parts, run_parts(self.runner, parts, self.processes), strict=True):
            self._report(part)
            yield part.which, outputs

    def _report(self, part: Part) -> None:
        self.done += part.runs
        if self.tell is not None:
            self.tell(self.done / (2 * self.runs))

    def scores(self, stage: int, runs: int, scores: list[Score]) -> list[tuple[Floats, Floats]]:
        """For each score, its values on both data sets."""
        values: list[tuple[list[Floats], list[Floats]]] = [([], []) for _ in scores]
        for which, outputs in self.outputs(stage, runs):
            for score, kept in zip(scores, values, strict=True):
                kept[which].append(score(outputs))
        return [(np.concatenate(kept[0]), np.concatenate(kept[1])) for kept in values]


def _audited(work: _Work, confidence: float, claim: Claim | None) -> Audit:
    """Learn scores, pick one and its event, count it: on runs of their own [A2]; look at them now and then [A6]."""
    few = min(work.runs // _CHOOSING[0], _CHOOSING[1])
    looks = _looks(work.runs - 2 * few, claim)
    miss = (1 - confidence) / len(looks)
    seen: tuple[list[Floats], list[Floats]] = ([], [])
    for which, outputs in work.outputs(0, few):
        seen[which].append(outputs)
    scores = learn_scores(np.concatenate(seen[0]), np.concatenate(seen[1]))
    tried = work.scores(1, few, scores)
    found = [(*choose_for_mu(*values, miss), place) for place, values in enumerate(tried)]
    _, event, place = max(found, key=lambda entry: entry[0])
    chosen = _Counted(scores[place], event, confidence, tried[place], len(looks))
    for stage, runs in enumerate(looks, 2):
        made = chosen.count(work, stage, runs, 2 * few)
        if claim is not None and made.contradicts(claim):
            break
    return made


def _looks(counted: int, claim: Claim | None) -> list[int]:
    """How many runs are counted before each look: each time as many as before, where a claim may end them."""
    parts = [counted]
    while claim is not None and len(parts) < _MOST_LOOKS and parts[0] >= 2 * _LEAST_RUNS:
        parts[:1] = [parts[0] // 2, parts[0] - parts[0] // 2]
    return parts


@dataclass
class _Counted:
    """An event and the runs on which it was counted so far."""

    score: Score
    event: Event
    confidence: float
    chosen: tuple[Floats, Floats]
    looks: int
    measured: tuple[Floats, Floats] = (np.empty(0), np.empty(0))

    def count(self, work: _Work, stage: int, runs: int, before: int) -> Audit:
        """What so many more runs and all earlier ones prove; before: runs that were not counted."""
        (more,) = work.scores(stage, runs, [self.score])
        first, second = (np.concatenate(both) for both in zip(self.measured, more, strict=True))
        self.measured = first, second
        counted, miss = first.size, (1 - self.confidence) / self.looks
        hits, alarms = self.event.counts(first, second)
        bound = float(MU_BOUNDS[self.event.rule](hits, alarms, counted, miss))
        failures = [int(np.count_nonzero(np.isinf(values))) for values in (first, second)]
        return Audit(
            max(bound, 0.0),
            counted + before,
            counted,
            self.confidence,
            self.score.name,
            self.event,
            hits,
            alarms,
            (failures[0], failures[1]),
            self.chosen,
            self.measured,
            self.looks,
        )
