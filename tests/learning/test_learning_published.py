"""CoinPress, instance-optimal and variance-aware means: sensitivity, noise and budget of every round."""

import math
from fractions import Fraction

import numpy as np
import pytest
from opening import session_on
from scipy import stats

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.learning import coinpress, instance_optimal, variance_aware
from ellipsum.learning.coinpress_covariance import covariance_bound, forecast_margin, second_moments
from ellipsum.learning.finish import finish
from ellipsum.learning.quantiles import CoordinateSurplus, NormSurplus, bisect, norm_quantile
from ellipsum.learning.rotation import RotatedMap, Rotation
from ellipsum.learning.rounds import Rounds
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.request.missing import Handling
from ellipsum.row_maps.maps import EllipsoidMap

SEED = bytes(range(32))
D = 6
USUAL = Handling()
MAGNITUDE = 20.0
FALSE_ALARM = 1e-9
METHODS = {
    "coinpress": (coinpress, {"std": 1.0}),
    "coinpress one step": (coinpress, {"std": 1.0, "steps": 1}),
    "coinpress learning the covariance": (coinpress, {"steps": 2}),
    "instance_optimal": (instance_optimal, {}),
    "variance_aware": (variance_aware, {"steps": 12}),
}


def ball(d, radius=1.0, center=0.0):
    return Ellipsoid(np.full(d, center), np.full(d, 1 / radius))


def maps():
    rotation = Rotation.draw(D, SEED)
    middle = np.linspace(-1, 1, D)
    inner = CoordinateSurplus(np.zeros(8), np.zeros(8), 0.5, False)
    return {
        "medians": CoordinateSurplus(np.zeros(D), middle, 0.5, False),
        "upper quantiles": CoordinateSurplus(np.ones(D), middle, 0.9, False),
        "sizes": CoordinateSurplus(np.ones(D), np.full(D, 0.7), 0.5, True),
        "norm": NormSurplus(ball(D, center=0.5), 2.0, 0.95),
        "rotated medians": RotatedMap(rotation, inner, MAGNITUDE),
        "rotated sum": RotatedMap(rotation, EllipsoidMap(np.zeros(8), np.full(8, 0.1), grid_bits=20), MAGNITUDE),
    }


MAPS = maps()


def nasty_rows(d, seed=0):
    """Rows that would stretch a careless map: far, tiny, opposite, missing, infinite."""
    g = np.random.default_rng(seed)
    rows = [np.zeros(d), np.full(d, np.nan), np.full(d, np.inf), np.full(d, -np.inf)]
    for size in (1e-300, 1e-3, 1.0, MAGNITUDE, 1e8, 1e200, 1.7e308):
        rows += [np.full(d, size), np.full(d, -size), size * g.uniform(-1, 1, d), size * np.eye(d)[0]]
    signs = g.choice([-1.0, 1.0], (40, d))
    rows += list(MAGNITUDE * signs)
    return np.array(rows)


def integer_rows(row_map, rows):
    return [accumulate(row_map, [row[None]], 1).sums.to_ints() for row in rows]


def squared(row):
    return sum(v * v for v in row)


def furthest(images):
    return max(squared([a - b for a, b in zip(p, q, strict=True)]) for p in images for q in images)


def neighbors_rows(row_map, d):
    """Nasty rows, and for a rotation the rows that it turns into opposite corners."""
    rows = nasty_rows(d)
    if isinstance(row_map, RotatedMap):
        rotation = row_map.rotation
        corners = np.random.default_rng(1).choice([-1.0, 1.0], (60, rotation.size))
        turned = np.array([rotation.back(corner) for corner in corners])
        rows = np.concatenate([rows, turned, -turned])
    return rows


# The maps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAPS)
def test_no_two_rows_are_further_apart_than_the_map_says(name):
    row_map = MAPS[name]
    images = integer_rows(row_map, neighbors_rows(row_map, D))
    assert max(map(squared, images)) <= row_map.body.norm**2
    assert furthest(images) <= row_map.body.diameter**2
    # The bounds are not slack: half of either would be refuted here. A padded rotation cannot reach every corner.
    reach = 0.7 if name.startswith("rotated m") else 0.99
    assert furthest(images) >= (Fraction(reach) * row_map.body.diameter) ** 2


