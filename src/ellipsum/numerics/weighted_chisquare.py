"""The distribution of a weighted sum of squared standard normals, sum_j a_j Z_j^2, and bounds on its tail.

The squared norm of a scaled normal row has this distribution, so the radius that clips a given share of the rows is
one of its quantiles. Values come from contour integrals through a saddle point [C1], which keep their
relative accuracy however small the probability is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..errors import Floats, UsageError, choice, floats, open_unit, positive, vector, yes_or_no
from .contour import Complexes, Path, Poles, Spectrum, saddle, trace
from .roots import root

Side = Literal["upper", "lower", "density"]
Bound = Literal["chernoff", "laurent_massart", "bernstein", "chebyshev"]

POLE = Poles((1.0,), (1.0,))
SIDES: dict[Side, tuple[Poles, float, float]] = {
    "upper": (POLE, 0.0, 1.0),
    "lower": (POLE, 1.0, math.inf),
    "density": (Poles(), 0.0, math.inf),
}
REACH = 1.0  # one path serves arguments within this many tilted standard deviations
DROPPED = 1e-290  # weights below this share of the largest are left out
FAR = 1e100
FLOOR = 1e-280  # below this share of the largest weight the lower tail is taken as a pure power


def _weights(weights: ArrayLike) -> Floats:
    array = vector("weights", weights)
    if array.min() < 0:
        raise UsageError("weights must be >= 0.")
    if not array.max() > 0:
        raise UsageError("At least one weight must be > 0.")
    return array


def _keep_weights(weights: Floats) -> Floats:
    least = DROPPED * float(weights.max())
    return weights if weights.min() > least else weights[weights > least]


class WeightedChiSquare:
    """Distribution of Y = sum_j a_j Z_j^2, Z_j independent standard normals.

    Parameters
    ----------
    weights : array-like
        The a_j >= 0, at least one above 0. Those below 1e-290 of the largest are dropped.

    Notes
    -----
    Relative accuracy 1e-10 of `sf`, `cdf` and `pdf`, in both tails, whatever the number of weights; `logsf` and
    `logcdf` continue where the probabilities underflow. Every method takes a number or an array. Proved in [C1]-[C4].

    References
    ----------
    Lugannani & Rice (1980) for the saddle point; Weideman & Trefethen (2007) for the contours.

    Examples
    --------
    >>> import ellipsum as es
    >>> law = es.WeightedChiSquare([1.0, 0.5, 0.25])
    >>> law.mean()
    1.75
    >>> round(law.sf(law.isf(1e-9)) * 1e9, 6)
    1.0
    """

    def __init__(self, weights: ArrayLike) -> None:
        self.weights = _weights(weights)
        self._spectrum = Spectrum(_keep_weights(self.weights))
        self._exact: Spectrum | None = None
        self._unit = 2.0 * self._spectrum.largest

    def __repr__(self) -> str:
        return f"WeightedChiSquare({self.weights.size} weights, mean {self.mean():.6g})"

    def mean(self) -> float:
        """E Y = sum a_j."""
        return float(self._spectrum.total * self._spectrum.largest)

    def var(self) -> float:
        """Var Y = 2 sum a_j^2."""
        ratios = self._spectrum.ratios
        return float(2.0 * (ratios @ ratios)) * self._spectrum.largest * self._spectrum.largest

    def logsf(self, x: ArrayLike) -> Any:
        """log P[Y > x]."""
        return _each(x, lambda values: self._two_sided(values, "upper"))

    def logcdf(self, x: ArrayLike) -> Any:
        """log P[Y <= x]."""
        return _each(x, lambda values: self._two_sided(values, "lower"))

    def sf(self, x: ArrayLike) -> Any:
        """P[Y > x]."""
        return _exp(self.logsf(x))

    def cdf(self, x: ArrayLike) -> Any:
        """P[Y <= x]."""
        return _exp(self.logcdf(x))

    def pdf(self, x: ArrayLike) -> Any:
        """Density at x; 0 for x < 0."""
        return _exp(_each(x, self._log_density))

    def isf(self, p: ArrayLike, *, log: bool = False) -> Any:
        """The x with P[Y > x] = p; with log=True the argument is log p."""
        logs = _log_probability("p", p, log)
        return _each(logs, lambda values: np.array([self._quantile(value, True) for value in values]))

    def ppf(self, q: ArrayLike, *, log: bool = False) -> Any:
        """The x with P[Y <= x] = q; with log=True the argument is log q."""
        logs = _log_probability("q", q, log)
        return _each(logs, lambda values: np.array([self._quantile(value, False) for value in values]))

    def conditional_moments(self, x: float) -> Floats:
        """E[Z_j^2 | Y = x] for every weight, in the order given; x > 0 [C5]."""
        place = positive("x", x) / self._unit
        if place > FAR:
            raise UsageError(f"x must be within 1e100 of the weights, got {x}.")
        level = max(place, FLOOR)
        path = self._path(np.array([level]), "density")
        values = path.steps * np.exp(path.logs + path.offsets * (path.point * level))
        moments = path.three_degrees(self.weights / self._spectrum.largest, values) / float(values.imag.sum())
        return moments * (place / level)  # a total below the floor is shared out in proportion

    # The rest works on sorted arrays of positive levels x / (2 max a).

    def _serving(self, point: float) -> Spectrum:
        if self._spectrum.fits(point):
            return self._spectrum
        if self._exact is None:
            self._exact = self._spectrum.exact()
        return self._exact

    def _path(self, levels: Floats, side: Side) -> Path:
        """A path that serves all these (close) levels."""
        middle = float(0.5 * (levels[0] + levels[-1]))
        poles, low, high = SIDES[side]
        point = saddle(self._spectrum, middle, poles, low, high)
        pole = 0.0 if side == "density" else point / (1.0 - point)
        ends = point * np.array([levels[0], levels[-1]])

        def integrand(offsets: Complexes, logs: Complexes) -> Complexes:
            return np.exp(logs + np.multiply.outer(ends, offsets)) / (1.0 - pole * offsets)

        return trace(self._serving(point), point, poles, low, high, integrand)

    def _log_tail(self, x: Floats, side: Side) -> Floats:
        """log of the tail probability on one side, or of the density, for sorted x > 0."""
        levels = x / self._unit
        raised = np.clip(levels, FLOOR, FAR)
        power = 0.5 * self._spectrum.size - (1.0 if side == "density" else 0.0)
        out = np.empty_like(levels)
        start = 0
        while start < levels.size:
            point = saddle(self._spectrum, float(raised[start]), *SIDES[side])
            reach = raised[start] + REACH * math.sqrt(self._spectrum.tilts(point)[1]) / point
            stop = max(start + 1, int(np.searchsorted(raised, reach, side="right")))
            window = raised[start:stop]
            out[start:stop] = log_integral(self._path(window, side), window, side)
            start = stop
        beyond = np.maximum(levels - FAR, 0.0)  # there the logarithm is the level, to all digits
        return out + power * np.log(np.minimum(levels / raised, 1.0)) - beyond

    def _two_sided(self, x: Floats, result: Side) -> Floats:
        """log P[Y > x] or log P[Y <= x]: each side of the mean from its own saddle, the other by complement."""
        sides: tuple[Side, Side] = ("lower", "upper")
        out = np.full(x.shape, np.nan)
        out[x <= 0] = 0.0 if result == "upper" else -np.inf
        out[x == np.inf] = -np.inf if result == "upper" else 0.0
        inside, above = (x > 0) & (x < np.inf), x >= self.mean()
        for side, chosen in zip(sides, (inside & ~above, inside & above), strict=True):
            if chosen.any():
                logs = self._log_tail(x[chosen], side)
                out[chosen] = logs if side == result else np.log1p(-np.exp(np.minimum(logs, 0.0)))
        return out

    def _log_density(self, x: Floats) -> Floats:
        out = np.full(x.shape, np.nan)
        out[(x < 0) | (x == np.inf)] = -np.inf
        out[x == 0] = self._log_density_at_zero()
        inside = (x > 0) & (x < np.inf)
        if inside.any():
            out[inside] = self._log_tail(x[inside], "density") - math.log(self._unit)
        return out

    def _log_density_at_zero(self) -> float:
        """One weight: infinite; two: 1/(2 sqrt(a_1 a_2)); more: zero."""
        if self._spectrum.size == 2:
            return -math.log(self._unit) - 0.5 * math.log(self._spectrum.ratios[0])
        return math.inf if self._spectrum.size == 1 else -math.inf

    def _quantile(self, log_p: float, upper: bool) -> float:
        """x with log tail = log_p: a saddlepoint guess, then Newton on one path [C4]."""
        if log_p == 0.0 or log_p == -math.inf:
            return math.inf if (log_p == 0.0) != upper else 0.0
        other = math.log(-math.expm1(log_p))
        log_upper, log_lower = (log_p, other) if upper else (other, log_p)
        level = _guess(self._spectrum, log_upper, log_lower)
        if level <= FLOOR:
            gap = log_lower - float(self._log_tail(np.array([FLOOR * self._unit]), "lower")[0])
            return FLOOR * self._unit * math.exp(min(0.0, 2.0 * gap / self._spectrum.size))
        for _ in range(20):
            side: Side = "upper" if level >= 0.5 * self._spectrum.total else "lower"
            target = log_upper if side == "upper" else log_lower
            path = self._path(np.array([level]), side)
            width = math.sqrt(path.spectrum.tilts(path.point)[1]) / path.point
            next_level = _newton(path, level, side, target, width)
            moved = abs(next_level - level)
            level = next_level
            if moved <= 0.5 * width:
                break
        return level * self._unit


def log_integral(path: Path, levels: Floats, side: Side) -> Floats:
    """log of (1/(2 pi i)) times the integral of e^(K - s x), over |1 - t| for a tail, at each level [C1]."""
    point = path.point
    values = np.exp(path.logs + np.multiply.outer(levels * point, path.offsets)) * (point * path.steps)
    if side != "density":
        values /= abs(1.0 - point) * (1.0 - path.offsets * (point / (1.0 - point)))
    base, anchor = path.spectrum.height(point)
    return np.asarray(base + (point - 1.0) * (levels - anchor) + np.log(values.imag.sum(axis=-1) / math.pi))


def _guess(spectrum: Spectrum, log_upper: float, log_lower: float) -> float:
    """Level whose tail is about right: the modified signed root r* = r + log(q/r)/r is nearly normal."""
    z = float(special.ndtri_exp(log_lower) if log_lower < log_upper else -special.ndtri_exp(log_upper))
    y = -math.asinh(z / math.sqrt(spectrum.tilts(1.0)[1]))
    for _ in range(60):
        point = math.exp(y)
        first, curve, _ = spectrum.tilts(point)
        height = spectrum.log_height(point, first / point)
        root = math.copysign(math.sqrt(max(0.0, -2.0 * height)), 1.0 - point)
        wald = (1.0 - point) / point * math.sqrt(curve)
        if abs(root) < 1e-3:
            y -= 2e-3 / math.sqrt(curve)
            continue
        move = (root + math.log(wald / root) / root - z) * root / (wald * math.sqrt(curve))
        limit = max(2.0, abs(y))
        y = min(y + max(-limit, min(limit, move)), 650.0)
        if abs(move) * math.sqrt(curve) < 0.02 or y == 650.0:
            break
    point = math.exp(y)
    return spectrum.tilts(point)[0] / point


def _newton(path: Path, level: float, side: Side, target: float, width: float) -> float:
    """Newton on the log of the tail along one path; stops early when the argument leaves the path's reach."""
    start, point = level, path.point
    base, anchor = path.spectrum.height(point)
    pole = abs(1.0 - point) * (1.0 - path.offsets * (point / (1.0 - point)))
    for _ in range(50):
        values = np.exp(path.logs + (level * point) * path.offsets) * (point * path.steps)
        density, tail = float(values.imag.sum()), float((values / pole).imag.sum())
        log_tail = base + (point - 1.0) * (level - anchor) + math.log(tail / math.pi)
        move = (target - log_tail) * tail / density
        # the lower tail is nearly a power of the level, the upper nearly an exponential
        if side == "lower":
            level *= math.exp(max(-50.0, min(50.0, move / level)))
        else:
            level = max(level - move, 0.1 * level)
        if abs(move) <= 1e-14 * level or abs(level - start) > width:
            break
    return level


