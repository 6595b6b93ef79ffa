"""The bits of outputs: whether the set of numbers, or their low bits, differ between two data sets.

Noise that is computed in doubles leaves a trace of the value that it was added to: some numbers occur for one data set
only. Three tests look for such numbers, each at a share of the level [A5].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...display.document import Document
from ...display.result import Printed
from ...errors import Floats, open_unit
from ...request.documentation import public
from ...session import Progress
from ...sources.protocol import report_steps
from .runs import Mechanism, Pair, PairRuns

Words = NDArray[np.uint64]
_STAGE = 3  # The seeds of this stage differ from those of the stages of `audit`.
_LOW = 8  # The number of bits in a pattern.
_RARE = 20  # Patterns with fewer values are combined, or left out.
_MANTISSA, _CODE = np.uint64(52), np.uint64(16)


@dataclass(frozen=True, repr=False)
class BitsAudit(Printed):
    """Whether the bits of a mechanism's outputs tell two data sets apart.

    Attributes
    ----------
    found : bool
        Whether the bits differ between the two data sets, at the confidence.
    p_value : float
        Of the strongest test, corrected for the number of tests; small where the bits leak.
    trace : str
        The test that tells the data sets apart best: "low bits", "trailing zeros" or "repeated values".
    runs : int
        Runs on each data set.
    confidence : float
        A trace is reported by chance with probability at most ``1 - confidence``.

    Notes
    -----
    Proof: [A5].

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> def rounded(data, rng):
    ...     return np.round(data.sum() + rng.normal(), 3)
    >>> es.audit_bits(rounded, (np.zeros(3), np.array([0, 0, 0.0005])), runs=2000).found
    False
    """

    runs: int
    confidence: float
    p_value: float
    trace: str

    @property
    def found(self) -> bool:
        """Whether the bits of the outputs differ between the two data sets, at the confidence."""
        return self.p_value < 1 - self.confidence

    def document(self, most: int | None = None) -> Document:
        verdict = f"traces of the data ({self.trace})" if self.found else "no trace of the data"
        facts = [("Runs", f"{self.runs:,} on each data set"), ("p-value", f"{self.p_value:.3g}")]
        return Document(f"BitsAudit: {verdict} in the bits of the outputs", [], facts)


@public
def audit_bits(
    mechanism: Mechanism,
    pair: Pair,
    *,
    runs: int,
    confidence: float = 0.999999,
    processes: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> BitsAudit:
    """Test whether the floating-point bits of a mechanism's outputs leak the data.

    The two data sets should give values so close together that the noise hides the difference. Outputs that are
    rounded with care then have the same bits for both; those of noise added in floating point do not.

    Parameters
    ----------
    mechanism : callable
        As in `ellipsum.audit`.
    pair : tuple
        Two neighboring data sets.
    runs : int
        Runs on each data set, at least 100.
    confidence : float, default 0.999999
        A trace is reported by chance with probability at most ``1 - confidence``.
    processes : int, optional
        Processes to use.
    rng : numpy.random.Generator, optional
        Makes the test repeatable.

    Returns
    -------
    BitsAudit
        Whether a trace was found, and which.

    Raises
    ------
    UsageError
        If an argument is invalid, or the mechanism fails on both data sets.

    Notes
    -----
    Proof: [A5].

    Examples
    --------
    >>> import numpy as np, ellipsum as es
    >>> def naive(data, rng):
    ...     return data + rng.normal()
    >>> es.audit_bits(naive, (0.3, 0.31), runs=40_000).found
    True
    """
    confidence = open_unit("confidence", confidence)
    work = PairRuns.of(mechanism, pair, runs, processes, rng)
    with report_steps(progress, public=True) as work.report:
        first, second = work.collect(_STAGE, runs)
    columns = list(zip(first.T, second.T, strict=True))
    p_value, trace = min(((test(both), name) for name, test in _TESTS.items() for both in columns), key=lambda f: f[0])
    return BitsAudit(runs, confidence, min(p_value * len(_TESTS) * len(columns), 1.0), trace)


def low_bits(pair: tuple[Floats, Floats]) -> float:
    """Whether the lowest bits have the same distribution on both data sets, in each binade."""
    return _alike(pair, lambda words: words & np.uint64((1 << _LOW) - 1))


def trailing_zeros(pair: tuple[Floats, Floats]) -> float:
    """Whether the number of trailing zeros has the same distribution on both data sets, in each binade."""
    return _alike(pair, lambda words: np.bitwise_count((words & -words) - np.uint64(1)).astype(np.uint64))


def repeats(pair: tuple[Floats, Floats]) -> float:
    """Whether values repeat across the data sets as often as within them."""
    from scipy.special import ndtr

    _, place = np.unique(np.concatenate(pair), return_inverse=True)
    size = pair[0].size
    times = [np.bincount(half, minlength=int(place.max()) + 1) for half in (place[:size], place[size:])]
    both, apart = times[0] + times[1], times[0] - times[1]
    std = float(np.sqrt((2.0 * both * (both - 1)).sum()))
    return float(ndtr(-float((apart**2 - both).sum()) / std)) if std else 1.0


_TESTS: dict[str, Callable[[tuple[Floats, Floats]], float]] = {
    "low bits": low_bits,
    "trailing zeros": trailing_zeros,
    "repeated values": repeats,
}


def _alike(pair: tuple[Floats, Floats], pattern: Callable[[Words], Words]) -> float:
    """The p-value of a chi-square test that patterns have the same distribution in each binade.

    Rare patterns are combined. Only the frequency of a binade may depend on the data, within the privacy guarantee.
    """
    from scipy.special import chdtrc

    bits = np.concatenate(pair).view(np.uint64)
    binade, rest = bits >> _MANTISSA, pattern(bits) << np.uint64(1)
    _, place, times = np.unique(binade << _CODE | rest, return_inverse=True, return_counts=True)
    code = np.where(times[place] < _RARE, binade << _CODE | np.uint64(1), binade << _CODE | rest)
    cells, place = np.unique(code, return_inverse=True)
    size = pair[0].size
    table = np.stack([np.bincount(half, minlength=cells.size) for half in (place[:size], place[size:])])
    return float(chdtrc(*_statistic(table.astype(np.float64), cells >> _CODE)))


def _statistic(table: Floats, binades: Words) -> tuple[float, float]:
    """(degrees of freedom, chi-square) of two lines of counts, given the totals in each binade."""
    _, place = np.unique(binades, return_inverse=True)
    lines = np.stack([np.bincount(place, weights=line) for line in table])
    used = (lines[:, place] > 0).all(axis=0) & (table.sum(axis=0) >= _RARE)
    expected = table.sum(axis=0) * (lines / lines.sum(axis=0))[:, place]
    square = float((((table - expected) ** 2)[:, used] / expected[:, used]).sum())
    freedom = int(used.sum()) - np.unique(place[used]).size
    return (float(freedom), square) if freedom else (1.0, 0.0)