@pytest.mark.parametrize("name", MAPS)
def test_a_row_adds_the_same_integers_wherever_it_lies(name):
    row_map, g = MAPS[name], np.random.default_rng(2)
    rows = np.concatenate([nasty_rows(D), g.normal(3.0, 5.0, (61, D))])
    alone = integer_rows(row_map, rows)
    expected = [sum(column) for column in zip(*alone, strict=True)]
    wide = np.full((len(rows), 2 * D + 1), 7.0)
    wide[:, 1::2] = rows
    layouts = [rows, rows[::-1], np.asfortranarray(rows), wide[:, 1::2]]
    for layout in layouts:
        assert accumulate(row_map, [layout], 1).sums.to_ints() == expected
    for cut in (1, 7, 16, 50):
        assert accumulate(row_map, [rows[:cut], rows[cut:]], 2).sums.to_ints() == expected
    copies = np.repeat(rows[-1:], 24, axis=0)
    assert accumulate(row_map, [copies], 1).sums.to_ints() == [24 * v for v in alone[-1]]


@pytest.mark.parametrize("fraction", [0.5, 0.9])
def test_the_surplus_is_the_count_less_its_share_of_the_rows(fraction):
    rows = np.random.default_rng(3).normal(size=(200, D))
    middle = np.linspace(-0.5, 0.5, D)
    unit = 1 << 20
    below = round((1 - fraction) * unit)
    counts = (rows <= middle).sum(axis=0)
    found = accumulate(CoordinateSurplus(np.zeros(D), middle, fraction, False), [rows], 1).sums.to_ints()
    assert found == [int(c) * below + (200 - int(c)) * (below - unit) for c in counts]
    inside = int((np.linalg.norm(rows, axis=1) <= 2.5).sum())
    found = accumulate(NormSurplus(ball(D), 2.5, fraction), [rows], 1).sums.to_ints()
    assert found == [inside * below + (200 - inside) * (below - unit)]


@pytest.mark.parametrize("d", [1, 2, 5, 64, 100])
def test_the_rotation_keeps_lengths_and_can_be_undone(d):
    rotation = Rotation.draw(d, SEED)
    rows = np.random.default_rng(4).uniform(-1, 1, (9, d))
    turned = np.empty((9, rotation.size))
    from ellipsum.learning.rotation_kernels import spin

    spin(rows, rotation.signs, rotation.factor, 1.0, turned)
    scale = 64 * np.finfo(float).eps * math.sqrt(rotation.size)  # three transforms of log2(size) <= 7 roundings each
    assert np.allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(rows, axis=1), rtol=scale)
    for row, image in zip(rows, turned, strict=True):
        assert np.abs(rotation.back(image) - row).max() <= scale
    again = Rotation.draw(d, SEED)
    assert np.array_equal(again.signs, rotation.signs)
    if d > 4:  # the odds that another seed gives the same signs are 2^-24 or less
        assert not np.array_equal(Rotation.draw(d, bytes(32)).signs, rotation.signs)


def test_the_rotation_evens_out_a_single_large_coordinate():
    rotation = Rotation.draw(256, SEED)
    turned = np.empty((1, 256))
    from ellipsum.learning.rotation_kernels import spin

    spin(np.eye(256)[:1], rotation.signs, rotation.factor, 1.0, turned)
    # 256 entries of variance 1/256: above 6 standard deviations with odds below 256 * 2e-9
    assert np.abs(turned).max() < 6 / 16


# The rounds of each method ------------------------------------------------------------------------------


class Recorded(Rounds):
    """Rounds that keep each map, its noise and the noise actually drawn."""

    def __init__(self, *args, **kwargs):
        self.kept = []
        super().__init__(*args, **kwargs)

    def sum(self, name, row_map, share):
        found = super().sum(name, row_map, share)
        bits = getattr(row_map, "grid_bits", 0)
        exact = np.ldexp(self.accumulate(row_map).sums.to_float(), -bits)
        self.kept.append((self.history[-1], row_map, found.std, (found.values - exact) / found.std))
        return found


def sample(n=400, d=D, seed=5):
    return np.random.default_rng(seed).normal(3.0, 1.0, (n, d))


