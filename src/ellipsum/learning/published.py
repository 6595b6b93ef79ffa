"""Published methods by name, each as a sequence of rounds with its paper's constants; the release is the last round.

"coinpress": Biswas, Dong, Kamath & Ullman 2020, CoinPress: Practical Private Mean and Covariance Estimation.
"instance_optimal": Huang, Liang & Yi 2021, Instance-optimal Mean Estimation Under Differential Privacy.
"variance_aware": Aumüller, Lebeda, Nelson & Pagh 2023, PLAN: Variance-Aware Private Mean Estimation.
"friendly_core": Tsfadia, Cohen, Kaplan, Mansour & Stemmer 2022, FriendlyCore, as the start of the default method.
Departures from the papers are in docs/proofs/published.md. Assumptions about the data affect accuracy only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, choice, floats, open_unit, vector, whole
from ..friendly.calls import some_rows
from ..friendly.plan import require_replace
from ..friendly.release import FriendlyRelease, friendly_center
from ..noise import public_normals
from ..privacy.budget import Budget
from ..regions.ellipsoid import Ellipsoid, length
from ..row_maps.histograms import SecondMoments, Sides
from ..rows import LearnedRows
from .ball import clip_about, count_norms, find_vectors, learn_bounds
from .columns import PASSES, find_columns
from .constants import LEAST_SHARE, MOST_PASSES
from .rounds import Region, Rounds

_MOST_STEPS = 1000


def read_options(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a method, defaults included; an error for a name or an option that there is not."""
    _, defaults = METHODS[choice("method", method, tuple(METHODS))]
    unknown = [name for name in options if name not in defaults]
    if unknown:
        raise UsageError(f"method={method!r} takes {', '.join(defaults) or 'no options'}, got {', '.join(unknown)}.")
    read = {**defaults, **options}
    return {**read, "steps": whole("steps", read["steps"], most=_MOST_STEPS)} if "steps" in read else read


def learn(rounds: Rounds, method: str, options: Mapping[str, Any]) -> Region:
    """The region that a method learns."""
    return METHODS[method][0](rounds, **read_options(method, options))


def passes(method: str, options: Mapping[str, Any], is_box: bool) -> int:
    """The most passes over the rows, the release included."""
    read = read_options(method, options)
    steps = int(read.get("steps", 0))
    if method == "coinpress":
        return steps if read["std"] is not None else 1 + 2 * steps
    if method in ("instance_optimal", "variance_aware"):
        return (2 if method == "instance_optimal" else 3) * steps + 1
    return PASSES if is_box else MOST_PASSES + 2 * (method == "friendly_core")


def required_slack(method: str, budget: Budget, neighbors: str) -> float:
    """The failure probability that a method needs beside mu."""
    if method != "friendly_core":
        return 0.0
    require_replace(neighbors)
    delta = dict(budget.stated).get("delta")
    if not delta:
        raise UsageError("method='friendly_core' needs a failure probability. Pass the budget as epsilon= and delta=.")
    return _FRIENDLY_SLACK * delta


def _region(rounds: Rounds, region: Ellipsoid, off_center: Floats) -> Region:
    """The region that clips rows to an ellipsoid; off_center: about how far the mean is from its center."""
    clip = LearnedRows(region.center, region.scale, off_center, region.axes, columns=rounds.source.columns)
    return replace(rounds.whole_range(), clip=clip, measures_bias=False)


def _ball_about(center: Floats, radius: float) -> Ellipsoid:
    return Ellipsoid(center, np.full(center.size, 1 / radius))


# CoinPress ------------------------------------------------------------------------------------------------

_LAST_SHARE = Fraction(3, 4)
_COARSE_SHARE, _COVARIANCE_SHARE = Fraction(1, 16), Fraction(3, 16)
_MEAN_FAILURE, _COVARIANCE_FAILURE = 0.01, 0.1
_CROSS = 6.0  # the authors' practical constant in region of 2 sqrt(2 ln(2 / failure))
_THINNEST = 1e-13  # An eigenvalue below this share of the largest one is a rounding error.


