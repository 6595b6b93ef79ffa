"""method="auto": center, scales, axes and radius, each from a small private round; the rest is for the last one.

Every decision depends on noisy results and public numbers alone. Rounds: *columns* (where columns have units of their
own, or where it is cheap: each one's place, or with small budgets its size alone); *locate* (a clipped mean in a ball,
the ball from a histogram of norms, until it stops shrinking); *scales* (clipped absolute values along the axes) with
*recentering* in between; *rotation* (second moments, where a cheap probe says that it pays); *settle* (norms under
several shapes at once: the one that forecasts least error); *shell* (what the best radius would lose, measured).
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import Floats
from ..regions.ellipsoid import length
from ..rows import NormLaw
from . import box
from .axes import Turns
from .columns import search, sizes
from .last import absolute_std, last_round
from .measure import Measure
from .methods import Final
from .norm_law import fit_norm_law
from .rounds import Rounds
from .schedule import RESOLUTION, Shares
from .settle import settle_shape
from .state import DOUBT, Shape, State, choose_radius, clip_effects

_FEW_COLUMNS = 160  # up to here axes cost little beside other rounds, however many rows there are
_MOST_COLUMNS, _MOST_WORK = 1024, 2.0**35  # products that turning all rows once may take
_MOST_OCTAVES = 30.0
_ABOUT_ONE = 2.0 ** np.arange(-6.0, 8.1, 0.25)
_NEAR_ONE, _ASTRAY = 2.0 ** np.arange(-4.0, 3.1, 0.25), 4.0  # norms in units of sizes; those of rows elsewhere
_MOST_SCALES = 5  # rounds of scales, those that axes ask for included
_MOST_UNITS = 8  # steps in which the spreads of columns in very different units are found
_TOLD_APART, _BESIDE, _ALIKE = 30, 0.6, 1.5  # columns; part of how much norms of normal rows differ; the most
_MOST_AGAIN = 2  # rounds for a center beside the rows; those that lie on a sphere look so, too
_SETTLED = 0.4  # of a spread: where the center is off by more, the spread may be nothing but that
_BESIDE_FAR = 0.05  # of what far rows move the mean by, squared: a center that is off by more is measured once more
_FAR_OFF = 2.0  # median norm, in units of the spread, above which the center is looked for again


def prepare(rounds: Rounds, magnitude: float | Floats) -> Final:
    """Learn where and how to clip; the last round is left to the caller."""
    measure = Measure(rounds, magnitude)
    shares = Shares.of(rounds.noise_rows, rounds.d, rounds.pure)
    if rounds.purpose == "later":
        shares = shares.for_later()
    if rounds.neighbors == "add_remove" and rounds.counted is None:
        measure.count(shares.count)  # a guess far off would misplace the center
    rounds.draw()
    if box.serves(rounds) and (found := box.prepare(measure)) is not None:
        return found
    early = shares.thinned(rounds.rate, rounds.d)
    state = by_columns(measure, early)
    if state is not None:
        return from_state(measure, state, shares, rounds.relative)
    return from_state(measure, by_sizes(measure, early) or locate(measure, early), shares)


def from_state(measure: Measure, state: State, shares: Shares, standard: bool = False) -> Final:
    """From a coarse center to the last round; the norms of all rows settle what a sample has shown.

    standard: whether columns are in units of their own spread already.
    """
    early = shares.thinned(measure.rounds.rate, measure.d)
    units: list[Floats] = []
    if measure.d > 1 and early.hopeful and not standard:
        if measure.rounds.relative:
            units = standardize(measure, state, early)
        else:
            learn_shape(measure, state, early)
    if early.hopeful and state.off_center > 0.02:
        recenter(measure, state, early)
    _leave_sample(measure, state)
    if shares.readable:
        settle_shape(measure, state, shares, units)
        if state.far is not None:
            if float(state.variance.sum()) > _BESIDE_FAR * state.hides_far(measure.n):
                recenter(measure, state, shares)  # the last round will reach for the far rows, and see no other better
            state.take_far(measure.n)
        state.doubt_center()
    return last_round(measure, state, shares)


def _leave_sample(measure: Measure, state: State) -> None:
    """From here on all rows are read: that the center is one of those that were drawn is an error of it, too."""
    rate, n = measure.rounds.rate, measure.n
    if rate < 1:
        state.variance = state.variance + absolute_std(state) ** 2 * ((1 - rate) / n)
    measure.rounds.let_go()


def by_columns(measure: Measure, shares: Shares) -> State | None:
    """Coarse center and spreads column by column, where that is cheap, or where columns have units of their own."""
    relative = measure.rounds.relative
    if not shares.by_columns(relative):
        return None
    columns = search(measure, shares.columns, relative)
    if columns is None or not (relative or all(column.found for column in columns)):
        return None
    center = measure.sides * [column.center for column in columns]
    spread = measure.sides * [column.spread for column in columns]
    error = measure.sides * [column.error if column.found else column.spread for column in columns]
    state = State(center, error**2, Shape(spread), NormLaw(np.zeros(1), np.ones(1)))
    if relative:
        _change_units(measure, state, spread)
        state.shape = Shape(np.ones(measure.d))
        _relocate(measure, state, shares)
        return state
    state.law = norm_law(measure, state, _ABOUT_ONE, shares.norms)
    typical = state.law.median
    state.shape, state.law = Shape(spread * typical), state.law.scaled(1 / typical)
    return state


def by_sizes(measure: Measure, shares: Shares) -> State | None:
    """Coarse center of columns in units of their own, by how far from zero they lie, where no closer look is to be had.

    None where that drowns in noise, or rows turn out to lie elsewhere.
    """
    d = measure.d
    if d == 1 or not measure.rounds.relative or shares.sizes is None or shares.by_columns(True):
        return None
    before = measure.relative
    for size in sizes(measure, shares.sizes):
        state = State(np.zeros(d), size**2, Shape(np.ones(d)), NormLaw(np.zeros(1), np.ones(1)))
        _change_units(measure, state, size)
        state.law = norm_law(measure, state, _NEAR_ONE, shares.norms)
        if state.law.median < _ASTRAY:
            _shrink(measure, state, shares, min(state.law.quantile(0.85), 2 * state.law.median), 1.0)
            _to_median(measure, state)
            return state
        measure.relative = before
    return None


def locate(measure: Measure, shares: Shares) -> State:
    """Coarse center: clipped mean in a ball, ball from the histogram of norms, until the ball stops shrinking."""
    d = measure.d
    reach = length(measure.sides)
    ball = Shape(np.full(d, 1 / math.sqrt(d)), b=np.ones(d))  # y = x - c
    state = State(np.zeros(d), np.zeros(d), ball, NormLaw(np.zeros(1), np.ones(1)))
    if not shares.readable:
        return _ball_state(d, reach, state.law)
    edges = reach * 2.0 ** np.arange(-_MOST_OCTAVES, 0.1, 0.5)
    state.law = norm_law(measure, state, edges, shares.norms)
    radius = min(state.law.quantile(0.85), reach)
    if not shares.hopeful:
        return _ball_state(d, radius, state.law.scaled(1 / radius))
    _shrink(measure, state, shares, radius, reach)
    typical = state.law.median
    shape = Shape(np.full(d, typical / math.sqrt(d)))
    return State(state.center, state.variance, shape, state.law.scaled(1 / typical), state.clipped)


def _shrink(measure: Measure, state: State, shares: Shares, radius: float, reach: float) -> None:
    """Ball rounds from a radius on, y being offsets times one number, until the ball stops shrinking."""
    d, b = measure.d, float(state.shape.b[0])
    step, again = 1 / 8 if shares.rows > 300 else 1 / 3, _MOST_AGAIN
    while True:
        offset, std = measure.clipped_mean("ball", state, radius, shares.ball)
        state.center = state.center + offset / b
        error = math.sqrt(d) * std
        low = max(math.log2(min(0.6 * error, 0.5 * radius)), math.log2(radius) - _MOST_OCTAVES)
        edges = 2.0 ** np.arange(low, math.log2(1.2 * radius) + step, step)
        state.law = norm_law(measure, state, edges, shares.norms)
        before, radius = radius, min(state.law.quantile(0.85), 1.5 * radius)
        near = error < 0.35 * state.law.median
        done = near or radius > 0.8 * before
        if done and again:
            split = d > 1 and again == _MOST_AGAIN and state.law.median < 0.5 * before  # what kept it may be noise
            if _beside(state.law, d) or (split and not near):
                done, again = False, again - 1
        if done or radius < RESOLUTION * reach or measure.spent > 0.4:
            break
    doubt = DOUBT * state.law.excess(before) ** 2 / d
    state.variance = np.full(d, (std**2 + doubt) / b**2)
    state.clipped = before / state.law.median


def _beside(law: NormLaw, d: int) -> bool:
    """Whether norms differ so little that the center must lie beside the rows, and not among them."""
    from scipy.special import gammaincinv

    if d > _TOLD_APART:
        return False
    among = math.sqrt(gammaincinv(d / 2, 0.95) / gammaincinv(d / 2, 0.05))  # of normal rows
    return law.quantile(0.95) / law.quantile(0.05) < min(1 + _BESIDE * (among - 1), _ALIKE)


def standardize(measure: Measure, state: State, shares: Shares) -> list[Floats]:
    """Each column in units of its own spread, found step by step; rows are located anew in every new unit.

    Returns the units of every step.
    """
    d, units = measure.d, []
    last = np.full(d, np.inf)  # noise of the latest center
    for _ in range(_MOST_UNITS):
        std, loss = measure_scales(measure, state, shares, state.shape.std, even=True)
        std = np.maximum(std, measure.least / measure.relative)
        settled = loss < 3 * shares.scales and bool((last < _SETTLED * std).all())
        _change_units(measure, state, std)
        last = last / std
        state.shape = Shape(np.ones(d))
        _relocate(measure, state, shares)
        if state.off_center > 0.04:
            last = recenter(measure, state, shares, shares.center if settled else shares.step)
            before = measure.relative
            _relocate(measure, state, shares)
            last = last * before / measure.relative
        units.append(measure.relative)
        if settled or measure.spent > 0.65:
            break
    return units


def _change_units(measure: Measure, state: State, ratio: Floats) -> None:
    """The same center and error in units that are `ratio` times as large."""
    measure.relative = measure.relative * ratio
    state.center = state.center / ratio
    state.variance = state.variance / ratio**2


def _relocate(measure: Measure, state: State, shares: Shares) -> None:
    """The law of norms in new units, and where those show that the center is far off, the center."""
    state.law = norm_law(measure, state, _ABOUT_ONE, shares.norms, 1.0)
    if state.law.median > _FAR_OFF:
        _shrink(measure, state, shares, state.law.quantile(0.85), 1.0)
    _to_median(measure, state)


def _to_median(measure: Measure, state: State) -> None:
    """Spreads are known up to one factor: norms tell it."""
    typical = state.law.median
    _change_units(measure, state, np.full(measure.d, typical))
    state.law = state.law.scaled(1 / typical)


def _ball_state(d: int, radius: float, law: NormLaw) -> State:
    """A ball would not shrink: everything goes to one release, the ball itself being what is known of the mean."""
    spread = radius / math.sqrt(d)
    return State(np.zeros(d), np.full(d, spread**2), Shape(np.full(d, spread)), law)


def norm_law(measure: Measure, state: State, edges: Floats, share: float, expected: float | None = None) -> NormLaw:
    """The law of the norms about the state's center, in its shape; expected: its median, if all went well."""
    (counts,), std = measure.norms(state.center, [(state.shape, edges)], share)
    return fit_norm_law(counts, std, edges, measure.n, expected, _MOST_OCTAVES, measure.rounds.pure)