def run(name, rows, relation="replace", mu=1.0, seed=0, n=None, statistic="mean", handling=USUAL):
    module, options = METHODS[name]
    count = len(rows) if relation == "replace" else n
    rng = np.random.default_rng(seed)
    rounds = Recorded(session_on(rows, rng, 1), es.Budget(mu=mu), relation, count, handling=handling)
    release = finish(rounds, module.prepare(rounds, MAGNITUDE, **options), statistic, None, name)
    return rounds, release


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", METHODS)
def test_every_round_has_noise_for_its_worst_neighbors(name, relation):
    rounds, release = run(name, sample(3000, 3), relation, mu=2.0)
    assert ("covariance 1" in [step.name for step in rounds.history]) == ("covariance" in name)
    for step, row_map, std, _ in rounds.kept:
        images = integer_rows(row_map, neighbors_rows(row_map, 3))
        far = furthest(images) if relation == "replace" else max(map(squared, images))
        units = Fraction(math.ldexp(std, getattr(row_map, "grid_bits", 0)))
        assert (units * Fraction(step.privacy.mu)) ** 2 >= far
        tight = row_map.body.sensitivity(relation)
        assert units * Fraction(step.privacy.mu) <= tight * (1 + Fraction(1, 10**12))
        # The worst rows found come near the bound, so that half of it would be refuted (but for the count, where two
        # rows never differ); a rotation of three columns into four reaches only some of the corners.
        if step.name != "count":
            assert far >= (Fraction(0.7 if "median" in step.name else 0.9) * tight) ** 2, step.name
    plan = release.plan
    assert plan.privacy == rounds.history[-1].privacy
    assert Fraction(plan.noise_units) * Fraction(plan.privacy.mu) >= plan._sensitivity()


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", METHODS)
def test_the_rounds_together_spend_the_stated_budget(name, relation):
    rounds, release = run(name, sample(), relation, mu=0.7)
    total = es.compose([step.privacy for step in rounds.history])
    squares = sum(Fraction(step.privacy.mu) ** 2 for step in rounds.history)
    assert squares <= Fraction(0.7) ** 2
    assert total.mu == pytest.approx(0.7, rel=1e-12)
    assert rounds.left == 0
    assert release.privacy == es.Privacy(0.7, 0.0, relation)


@pytest.mark.parametrize("name", METHODS)
def test_the_noise_drawn_is_the_noise_stated_and_not_a_tenth_less(name):
    """Squares of thousands of standardized draws; a noise of 0.9 times would be rejected."""
    draws = []
    for seed in range(400):
        rounds, release = run(name, sample(60, 16, seed), seed=seed, handling=Handling("center", check=False))
        draws += [z for _, _, _, z in rounds.kept]
        plan = release.plan
        exact = np.ldexp(accumulate(plan.row_map, [sample(60, 16, seed)], 1).sums.to_float(), -plan.grid_bits)
        mean = plan.ellipsoid.scaled(release.value - plan.ellipsoid.center) * 60
        draws.append((mean - exact) / plan.scaled_std)
        if sum(map(len, draws)) > 6000:
            break
    z = np.concatenate(draws)
    total, count = float(z @ z), z.size
    assert count > 6000
    both = min(stats.chi2.sf(total, count), stats.chi2.cdf(total, count))
    assert both > FALSE_ALARM
    assert stats.chi2.cdf(0.81 * total, count) < FALSE_ALARM


@pytest.mark.parametrize("name", METHODS)
def test_the_schedule_and_the_answer_do_not_depend_on_odd_data(name):
    """The same rounds for any rows; no warning, no error, finite numbers."""
    usual = [(s.name, s.width, s.privacy) for s in run(name, sample())[0].history]
    g = np.random.default_rng(6)
    odd = [
        np.full((400, D), np.nan),
        np.full((400, D), np.inf),
        np.full((400, D), -1.7e308),
        g.choice([1.7e308, -1.7e308, np.nan, 0.0], (400, D)),
        np.zeros((400, D)),
    ]
    for rows in odd:
        rounds, release = run(name, rows)
        assert [(s.name, s.width, s.privacy) for s in rounds.history] == usual
        assert np.isfinite(release.value).all()
        assert np.isfinite(release.noise_std).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_private_count_of_no_rows_is_answered(name):
    rounds, release = run(name, np.empty((0, D)), "add_remove", n=None)
    assert np.isfinite(release.value).all()
    assert rounds.left == 0


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("magnitude", [1e-200, 1e150])
def test_any_magnitude_is_served(name, magnitude):
    module, options = METHODS[name]
    options = {**options, "std": magnitude / 20} if "std" in options else options
    rows = sample() * (magnitude / 20)
    rounds = Rounds(session_on(rows, np.random.default_rng(0), 1), es.Budget(mu=5.0), "replace", 400)
    release = finish(rounds, module.prepare(rounds, magnitude, **options), "mean", None, "test")
    assert np.abs(release.value / magnitude).max() < 2


