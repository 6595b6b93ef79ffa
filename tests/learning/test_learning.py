"""Unknown rows: what the rounds cost, what they publish, and that nothing about the data decides anything else."""

import json
import math
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from opening import open_table, session_on
from scipy import stats

import ellipsum as es
from ellipsum.kernels.table import kernel_for
from ellipsum.learning.maps import (
    AbsoluteSum,
    CoordinateHistogram,
    Count,
    NormHistogram,
    OuterSum,
    ShellSum,
)
from ellipsum.learning.measure import Presence
from ellipsum.learning.norm_law import fit_norm_law
from ellipsum.learning.plan import LearningPlan
from ellipsum.learning.rounds import Rounds
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.releases.clipping_bias import at_a_point
from ellipsum.row_maps.grid import ellipsoid_map
from ellipsum.rows import LearnedRows
from ellipsum.session import Session
from ellipsum.sources import LocalSource

MU = es.Budget(mu=1.0)
RELATIONS = ["replace", "add_remove"]


def rng(seed=0):
    return np.random.default_rng(seed)


def data(n=1000, d=5, seed=1, std=1.0):
    return 10 + std * np.random.default_rng(seed).normal(size=(n, d))


def rounds_of(x, relation="replace", budget=MU, n=None, seed=0):
    count = len(x) if relation == "replace" else n
    return Rounds(session_on(x, rng(seed)), budget, relation, count)


# --- what is charged ------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n", [3, 40, 1000])
@pytest.mark.parametrize("budget", [MU, es.Budget(epsilon=1, delta=1e-6), es.Budget(rho=3.0)], ids=str)
def test_all_rounds_together_cost_the_stated_budget(relation, n, budget):
    found = es.mean(data(n), es.Unknown(50.0), budget=budget, neighbors=relation, rng=rng())
    assert found.privacy == es.Privacy(budget.mu, 0.0, relation)
    spent = sum(Fraction(step["privacy"]["mu"]) ** 2 for step in found.learned["rounds"])
    assert spent <= Fraction(budget.mu) ** 2
    assert spent >= Fraction(budget.mu) ** 2 * (1 - Fraction(1, 10**12))
    assert found.learned["rounds"][-1]["name"] == "final"
    assert found.plan.privacy.mu == found.learned["rounds"][-1]["privacy"]["mu"]
    assert found.plan.neighbors == relation


def test_overspending_is_refused_before_anything_is_read():
    class Watched(LocalSource):
        passes = 0

        def total(self, row_map, threads=None, progress=None):
            self.passes += 1
            return super().total(row_map, threads, progress)

    table = Watched(open_table(np.zeros((3, 2))))
    rounds = Rounds(Session(table), MU, "replace", 3)
    rounds.sum("first", Count(2), 0.75)
    with pytest.raises(es.BudgetRefused, match=r"0.25 is left"):
        rounds.sum("second", Count(2), 0.2500001)
    assert table.passes == 1
    rounds.sum("second", Count(2), rounds.left)
    assert rounds.left == 0
    with pytest.raises(es.BudgetRefused):
        rounds.sum("third", Count(2), 1e-300)
    assert table.passes == 2
    assert [step.name for step in rounds.history] == ["first", "second"]