def _each(x: ArrayLike, evaluate: Callable[[Floats], Floats]) -> Any:
    """Apply a function of sorted values to a number or an array of any shape."""
    array = floats("x", x)
    flat = array.ravel()
    order = np.argsort(flat, kind="stable")
    out = np.empty_like(flat)
    out[order] = evaluate(flat[order])
    return float(out[0]) if array.ndim == 0 else out.reshape(array.shape)


def _exp(logs: Any) -> Any:
    values = np.exp(logs)
    return float(values) if np.ndim(logs) == 0 else values


def _log_probability(name: str, p: ArrayLike, log: bool) -> NDArray[np.float64]:
    array = floats(name, p)
    if yes_or_no("log", log):
        if not (array <= 0).all():
            raise UsageError(f"{name} must be <= 0 with log=True: it is the logarithm of a probability.")
        return array
    if not ((array >= 0) & (array <= 1)).all():
        raise UsageError(f"{name} must be between 0 and 1: it is a probability.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(array))


def tail_bound(weights: ArrayLike, p: float, kind: Bound = "chernoff") -> float:
    """Compute a closed-form upper bound on the (1 - p) quantile of sum_j a_j Z_j^2.

    Parameters
    ----------
    weights : array-like
        The a_j >= 0.
    p : float
        Upper tail probability, in (0, 1).
    kind : {"chernoff", "laurent_massart", "bernstein", "chebyshev"}, default "chernoff"
        The bound; with L = ln(1/p), S1 = sum a, S2 = sum a^2, m = max a:
        min over 0 < s < 1/(2m) of (L - 1/2 sum log(1 - 2 a s)) / s;
        S1 + 2 sqrt(L S2) + 2 m L;
        S1 + sqrt(8 L S2), which is a bound for L <= S2 / (18 m^2) only;
        S1 + sqrt(2 S2 (1/p - 1)), from the variance alone.

    Returns
    -------
    float
        An upper bound on the quantile.

    Raises
    ------
    UsageError
        If an argument is outside its range, or the Bernstein bound does not hold.

    Notes
    -----
    Proved in [C7].

    References
    ----------
    Laurent & Massart (2000), Lemma 1; Boucheron, Lugosi & Massart (2013), section 2.2 (Chernoff).

    Examples
    --------
    >>> import ellipsum as es
    >>> es.tail_bound([1.0, 0.5], 1e-3) > es.WeightedChiSquare([1.0, 0.5]).isf(1e-3)
    True
    """
    choice("kind", kind, ("chernoff", "laurent_massart", "bernstein", "chebyshev"))
    share = open_unit("p", p)
    array = _weights(weights)
    log_odds = -math.log(share)
    largest = float(array.max())
    ratios = array / largest
    total, squares = float(ratios.sum()), float(ratios @ ratios)
    if kind == "laurent_massart":
        return largest * (total + 2.0 * math.sqrt(log_odds * squares) + 2.0 * log_odds)
    if kind == "chebyshev":
        return largest * (total + math.sqrt(2.0 * squares * (1.0 / share - 1.0)))
    if kind == "bernstein":
        if log_odds > squares / 18.0:
            raise UsageError(
                f"kind='bernstein' holds only for ln(1/p) <= sum a^2 / (18 max a^2) = {squares / 18.0:.6g}, "
                f"got ln(1/p) = {log_odds:.6g}. Use 'chernoff' or 'laurent_massart'."
            )
        return largest * (total + math.sqrt(8.0 * log_odds * squares))
    return _chernoff(Spectrum(_keep_weights(array)), log_odds)


def _chernoff(spectrum: Spectrum, log_odds: float) -> float:
    """min over s of (K(s) + L)/s, where s K'(s) - K(s) = L; any s gives a bound, so its rounding is harmless."""

    def gap(y: float) -> float:
        point = 1.0 / (1.0 + math.exp(-y))  # t = 1 - 2 s max a: s grows as y falls
        return -spectrum.log_height(point, spectrum.tilts(point)[0] / point) - log_odds

    low, high = -1.0, 1.0
    while gap(low) < 0:
        low *= 2.0
    while gap(high) > 0 and high < 32.0:
        high *= 2.0
    s = 1.0 / (1.0 + math.exp(root(gap, low, high, 1e-12) if gap(high) < 0 else high))
    return 2.0 * spectrum.largest * (spectrum.log_height(1.0 - s, 0.0) + log_odds) / s