# What the methods do with it ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["coinpress", "instance_optimal", "variance_aware"])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_methods_go_by_name(method, relation):
    rows, known = sample(5000, 4), es.Unknown(MAGNITUDE)
    rng = np.random.default_rng(7)
    release = es.mean(rows, known, budget=es.Budget(mu=3.0), neighbors=relation, method=method, rng=rng)
    assert np.abs(release.value - rows.mean(axis=0)).max() < 1.0
    assert release.privacy.neighbors == relation
    learned = es.learn(rows, known, budget=es.Budget(mu=3.0), neighbors=relation, method=method, rng=rng)
    assert learned.method == method
    assert learned.privacy == es.Privacy(3.0, 0.0, relation)
    assert isinstance(learned.rows, es.Normal)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_coinpress_shares_make_the_whole(steps):
    shares = coinpress.step_shares(steps)
    assert len(shares) == steps
    assert sum(shares) == 1
    assert shares[-1] == (1 if steps == 1 else Fraction(3, 4))


def test_coinpress_shrinks_the_ball_to_the_noise_of_one_clipped_mean():
    """With many rows the last step clips at about gamma, wherever the mean lies in the first ball."""
    n, d = 20_000, 10
    rows = np.random.default_rng(8).normal(-15.0, 1.0, (n, d))
    rounds = Rounds(session_on(rows, np.random.default_rng(9), 1), es.Budget(mu=1.0), "replace", n)
    final = coinpress.prepare(rounds, MAGNITUDE, std=1.0, steps=4)
    gamma = coinpress.norm_bound(d, coinpress.FAILURE)
    clip = 1 / final.region.ellipsoid.scale[0]
    assert gamma < clip < 1.1 * gamma
    assert rounds.left == Fraction(3, 4)
    # center within six standard errors of each coordinate: noise of a twelfth of the budget, and sampling
    error = final.region.ellipsoid.center - rows.mean(axis=0)
    assert np.abs(error).max() < 6 * 2 * clip / n * math.sqrt(12)


def test_the_covariance_bound_finds_uneven_spreads():
    n, std = 50_000, np.array([0.5, 2.0, 5.0])
    turn = np.linalg.qr(np.random.default_rng(10).normal(size=(3, 3)))[0]
    rows = (np.random.default_rng(11).normal(size=(n, 3)) * std) @ turn.T
    rounds = Rounds(session_on(rows, np.random.default_rng(12), 1), es.Budget(mu=1.0), "replace", n)
    white = covariance_bound(rounds, ball(3, MAGNITUDE), 4, Fraction(1, 2))
    cov = (white.axes * white.unscale**2) @ white.axes.T
    true = rows.T @ rows / n
    ratios = np.linalg.eigvalsh(np.linalg.inv(true) @ (cov + cov.T) / 2).real
    assert (np.linalg.eigvalsh(cov - true) > 0).all()  # a bound
    assert ratios.max() < 2  # and not a loose one
    assert rounds.left == Fraction(1, 2)


def test_no_budget_goes_into_a_covariance_that_cannot_be_seen():
    """A public rule: with these n and d the margin alone exceeds the bound one starts from."""
    rows = sample(200, 40)
    rounds = Rounds(session_on(rows, np.random.default_rng(13), 1), es.Budget(mu=1.0), "replace", 200)
    start = ball(40, MAGNITUDE)
    assert forecast_margin(rounds, Fraction(1, 8)) > 1
    assert covariance_bound(rounds, start, 2, Fraction(1, 4)) is start
    assert not rounds.history


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_the_forecast_margin_is_that_of_the_noise_drawn(relation):
    rows = sample(5000, 3)
    rounds = Rounds(session_on(rows, np.random.default_rng(14), 1), es.Budget(mu=1.0), relation, 5000)
    forecast = forecast_margin(rounds, Fraction(1, 4))
    from ellipsum.learning.coinpress_covariance import noise_margin, sampling_margin

    _, _, noise = second_moments(rounds, "second moments", ball(3, MAGNITUDE), Fraction(1, 4))
    assert forecast == pytest.approx(sampling_margin(3, 5000) + noise_margin(3, noise), rel=1e-6)