ROUNDED = (1 + math.sqrt(5) / 2**21) ** 2  # rows of five entries, each rounded to 2^-20
MAPS = {
    "histogram": (lambda e: NormHistogram([(e, [0.2, 0.4, 0.8])]), math.sqrt(2), 1.0),
    "weighted": (lambda e: NormHistogram([(e, [0.4]), (e, [0.2, 0.4])], (2, 3)), math.sqrt(26), math.sqrt(13)),
    "distances": (
        lambda e: CoordinateHistogram([[9.5, 10.0, 11.0]] * 5, folded=True),
        math.sqrt(10),
        math.sqrt(5),
    ),
    "coordinates": (lambda e: CoordinateHistogram([[9.5, 10.0, 11.0]] * 5), math.sqrt(10), math.sqrt(5)),
    "absolutes": (AbsoluteSum, math.sqrt(2), 1.0),
    "shell": (lambda e: ShellSum(e, 0.5, 1.0), 2.0, 1.0),
    "products": (OuterSum, 5 * math.sqrt(2) * ROUNDED, 5.0 * ROUNDED),
    "clipped": (lambda e: ellipsoid_map(e, 40), 2.0, 1.0),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", MAPS)
def test_noise_of_each_round_is_its_sensitivity_over_its_share_and_not_a_tenth_less(name, relation):
    """Whitened errors, 4000 of them, are chi-square; noise of 0.9 of the std is rejected at 1e-9."""
    make, replace, add_remove = MAPS[name]
    x, share = data(30), 1e-4
    row_map = make(Ellipsoid(np.full(5, 10.0), np.full(5, 0.3)))
    exact = np.zeros(row_map.width, np.int64)
    kernel_for(row_map)(x, exact)
    rounds = rounds_of(x, relation, es.Budget(mu=10.0), n=30)
    repeats = 4000 // row_map.width + 1
    sums = [rounds.sum(name, row_map, share) for _ in range(repeats)]
    wanted = (replace if relation == "replace" else add_remove) / (10 * math.sqrt(share))
    assert sums[0].std == pytest.approx(wanted, rel=1e-6)
    errors = np.stack([found.values for found in sums]) - np.ldexp(
        exact.astype(float), -getattr(row_map, "grid_bits", 0)
    )
    squares = float((errors**2).sum()) / wanted**2
    low, high = stats.chi2.ppf([1e-10, 1 - 1e-10], errors.size)
    assert low < squares < high
    assert squares * 0.81 < low


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_of_the_last_round_is_what_its_plan_says(relation):
    """With the rounds before it fixed by their results, the last round's noise is its plan's."""
    found = es.mean(data(), es.Unknown(50.0), budget=MU, neighbors=relation, rng=rng())
    plan = found.plan
    bound = (2 if relation == "replace" else math.hypot(1, plan.count_weight)) / plan.privacy.mu
    assert plan.scaled_std == pytest.approx(bound, rel=1e-9)
    assert plan.scaled_std >= bound


# --- what is published ----------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("release", "truth"), [(es.mean, np.mean), (es.sum, np.sum)])
def test_auto_is_far_better_than_a_ball_over_the_magnitude(relation, release, truth):
    """Squared errors of 10 releases against the noise of the ball that the magnitude allows: 1000 times less."""
    n, d, magnitude = 1000, 5, 1e4
    x = data(n, d)
    made = es.plan(es.Ball(magnitude), n=n, d=d, budget=MU, statistic=release.__name__, neighbors=relation)
    errors, claims = [], []
    for seed in range(10):
        found = release(x, es.Unknown(magnitude), budget=MU, neighbors=relation, rng=rng(seed))
        errors.append(float(((found.value - truth(x, axis=0)) ** 2).sum()))
        claims.append(float((found.noise_std**2).sum()))
    assert max(errors) < made.noise_error / 1000
    # as loose as if each release were one number: its five are not independent of what the rounds learned
    low, high = stats.chi2.ppf([1e-9, 1 - 1e-9], 10) / 10
    assert low * np.mean(claims) < np.mean(errors) < high * np.mean(claims)


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")  # one release in 1500 takes noise for a few far rows
def test_error_stays_near_the_forecast():
    x = data(2000, 20)
    spread = math.sqrt(20)
    made = es.plan(es.Unknown(50.0), n=2000, d=20, budget=MU, statistic="mean")
    errors = [
        float(((made.release(x, rng=rng(seed)).value - x.mean(axis=0)) ** 2).sum()) / spread**2 for seed in range(12)
    ]
    assert 0.3 < math.sqrt(np.mean(errors)) / made.relative_error < 2


@pytest.mark.parametrize("relation", RELATIONS)
def test_uneven_and_correlated_columns_are_learned(relation):
    g = np.random.default_rng(4)
    base = g.normal(size=(20_000, 2)) @ np.array([[3.0, 2.9, 0.0, 1.0], [0.0, 0.4, 0.001, -1.0]])
    x = 5 + base + 0.001 * g.normal(size=(20_000, 4))
    found = es.learn(x, es.Unknown(100.0), budget=MU, neighbors=relation, rng=rng()).rows
    assert found.kind == "learned"
    assert found.axes is not None
    cov = (found.axes * found.std**2) @ found.axes.T
    assert found.as_normal().cov == pytest.approx(cov, rel=1e-9, abs=1e-12)
    true = np.cov(x.T)
    assert cov[:2, :2] == pytest.approx(true[:2, :2], rel=0.5)
    assert found.center == pytest.approx(x.mean(axis=0), abs=0.05)


def test_learned_rows_serve_later_releases():
    x = data(5000, 4, std=np.array([1.0, 10.0, 0.1, 3.0]))
    learned = es.learn(x, es.Unknown(1e5), epsilon=1, delta=1e-6, rng=rng())
    assert isinstance(learned.rows, LearnedRows)
    assert learned.privacy == es.Privacy(es.Budget(epsilon=1, delta=1e-6).mu)
    assert len(learned.rounds) >= 4
    assert learned.rows.spread()[1] == pytest.approx(10, rel=0.3)
    normal = learned.rows.as_normal()
    std = normal.std if normal.cov is None else np.sqrt(np.diag(normal.cov))
    assert std == pytest.approx(learned.rows.spread(), rel=1e-6)
    assert abs(learned.rows.center - x.mean(axis=0)).max() < 1
    released = es.mean(x, learned.rows, budget=MU, rng=rng())
    assert released.value == pytest.approx(x.mean(axis=0), abs=0.3)
    again = es.Learned.from_json(learned.to_json())
    assert again.to_json() == learned.to_json()
    assert "NOT SECURE" in repr(learned)
    assert "final" in repr(learned)
    with pytest.raises(es.UsageError, match="Unknown"):
        es.learn(x, es.Ball(1.0), budget=MU)


def test_learned_rows_are_saved_and_read(tmp_path):
    learned = es.learn(data(), es.Unknown(50.0), budget=MU)
    learned.save(tmp_path / "rows.json")
    again = es.Learned.from_json((tmp_path / "rows.json").read_text())
    assert np.array_equal(again.rows.center, learned.rows.center)
    assert again.secure
    for broken in ("{}", '{"format": "ellipsum.rows/1"}', "x"):
        with pytest.raises(es.UsageError):
            es.Learned.from_json(broken)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("release", [es.mean, es.sum])
def test_a_release_survives_json(relation, release):
    found = release(data(), es.Unknown(50.0), epsilon=1, delta=1e-5, neighbors=relation, rng=rng())
    again = es.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    assert np.array_equal(again.noise_std, found.noise_std)
    assert again.privacy == found.privacy
    assert "epsilon = 1" in repr(found)
    assert found.confidence_ellipsoid(0.95).contains(found.value)


# --- edges ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 3), (2, 2), (10, 1), (10, 4), (30, 2), (200, 1), (50, 200)])
def test_few_rows_give_an_answer(relation, n, d):
    for release in (es.mean, es.sum):
        found = release(data(n, d), es.Unknown(50.0), budget=MU, neighbors=relation, rng=rng())
        assert np.isfinite(found.value).all()
        assert (found.noise_std > 0).all()
        if release is es.mean:
            assert (abs(found.value) <= 50).all()


def test_empty_data_under_add_remove():
    x = np.zeros((0, 3))
    for seed in range(5):
        for release in (es.mean, es.sum):
            found = release(x, es.Unknown(50.0), budget=MU, neighbors="add_remove", rng=rng(seed))
            assert np.isfinite(found.value).all()
    with pytest.raises(es.UsageError, match="no rows"):
        es.mean(x, es.Unknown(50.0), budget=MU)


@pytest.mark.parametrize("relation", RELATIONS)
def test_constant_columns(relation):
    x = np.full((1000, 3), 3.0)
    x[:, 0] += np.random.default_rng(0).normal(size=1000)
    found = es.mean(x, es.Unknown(50.0), budget=MU, neighbors=relation, rng=rng())
    assert found.value == pytest.approx(x.mean(axis=0), abs=0.1)
    same = es.mean(np.full((1000, 3), 3.0), es.Unknown(50.0), budget=MU, neighbors=relation, rng=rng())
    assert same.value == pytest.approx([3.0] * 3, abs=1e-6)


@pytest.mark.parametrize("size", [2e198, 1e-200, 1.0])
@pytest.mark.parametrize("relation", RELATIONS)
def test_any_scale_of_numbers(size, relation):
    x = data(500, 3)
    plain = es.mean(x, es.Unknown(50.0), budget=MU, neighbors=relation, rng=rng())
    found = es.mean(x * size, es.Unknown(50.0 * size), budget=MU, neighbors=relation, rng=rng())
    assert found.value / size == pytest.approx(plain.value, rel=1e-6)
    assert found.noise_std / size == pytest.approx(plain.noise_std, rel=1e-6)
    repr(found.plan)


@pytest.mark.parametrize("method", ["auto", "coinpress", "instance_optimal", "variance_aware", "friendly_core"])
@pytest.mark.parametrize("magnitude", [1e200, 1e-200])
def test_every_method_publishes_at_both_ends_of_the_magnitudes(method, magnitude):
    """Beyond them sums of squares leave the range of doubles: rounds would be paid for and nothing published."""
    for x in (data(1000, 3) * magnitude / 50, np.full((1000, 3), 1.7e308), np.full((1000, 3), 5e-324)):
        with warnings.catch_warnings():
            if np.abs(x).max() > magnitude or method != "auto":  # beyond what was stated; other methods know less
                warnings.simplefilter("ignore", es.AccuracyWarning)
            budget = es.Budget(epsilon=2.0, delta=1e-6)
            found = es.mean(x, es.Unknown(magnitude), budget=budget, method=method, rng=rng(1))
        assert np.isfinite(found.value).all()
        assert np.isfinite(found.noise_std).all()
        assert (np.asarray(found.noise_std) > 0).all()


@pytest.mark.parametrize("relation", RELATIONS)
def test_odd_entries_never_change_success(relation):
    """NaN and infinite entries, whole rows of them, and rows far outside the magnitude."""
    x = data(300, 3)
    x[::7, 1], x[5], x[6] = np.nan, np.inf, -np.inf
    x[8], x[9] = 1e308, np.nan
    before = x.copy()
    found = es.mean(x, es.Unknown(50.0), budget=MU, neighbors=relation, rng=rng())
    assert found.value == pytest.approx([10.0] * 3, abs=1.5)
    assert np.array_equal(x, before, equal_nan=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        nothing = es.mean(np.full((300, 3), np.nan), es.Unknown(50.0), budget=MU, neighbors=relation, rng=rng())
    assert np.isfinite(nothing.value).all()
    if relation == "replace":  # else no row is as good as none
        assert any("too few rows" in str(each.message) for each in told)


def test_absences_that_noise_alone_may_show_do_not_move_the_center():
    """1000 columns with every entry present: no share below 1; half absent is seen where the noise allows it."""
    presence = Presence(1000)
    presence.take(0.3 * rng(3).normal(size=1000), np.full(1000, 0.3))
    assert (presence.shares == 1).all()
    presence = Presence(1000)
    presence.take(np.where(np.arange(1000) < 500, 0.5, 0.0) + 0.02 * rng(4).normal(size=1000), np.full(1000, 0.02))
    assert presence.shares[:500] == pytest.approx(np.full(500, 0.5), abs=0.15)
    assert (presence.shares[500:] == 1).all()


def test_sources_threads_order_and_layout_give_the_same_release(tmp_path):
    import pyarrow
    import pyarrow.parquet

    x = data(3000, 4)
    rows = es.Unknown(50.0, columns=[f"c{j}" for j in range(4)])  # names, or errors would count in other units
    wanted = es.mean(x, rows, budget=MU, rng=rng()).value
    table = pyarrow.table({f"c{j}": x[:, j] for j in range(4)})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    others = [x[::-1], np.asfortranarray(x), [x[:7], x[7:]], table, tmp_path / "x.parquet"]
    for other in others:
        assert np.array_equal(es.mean(other, rows, budget=MU, rng=rng()).value, wanted)
    for threads in (1, 3):
        assert np.array_equal(es.mean(x, rows, budget=MU, rng=rng(), threads=threads).value, wanted)


def test_a_one_shot_source_is_refused_before_anything_is_spent():
    generator = (block for block in [data(50), data(50)])
    with pytest.raises(es.UsageError, match="several times"):
        es.mean(generator, es.Unknown(50.0), budget=MU)
    with pytest.raises(es.UsageError, match="several times"):
        es.learn(iter([data(50)]), es.Unknown(50.0), budget=MU, neighbors="add_remove")


def test_progress_runs_once_from_zero_to_one():
    seen = []
    es.mean(data(), es.Unknown(50.0), budget=MU, progress=seen.append)
    assert seen == sorted(seen)
    assert 0 <= seen[0]
    assert seen[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda x: es.mean(x, es.Unknown(50.0), budget=MU, shape="ball"), "shape"),
        (lambda x: es.mean(x, es.Unknown(50.0), budget=MU, method="nonsense"), "method"),
        (lambda x: es.mean(x, es.Unknown(50.0), budget=MU, n=7), "50 rows"),
        (lambda x: es.mean(x, es.Ball(50.0), budget=MU, method="coinpress"), "method"),
        (lambda x: es.plan(es.Unknown(50.0), n=50, d=5, budget=MU, clip=2.0), "clip"),
        (lambda x: es.plan(es.Unknown(50.0), n=51, d=5, budget=MU).release(x), "n = 51"),
        (lambda x: es.plan(es.Unknown(50.0), n=50, d=4, budget=MU).release(x), "4 columns"),
        (lambda x: es.learn(x, es.Unknown(50.0)), "budget"),
        (lambda x: es.mean(x, es.Unknown(1.1e200), budget=MU), "between 1e-200 and 1e.200"),
        (lambda x: es.mean(x, es.Unknown(9e-201), budget=MU), "between 1e-200 and 1e.200"),
    ],
)
def test_wrong_calls_are_refused(call, word):
    with pytest.raises(es.UsageError, match=word):
        call(data(50))


