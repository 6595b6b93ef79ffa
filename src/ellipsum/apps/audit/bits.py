"""The bits of outputs: which numbers occur at all, and whether the low bits tell two data sets apart.

A double has 53 bits, and noise that is computed in doubles leaves a trace of the value that it was added to: numbers
that one data set can give and the other cannot. Three tests look for it, each at a share of the level [A5].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...display.document import Document
from ...display.result import Printed
from ...errors import Floats, UsageError, open_unit, whole
from ...noise import public_seed, public_words
from ...request.documentation import public
from ...session import Progress
from ...sources.progress import steps
from .runs import Runner, parts_of, run_parts, trial_of

Words = NDArray[np.uint64]
_LOW = 8  # bits in a pattern
_RARE = 20  # patterns with fewer values are taken together, or left out
_MANTISSA, _CODE = np.uint64(52), np.uint64(16)


@dataclass(frozen=True, repr=False)
class BitsAudit(Printed):
    """Whether the bits of a mechanism's outputs tell two data sets apart."""

    runs: int
    confidence: float
    p_value: float
    """Of the strongest trace, corrected for how many were looked for; small where the bits give something away."""
    trace: str
    """What tells the data sets apart best, in words."""

    @property
    def found(self) -> bool:
        """Whether the outputs of the two data sets differ in their bits, at the confidence."""
        return self.p_value < 1 - self.confidence

    def document(self, most: int | None = None) -> Document:
        verdict = f"traces of the data ({self.trace})" if self.found else "no trace of the data"
        facts = [("Runs", f"{self.runs:,} on each data set"), ("p-value", f"{self.p_value:.3g}")]
        return Document(f"BitsAudit: {verdict} in the bits of the outputs", [], facts)


@public
def audit_bits(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    *,
    runs: int,
    confidence: float = 0.999999,
    processes: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> BitsAudit:
    """Look for traces of the data in the bits of a mechanism's outputs.

    The two data sets should give values so close together that their noise hides the difference: then outputs that
    are rounded with care have the same bits for both, and those of noise added in floating point do not.

    mechanism, pair, runs, processes, rng: as in `ellipsum.audit`.
    """
    runs = whole("runs", runs, least=100)
    confidence = open_unit("confidence", confidence)
    seed = public_seed(rng)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise UsageError("pair must hold two data sets.")
    trial = trial_of(mechanism, (pair[0], pair[1]), seed)
    runner = Runner(mechanism, (pair[0], pair[1]), trial.width)
    with steps(progress, public=True) as tell:
        outputs = _outputs(runner, runs, seed, trial.processes(runs, processes), tell)
    found = min(((test(column), name) for name, test in _TESTS.items() for column in outputs), key=lambda f: f[0])
    return BitsAudit(runs, confidence, min(found[0] * len(_TESTS) * len(outputs), 1.0), found[1])


def _outputs(
    runner: Runner, runs: int, seed: bytes, processes: int, tell: Progress | None
) -> list[tuple[Floats, Floats]]:
    """The values of each coordinate on both data sets."""
    parts = [
        part
        for which in (0, 1)
        for part in parts_of(which, runs, public_words(seed, 3, 1).tobytes(), hasattr(runner.mechanism, "many"))
    ]
    kept: tuple[list[Floats], list[Floats]] = ([], [])
    for done, (part, outputs) in enumerate(zip(parts, run_parts(runner, parts, processes), strict=True), 1):
        kept[part.which].append(outputs)
        if tell is not None:
            tell(done / len(parts))
    first, second = np.concatenate(kept[0]), np.concatenate(kept[1])
    return [(first[:, j], second[:, j]) for j in range(first.shape[1])]


def low_bits(pair: tuple[Floats, Floats]) -> float:
    """Whether the lowest bits have the same law on both data sets, in each binade."""
    return _alike(pair, lambda words: words & np.uint64((1 << _LOW) - 1))


def trailing_zeros(pair: tuple[Floats, Floats]) -> float:
    """Whether values end in as many zeros on both data sets, in each binade: where these differ, so do supports."""
    return _alike(pair, lambda words: np.bitwise_count((words & -words) - np.uint64(1)).astype(np.uint64))


def repeats(pair: tuple[Floats, Floats]) -> float:
    """Whether a value that occurs on one data set comes again on the other as often as on its own."""
    from scipy.special import ndtr

    _, place = np.unique(np.concatenate(pair), return_inverse=True)
    size = pair[0].size
    times = [np.bincount(half, minlength=int(place.max()) + 1) for half in (place[:size], place[size:])]
    both, apart = times[0] + times[1], times[0] - times[1]
    spread = float(np.sqrt((2.0 * both * (both - 1)).sum()))
    return float(ndtr(-float((apart**2 - both).sum()) / spread)) if spread else 1.0


_TESTS: dict[str, Callable[[tuple[Floats, Floats]], float]] = {
    "low bits": low_bits,
    "trailing zeros": trailing_zeros,
    "repeated values": repeats,
}


def _alike(pair: tuple[Floats, Floats], pattern: Callable[[Words], Words]) -> float:
    """p of the chi-square test that patterns have one law in each binade, whichever data set; rare ones together.

    How often a binade occurs may tell of the data, as much as noise of that size allows; its patterns may not.
    """
    from scipy.special import chdtrc

    words = np.concatenate(pair).view(np.uint64)
    binade, rest = words >> _MANTISSA, pattern(words) << np.uint64(1)
    _, place, times = np.unique(binade << _CODE | rest, return_inverse=True, return_counts=True)
    code = np.where(times[place] < _RARE, binade << _CODE | np.uint64(1), binade << _CODE | rest)
    cells, place = np.unique(code, return_inverse=True)
    size = pair[0].size
    table = np.stack([np.bincount(half, minlength=cells.size) for half in (place[:size], place[size:])])
    return float(chdtrc(*_statistic(table.astype(np.float64), cells >> _CODE)))


def _statistic(table: Floats, binades: Words) -> tuple[float, float]:
    """(degrees of freedom, chi-square) of two lines of counts, given how many of each lie in a binade."""
    _, place = np.unique(binades, return_inverse=True)
    lines = np.stack([np.bincount(place, weights=line) for line in table])
    used = (lines[:, place] > 0).all(axis=0) & (table.sum(axis=0) >= _RARE)
    expected = table.sum(axis=0) * (lines / lines.sum(axis=0))[:, place]
    square = float((((table - expected) ** 2)[:, used] / expected[:, used]).sum())
    freedom = int(used.sum()) - np.unique(place[used]).size
    return (float(freedom), square) if freedom else (1.0, 0.0)