def coinpress(rounds: Rounds, steps: int, std: Any) -> Region:
    """The mean by `steps` clipped means, each in a ball that the previous one gives; the last is the release [L22].

    With gamma^2 = d + 2 sqrt(d L) + 2 L, L = ln 100, in units where the covariance is at most the identity:
        clip radius  min(sqrt(r^2 + 6 r + gamma^2), r + gamma)
        next radius  gamma sqrt(1/n + noise variance)
    three quarters of the budget for the last step, the rest evenly; the first ball has radius magnitude sqrt(d).

    std: a public bound on each standard deviation, one number or one per column. Without it a coarse center and the
    covariance are estimated first, for a quarter of the budget, and the rows are whitened.
    """
    d, left = rounds.d, rounds.left
    largest = float(rounds.magnitude.max())
    if std is not None:
        stds = floats("std", std)
        stds = vector("std", np.broadcast_to(stds, d) if stds.ndim == 0 else stds, d)
        if not (stds > 0).all():
            raise UsageError("std must be > 0. It bounds the standard deviation of each column.")
        white, radius = Ellipsoid(np.zeros(d), 1 / stds), length(largest / stds)
    else:
        wide = _ball_about(np.zeros(d), largest)
        coarse, _ = _clipped_mean(rounds, "coarse center", wide, math.sqrt(d), left * _COARSE_SHARE)
        white = _whitened(rounds, replace(wide, center=coarse), steps, left * _COVARIANCE_SHARE)
        radius, left = 1.0, rounds.left  # (mean - center)(mean - center)^T is at most the second moment
    gamma = _normal_length(d, _MEAN_FAILURE)
    for step in range(steps - 1):
        share = left * (1 - _LAST_SHARE) / (steps - 1)
        center, noise = _clipped_mean(rounds, f"mean {step + 1}", white, radius, share)
        white, radius = replace(white, center=center), gamma * math.hypot(1 / math.sqrt(rounds.n), noise)
    region = replace(white, scale=white.scale / _clip_radius(radius, d))
    return _region(rounds, region, radius / gamma * white.reach)


def _clipped_mean(rounds: Rounds, name: str, white: Ellipsoid, radius: float, share: Fraction) -> tuple[Floats, float]:
    """The new center, and the standard deviation of its noise in the whitened space."""
    clip = _clip_radius(radius, rounds.d)
    region = replace(white, scale=white.scale / clip)
    noisy = rounds.sum(name, rounds.clip(region), share)
    return white.center + region.restore(noisy.values / rounds.n), clip * noisy.std / rounds.n


def _clip_radius(radius: float, d: int) -> float:
    """A radius that holds nearly all rows if the mean is within `radius` and the covariance is at most the identity."""
    gamma = _normal_length(d, _MEAN_FAILURE)
    return min(math.hypot(radius, math.sqrt(_CROSS * radius), gamma), radius + gamma)


def _normal_length(d: int, failure: float) -> float:
    """Laurent-Massart: a standard normal vector is longer with probability at most `failure`."""
    log_odds = math.log(1 / failure)
    return math.sqrt(d + 2 * math.sqrt(d * log_odds) + 2 * log_odds)


def _whitened(rounds: Rounds, white: Ellipsoid, steps: int, share: Fraction) -> Ellipsoid:
    """The map under which the second moments about the center are at most the identity, by steps [L23].

    Each: Z the noisy mean of y y^T, y clipped to gamma, made positive semidefinite; U = min(Z + margin, I); B <-
    U^(-1/2) B. Nothing is measured if the margin, which follows from public numbers, is 1 or more: U would be I.
    """
    d, gamma = rounds.d, _normal_length(rounds.d, _COVARIANCE_FAILURE)
    shortfall = math.sqrt(d / rounds.n) + math.sqrt(2 * math.log(2 / _COVARIANCE_FAILURE) / rounds.n)
    row_map = SecondMoments(replace(white, scale=white.scale / gamma))
    noise = row_map.diagonal_std(rounds.std(row_map, share / steps)) * gamma**2 / rounds.n
    spectral = noise * row_map.factors[0] / row_map.factors[1]  # of the noise beside the diagonal
    spectral *= 2 * math.sqrt(d) + 2 * math.sqrt(math.log(1 / _COVARIANCE_FAILURE))
    margin = 2 * shortfall + shortfall**2 + spectral
    for step in range(steps if margin < 1 else 0):
        row_map = SecondMoments(replace(white, scale=white.scale / gamma))
        noisy = rounds.sum(f"covariance {step + 1}", row_map, share / steps)
        values, axes = np.linalg.eigh(row_map.matrix(noisy.values) * (gamma**2 / rounds.n))
        bound = (axes * np.minimum(np.maximum(values, 0.0) + margin, 1.0)) @ axes.T
        largest = float(white.unscale.max())
        back = (np.eye(d) if white.axes is None else white.axes) * (white.unscale / largest)
        variances, directions = np.linalg.eigh(back @ bound @ back.T)
        thick = np.maximum(variances, _THINNEST * variances[-1])
        white = Ellipsoid(white.center, 1 / np.sqrt(thick) / largest, directions)
    return white