# --- plans ----------------------------------------------------------------------------------------------


def test_a_plan_is_a_schedule_with_a_forecast():
    made = es.plan(es.Unknown(50.0), n=1000, d=10, epsilon=1, delta=1e-6, statistic="mean")
    assert isinstance(made, LearningPlan)
    assert made.noise_std is None
    assert made.expected_squared_error is None
    assert sum(step.share * step.times for step in made.rounds) == pytest.approx(1)
    assert made.warning is None
    assert "expected error" in repr(made)
    again = LearningPlan.from_json(made.to_json())
    assert again.to_json() == made.to_json()
    x = data(1000, 10)
    assert np.array_equal(made.release(x, rng=rng()).value, again.release(x, rng=rng()).value)
    direct = es.mean(x, es.Unknown(50.0), epsilon=1, delta=1e-6, rng=rng())
    assert np.array_equal(made.release(x, rng=rng()).value, direct.value)
    fields = json.loads(made.to_json())
    fields["privacy"]["mu"] *= 2
    with pytest.raises(es.UsageError, match="guarantee"):
        LearningPlan.from_json(json.dumps(fields))


@pytest.mark.parametrize(("n", "d", "word"), [(20, 100, "cannot"), (200, 100, "rough"), (20, 1, "cannot")])
def test_a_plan_says_when_the_data_cannot_support_an_answer(n, d, word):
    made = es.plan(es.Unknown(50.0), n=n, d=d, budget=MU)
    assert word in made.warning
    assert made.warning in repr(made)
    enough = es.plan(es.Unknown(50.0), n=2 * math.ceil(made.n_needed(0.1)), d=d, budget=MU)
    assert enough.warning is None