def measure_scales(
    measure: Measure, state: State, shares: Shares, prior: Floats, even: bool = False
) -> tuple[Floats, float]:
    """Spread along each axis from clipped absolute values, shrunk towards `prior` by as much as the noise asks for.

    Returns the spreads and the forecast relative loss from their error; even: with every axis of equal weight.
    """
    values, noise = measure.absolute_mean(state, state.law.quantile(0.7), measure.affordable(shares.scales))
    unit = state.shape.b * prior
    value, error = values / unit, noise / unit
    precision = error**-2
    weights = precision / precision.sum()
    level = max(float((weights * value).sum()), float(precision.sum()) ** -0.5)
    ratio, error = value / level, error / level
    floor = float((weights * error**2).sum())
    excess = float((weights * (ratio - 1) ** 2).sum()) - floor * (1 + math.sqrt(2 / len(ratio)))
    variety = max(excess, 0.0)
    keep = variety / (variety + error**2)
    ratio = np.maximum(1 + keep * (ratio - 1), np.maximum(0.7 * keep * error, 1e-4))
    std = prior * ratio
    weight = np.full_like(std, 1 / len(std)) if even else std / std.sum()
    loss = float((weight * np.minimum((error / ratio) ** 2 * keep, 1)).sum())
    return std, loss