def test_bisection_finds_quantiles_when_noise_is_small():
    rows = np.random.default_rng(15).normal(size=(20_000, 2))
    rounds = Rounds(session_on(rows, np.random.default_rng(16), 1), es.Budget(mu=50.0), "replace", 20_000)

    def surplus(middle):
        return CoordinateSurplus(np.zeros(2), middle, 0.9, False)

    found = bisect(rounds, "q", surplus, np.full(2, -8.0), np.full(2, 8.0), 16, Fraction(1, 4))
    # rank noise sqrt(2) sqrt(16 / 0.25) / 50 < 0.3 rows a step: the sample quantile, to the width of the last interval
    # and the gap between neighboring rows (density 0.17: 20 gaps of 3e-4)
    assert np.abs(found - np.quantile(rows, 0.9, axis=0)).max() < 16 / 2**16 + 6e-3
    length = norm_quantile(rounds, ball(2), 0.5, 10.0, 16, Fraction(1, 4))
    assert length == pytest.approx(np.median(np.linalg.norm(rows, axis=1)), abs=6e-3)


def test_variance_aware_gives_each_coordinate_noise_by_its_spread():
    std = np.array([0.1, 1.0, 10.0])
    rows = np.random.default_rng(17).normal(size=(20_000, 3)) * std
    rounds = Rounds(session_on(rows, np.random.default_rng(18), 1), es.Budget(mu=2.0), "replace", 20_000)
    final = variance_aware.prepare(rounds, 100.0)
    assert final.std == pytest.approx(std, rel=0.1)
    variance = final.region.ellipsoid.unscale**2
    assert variance / variance[2] == pytest.approx((std + std.mean()) / (std[2] + std.mean()), rel=0.1)


def test_options_are_checked():
    rounds = Rounds(session_on(sample(), np.random.default_rng(0)), es.Budget(mu=1.0), "replace", 400)
    for wrong in (0, 1.5):
        for module in (coinpress, instance_optimal, variance_aware):
            with pytest.raises(es.UsageError, match="steps"):
                module.prepare(rounds, MAGNITUDE, steps=wrong)
    for std in (0.0, -1.0, np.nan, [1.0, 2.0]):
        with pytest.raises(es.UsageError, match="std"):
            coinpress.prepare(rounds, MAGNITUDE, std=std)
    with pytest.raises(es.UsageError, match="clip_share"):
        instance_optimal.prepare(rounds, MAGNITUDE, clip_share=1.0)
    assert not rounds.history


def test_options_of_a_method_reach_it_through_the_public_calls():
    rows = np.random.default_rng(0).normal(5, 1, (2000, 3))
    known, budget = es.Unknown(50), {"epsilon": 1, "delta": 1e-6}

    def rounds(**options):
        learned = es.learn(rows, known, rng=np.random.default_rng(1), **budget, **options)
        return [step.name for step in learned.rounds]

    assert len(rounds(method="coinpress", steps=7, std=1.0)) == len(rounds(method="coinpress", steps=3, std=1.0)) + 4
    release = es.mean(rows, known, method="coinpress", steps=4, std=[1, 1, 1], **budget)
    assert np.abs(release.value - 5).max() < 0.5  # noise std below 0.05
    es.mean(rows, known, method="instance_optimal", steps=8, clip_share=0.05, **budget)
    es.sum(rows, known, method="variance_aware", steps=8, **budget)
    with pytest.raises(es.UsageError, match="steps cannot be chosen.*auto takes none"):
        es.mean(rows, known, steps=4, **budget)
    with pytest.raises(es.UsageError, match="has no argument 'width'"):
        es.learn(rows, known, method="coinpress", width=4, **budget)