def test_a_plan_without_n_has_no_forecast():
    made = es.plan(es.Unknown(50.0), d=3, budget=MU, neighbors="add_remove")
    assert made.rounds == ()
    assert made.relative_error is None
    assert made.warning is None
    assert np.isfinite(made.release(data(100, 3), rng=rng()).value).all()


# --- the law of norms -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1 / 8, 1 / 3, 0.21])
def test_a_law_is_found_through_the_noise(step):
    g = np.random.default_rng(8)
    norms = 3 * np.exp(0.3 * g.normal(size=5000))
    edges = 2.0 ** np.arange(-4, 6, step)
    counts = np.bincount(np.searchsorted(edges, norms), minlength=len(edges) + 1) + 20 * g.normal(size=len(edges) + 1)
    law = fit_norm_law(counts, 20.0, edges, 5000)
    assert law.mass.sum() == pytest.approx(1)
    assert (law.mass >= 0).all()
    for q in (0.1, 0.5, 0.9):
        assert law.quantile(q) == pytest.approx(np.quantile(norms, q), rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("n", "d", "std"), [(1000, 10, 1.0), (1000, 100, 1.0), (4000, 100, 100 / np.arange(1, 101))])
def test_claimed_errors_hold_on_average(relation, n, d, std):
    """Squared error over squared claim, release by release: 1 on average, within 30% (4 standard errors at d = 10).

    Each against its own claim: now and then noise in the far bins of a histogram makes the rounds choose a radius
    several times too large, and such a release says so in its claim; it would drown the others in a sum of claims.
    """
    ratios = []
    for seed in range(40):
        x = data(n, d, seed=seed, std=std)
        found = es.mean(x, es.Unknown(5000.0), budget=MU, neighbors=relation, rng=rng(seed))
        ratios.append(float(((found.value - x.mean(axis=0)) ** 2).sum()) / float((found.noise_std**2).sum()))
    assert 0.7 < np.mean(ratios) < 1.3