def recenter(measure: Measure, state: State, shares: Shares, wanted: float | None = None) -> Floats:
    """A clipped mean in the shape learned so far, combined with the center by their variances; returns its noise."""
    law, shape, n = state.law, state.shape, measure.n

    def doubt(radius: float) -> float:
        return DOUBT * law.excess(radius) ** 2

    share = measure.affordable(shares.center if wanted is None else wanted)
    _, radius = choose_radius(state, shares.unit(share), n, law.ladder, doubt=doubt)
    offset, std = measure.clipped_mean("recenter", state, radius, share)
    gain, residual = clip_effects(law, shape, radius, n)
    before = state.off_center
    state.clipped = radius / law.median
    state.update(offset / shape.b, gain, (std / shape.b) ** 2 + residual + doubt(radius) * shape.std**2)
    state.law = law.scaled(math.sqrt(min(max(1 - before + state.off_center, 0.25), 1)))
    noise: Floats = std / shape.b
    return noise


def learn_shape(measure: Measure, state: State, shares: Shares) -> None:
    """Scales, recentering, and once the axes, until better scales would cost more than they bring."""
    prior = state.shape.std
    turns = Turns(measure, shares) if _may_turn(measure) and shares.kappa < 0.05 and not shares.pure else None
    for _ in range(_MOST_SCALES if measure.spent < 0.45 else 0):
        std, loss = measure_scales(measure, state, shares, prior)
        state.reshape(std)
        if state.off_center > 0.04:
            recenter(measure, state, shares)
        prior = std
        if turns is not None and turns.next(state):
            prior = state.shape.std
            continue
        if loss < 3 * shares.scales or measure.spent > 0.4:
            break


def _may_turn(measure: Measure) -> bool:
    """Whether rounds along other axes than the columns end in good time."""
    d = measure.d
    return d <= _FEW_COLUMNS or (d <= _MOST_COLUMNS and measure.rounds.n * float(d) ** 2 <= _MOST_WORK)