# Instance-optimal -----------------------------------------------------------------------------------------

_MEDIAN_SHARE = Fraction(1, 4)
_MOST_TURNED = 1 << 12  # columns that are turned: a matrix of 2^24 entries


def instance_optimal(rounds: Rounds, steps: int, clip_share: float) -> Region:
    """The mean of rows clipped about a median taken in a public random rotation [L24].

    1. Q, a randomized Hadamard rotation, makes every coordinate alike: |(Q x)_j| is below
       magnitude sqrt(d / D) sqrt(2 ln(4 D)) with high probability, D the padded width.
    2. Medians of Q x by `steps` noisy bisections, turned back: a quarter of the budget.
    3. Clip radius at rank n - 4 sqrt(D)/mu_last - 2 sqrt(steps)/mu_radius of the distances (at least n/2), bisected
       with `clip_share` of what is left; the rest is for the release. Lengths do not change under Q.
    """
    d, left = rounds.d, rounds.left
    part = Fraction(open_unit("clip_share", clip_share))
    turned = rotation(d, rounds.session.seed())
    size, magnitude = turned.width, float(rounds.magnitude.max())
    reach = magnitude * math.sqrt(d / size * 2 * math.log(4 * size))
    middles = quantiles(rounds, "median", turned, "values", (-reach, reach), steps, left * _MEDIAN_SHARE)
    center = turned.restore(middles)
    rest = left * (1 - _MEDIAN_SHARE)
    missed = 4 * math.sqrt(size / (rest * (1 - part))) + 2 * math.sqrt(steps / (rest * part))
    rank = max(1 - missed / rounds.privacy.mu / rounds.n, 0.5)
    radius = norm_quantile(rounds, _ball_about(center, 1.0), rank, 2 * math.sqrt(size) * reach, steps, rest * part)
    return _region(rounds, _ball_about(center, radius), np.full(d, radius / math.sqrt(d)))


def rotation(d: int, seed: bytes) -> Ellipsoid:
    """Q = H D / sqrt(size) of d columns: a Hadamard matrix and public random signs, drawn apart from the data [L20]."""
    from scipy.linalg import hadamard

    size = 1 << (d - 1).bit_length()
    if size > _MOST_TURNED:
        raise UsageError(f"method='instance_optimal' turns at most {_MOST_TURNED} columns, got {d}.")
    signs = np.where(public_normals(seed, d) < 0, -1.0, 1.0)
    return Ellipsoid(np.zeros(d), np.ones(size), (hadamard(size)[:, :d] * signs).T / math.sqrt(size))


# PLAN -----------------------------------------------------------------------------------------------------

_FIRST_SHARE = Fraction(1, 4)  # for centers and spreads: one part to three
_RADIUS_SHARE = Fraction(1, 4)  # of the rest
_PLAN_FAILURE = 0.1
_STD_PER_MEDIAN = 1.482602218505602  # of a normal distribution: 1 / (its 3/4 quantile)


def variance_aware(rounds: Rounds, steps: int) -> Region:
    """The mean clipped in a space where coordinate j is divided by about the square root of its spread [L25].

    1. Medians by `steps` noisy bisections. 2. Spreads s_j from the medians of |x_j - c_j|.
    3. y_j = (x_j - c_j) / sqrt(s_j + mean s): noise variance in proportion to the spread, held away from zero.
    4. Clip radius at rank n - sqrt(n) - sqrt(T ln(T / 0.1)) / mu_radius of ‖y‖, T = steps.
    """
    left, n, d = rounds.left, rounds.n, rounds.d
    magnitude = float(rounds.magnitude.max())
    first, rest = left * _FIRST_SHARE, left * (1 - _FIRST_SHARE)
    units = _ball_about(np.zeros(d), magnitude)
    center = magnitude * quantiles(rounds, "center", units, "values", (-1.0, 1.0), steps, first / 4)
    units = replace(units, center=center)
    std = _STD_PER_MEDIAN * quantiles(rounds, "spread", units, "sizes", (0.0, 2.0), steps, first * 3 / 4)
    shape = Ellipsoid(center, 1 / np.sqrt(2 * std + float(np.mean(2 * std))) / magnitude)
    radius_mu = math.sqrt(rest * _RADIUS_SHARE) * rounds.privacy.mu
    missed = math.sqrt(n) + math.sqrt(steps * math.log(steps / _PLAN_FAILURE)) / radius_mu
    upper = math.sqrt(max(math.log(d), 1.0) * math.log(1 / _PLAN_FAILURE) * float(std.sum()))
    radius = norm_quantile(rounds, shape, max(1 - missed / n, 0.5), upper, steps, rest * _RADIUS_SHARE)
    return _region(rounds, replace(shape, scale=shape.scale / radius), std * magnitude)