@pytest.mark.parametrize(
    ("draw", "most"),
    [
        (lambda generator: generator.lognormal(0, 1.5, (1000, 1)), 0.12),
        (lambda generator: generator.exponential(1, (1000, 1)), 0.12),
        (lambda generator: np.where(generator.random((1000, 1)) < 0.6, 0, generator.lognormal(1, 1, (1000, 1))), 0.16),
    ],
    ids=["lognormal", "exponential", "mostly zero"],
)
def test_one_skewed_column_of_few_rows(draw, most):
    """Error in units of the rows' std: without their tails in the law of norms it is about 0.2, and nothing covers."""
    generator, errors, covered = rng(9), [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        for _ in range(8):
            x = draw(generator)
            found = es.mean(x, es.Unknown(1e4), epsilon=1, delta=1e-6, rng=generator)
            errors.append(float(found.value[0] - x.mean()) / float(x.std()))
            low, high = found.confidence_interval()[0]
            covered += bool(low <= x.mean() <= high or found.warnings)
    assert np.sqrt(np.mean(np.square(errors))) < most
    assert covered >= 6  # at 0.95 fewer than six of eight have odds of 6 in 1000; the noise is fixed


def test_rows_that_seem_all_alike_warn_where_too_few_tell():
    """All but 3% of the rows are zero, and those cannot be told from noise: the interval says nothing of them."""
    generator = rng(0)
    x = np.where(generator.random(1000) < 0.97, 0.0, generator.lognormal(5, 1, 1000))[:, None]
    with pytest.warns(es.AccuracyWarning, match="all alike in"):
        found = es.mean(x, es.Unknown(1e4), epsilon=1, delta=1e-6, rng=generator)
    assert any("all alike" in text for text in es.from_json(found.to_json()).warnings)


def test_axes_of_many_columns_are_learned_where_they_pay():
    """200 columns of rank 3 and a little noise: errors are below half of what columns by themselves give."""
    g = rng(11)
    loads = g.normal(size=(200, 3))
    x = g.normal(size=(6_000, 3)) @ loads.T + 0.1 * g.normal(size=(6_000, 200))
    errors = {}
    for few in (199, 200):  # up to how many columns axes are looked for
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ellipsum.learning.auto._MOST_COLUMNS", few)
            found = es.mean(x, es.Unknown(1e3), budget=MU, rng=rng(12))
        names = {step["name"] for step in found.learned["rounds"]}
        assert ("covariance" in names) == (few == 200)
        errors[few] = np.linalg.norm(found.value - x.mean(axis=0))
    assert errors[200] < errors[199] / 2


def test_axes_that_strong_directions_hid_are_found_in_the_next_turn():
    """Five strong directions leak into 95 weak ones until second moments are taken along them."""
    g = rng(13)
    loads = g.normal(size=(100, 5))
    errors = {}
    for turns in (1, 3):
        squares = []
        for run in range(6):
            x = rng([14, run]).normal(size=(5_000, 5)) @ loads.T + 0.1 * rng([15, run]).normal(size=(5_000, 100))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("ellipsum.learning.axes._MOST_TURNS", turns)
                found = es.mean(x, es.Unknown(1e3), epsilon=1, delta=1e-6, rng=rng([16, run]))
            squares.append(float((found.noise_std**2).sum()))
        errors[turns] = np.sqrt(np.mean(squares))
    assert errors[3] < errors[1] / 1.1


def test_learning_for_later_counts_norms_with_less_noise():
    """The law of norms is what later releases take from it: a fifth of the budget goes to it, not a fortieth."""
    x = rng(19).standard_normal((20_000, 5))
    at_once, later = es.mean(x, es.Unknown(50.0), budget=MU, rng=rng(20)), es.learn(x, es.Unknown(50.0), budget=MU)
    norms = {
        "at once": [step["privacy"]["mu"] for step in at_once.learned["rounds"] if step["name"] == "norms"],
        "later": [step.privacy.mu for step in later.rounds if step.name == "norms"],
    }
    assert norms["later"][-1] > 2 * norms["at once"][-1]


def test_the_plan_of_learning_for_later_says_so():
    """What is shown before any value is read is what is spent: the last histogram takes a fifth."""
    shown = []
    x = rng(19).standard_normal((20_000, 5))
    learned = es.learn(x, es.Unknown(50.0), budget=MU, rng=rng(20), approve=shown.append)
    (planned,) = [step.share for step in shown[0].rounds if step.name == "last norms"]
    spent = [step.privacy.mu**2 for step in learned.rounds if step.name == "norms"][-1]
    assert planned == pytest.approx(spent, rel=0.05)
    assert LearningPlan.from_json(shown[0].to_json()) == shown[0]


def test_clipped_rows_are_a_share_of_all_rows_with_gaps_or_without():
    """Two fifths of all cells are missing: shares of the rows that have a column made one release in five warn."""
    g = rng(21)
    x = np.where(g.random((5_000, 4)) < 0.4, np.nan, g.normal(size=(5_000, 4)))
    for run in range(12):
        assert not es.mean(x, es.Unknown(1e3), epsilon=1, delta=1e-6, rng=rng([22, run])).warnings


def test_few_rows_far_out_are_told_where_a_law_has_none_there():
    """One row in a hundred, a thousand stds off, moves a mean by ten: too few to speak against a law by number."""
    x = rng(23).normal(size=(5_000, 3))
    assert not es.mean(x, es.Normal(np.zeros(3), std=np.ones(3)), budget=MU, rng=rng(24)).warnings
    x[::100] = 1000.0
    with pytest.warns(es.AccuracyWarning, match="times as far out as rows were clipped"):
        es.mean(x, es.Normal(np.zeros(3), std=np.ones(3)), budget=MU, rng=rng(24))


def test_a_ball_that_noise_alone_kept_from_shrinking_shrinks_again():
    """Under this noise two bins of a histogram seem to hold 18% of the rows far out: the error was 2.45."""
    x = 3000 + np.random.default_rng([20, 23, 22]).standard_normal((1000, 10))
    found = es.mean(x, es.Unknown(1e4), epsilon=1, delta=1e-6, rng=np.random.default_rng([20, 23, 22, 0]))
    assert np.linalg.norm(found.value - x.mean(axis=0)) < 0.3


def test_rows_that_seem_alike_are_a_share_of_all_rows_with_gaps_or_without():
    """Forty rows may differ unseen: a twenty-fifth of 1000 rows, a fifth of the 200 that have the column."""
    rows = SimpleNamespace(beyond=lambda: None)
    plan = SimpleNamespace(n=1000, public_rows=True, rows=rows, outside_stds=[5.0])
    plan.ellipsoid = SimpleNamespace(reach=np.full(2, 1e-12))
    counts = SimpleNamespace(rows=np.array([200.0, 150.0]), clipped=np.zeros(4))
    assert at_a_point(plan, counts, 1.0, ["a", "b"]) == ()
    plan.public_rows = False
    (text,) = at_a_point(plan, counts, 1.0, ["a", "b"])
    assert "up to 0.2 of the rows may differ unseen" in text


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("magnitude", [1e150, 1e160, 1e200])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("weights", ["equal", "relative"])
@pytest.mark.parametrize("method", ["auto", "coinpress", "friendly_core"])
def test_releases_of_the_largest_rows_are_saved_and_read(magnitude, columns, weights, method):
    """Squares of what clipping loses leave the range of doubles, and JSON has no infinity."""
    for size in (1.0, 0.2 * magnitude):
        x = np.clip(size * rng(2).normal(size=(500, columns)), -magnitude, magnitude)
        words = {"epsilon": 2, "delta": 1e-6, "weights": weights, "method": method, "rng": rng(3)}
        found = es.mean(x, es.Unknown(magnitude, columns=[f"c{j}" for j in range(columns)]), **words)
        text = found.to_json()
        assert es.from_json(text).to_json() == text