# Quantiles by noisy bisection (Huang, Liang and Yi 2021) ----------------------------------------------------

_SMALLEST = 2.0**-180  # of the range of a norm


def quantiles(
    rounds: Rounds,
    name: str,
    shape: Ellipsoid,
    measure: str,
    ends: tuple[float, float],
    steps: int,
    share: Fraction,
    fraction: float = 0.5,
) -> Floats:
    """Quantiles of the entries of y = B (x - c), of their sizes, or of the norm of y, which lie between the ends.

    Guarantee [L21]: `steps` rounds of share / steps each; a middle depends on earlier rounds alone.
    """
    low, high = (np.full(1 if measure == "norm" else shape.width, end) for end in ends)
    for step in range(steps):
        middle = low + (high - low) / 2
        row_map = Sides(shape, middle, fraction, measure)
        is_beyond = rounds.sum(f"{name} {step + 1}", row_map, share / steps).values > 0
        low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
    return np.asarray(low + (high - low) / 2)


def norm_quantile(
    rounds: Rounds, shape: Ellipsoid, fraction: float, upper: float, steps: int, share: Fraction
) -> float:
    """A quantile of ‖B (x - c)‖ in (0, upper] [L21]."""
    unit = replace(shape, scale=shape.scale / upper)
    quantile = float(quantiles(rounds, "radius", unit, "norm", (0.0, 1.0), steps, share, fraction)[0])
    return upper * max(quantile, _SMALLEST)


# FriendlyCore ---------------------------------------------------------------------------------------------

_FRIENDLY_SHARE = 0.2
_FRIENDLY_SLACK = 0.1  # of delta, for the stability test
_SEARCH_OCTAVES = 40


def friendly_core(rounds: Rounds) -> Region:
    """Start from a friendly average of rows that agree; then use the default method about it.

    Columns with units of their own are located and clamped first. If no center is found, the default method finds
    vectors with the rest of the budget. The stability test needs a failure probability, a part of delta [L26].
    """
    region = rounds.whole_range()
    if rounds.has_units:
        region = find_columns(rounds)
    spend = rounds.charge("friendly center", _FRIENDLY_SHARE, rounds.d, rounds.privacy.slack)
    rows, ellipsoid = some_rows(rounds.session, None).read(), region.ellipsoid()
    rows = np.clip(np.where(np.isfinite(rows), rows, region.center), region.lower, region.upper) - region.center
    widest = 2 * length(ellipsoid.scale * (region.upper - region.lower))
    search = math.ldexp(widest, -_SEARCH_OCTAVES), widest
    average = friendly_center(rows * ellipsoid.scale, search, mu=spend.mu, slack=spend.slack, stream=rounds.stream())
    if isinstance(average, FriendlyRelease):
        region.move(average.value)
        if not rounds.has_units:
            region.radius = count_norms(rounds, region, region.ellipsoid(), LEAST_SHARE)[0].quantile(0.5)
    elif not rounds.has_units:
        region = find_vectors(rounds)
    return clip_about(rounds, region)


METHODS: dict[str, tuple[Callable[..., Region], dict[str, Any]]] = {
    "auto": (learn_bounds, {}),
    "coinpress": (coinpress, {"steps": 4, "std": None}),
    "instance_optimal": (instance_optimal, {"steps": 10, "clip_share": 0.25}),
    "variance_aware": (variance_aware, {"steps": 20}),
    "friendly_core": (friendly_core, {}),
}
"""Every method, with its options and their defaults."""
