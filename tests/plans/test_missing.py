"""Missing entries: which rows a statistic is over, what is counted, and that errors are as forecast."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import ellipsum as es

HUGE = es.Budget(mu=1e6)
RELATIONS = ["replace", "add_remove"]
LOWER, UPPER = np.array([1.0, -3.0, 10.0]), np.array([5.0, 9.0, 11.0])
MIDDLE = (LOWER + UPPER) / 2
COVARIANCE = [[1.0, 0.9, 0.0], [0.9, 9.0, 0.05], [0.0, 0.05, 0.0625]]
ROWS = {
    "box": es.Box(LOWER, UPPER),
    "normal": es.Normal(MIDDLE, std=(UPPER - LOWER) / 4),
    "correlated": es.Normal(MIDDLE, cov=COVARIANCE),
    "ball": es.Ball(9.0, MIDDLE),
}
CLIPPED = {
    "normal": es.Normal(MIDDLE, std=(UPPER - LOWER) / 4, shape="ball", clip=6.0),
    "correlated": es.Normal(MIDDLE, cov=COVARIANCE, shape="ball", clip=6.0),
}
USUAL = {"box": "skip", "normal": "skip", "correlated": "skip", "ball": "drop_row"}


def rng(seed=0):
    return np.random.default_rng(seed)


def slow(case):
    """A case that only the slow run has."""
    return pytest.param(case, marks=pytest.mark.slow)


def data(pattern, n=2000, seed=1):
    """Rows within the bounds; some entries are missing at random, or where they are large."""
    x = rng(seed).uniform(LOWER, UPPER, (n, 3))
    if pattern == "random":
        x[rng(2).random(x.shape) < [0.3, 0.1, 0.5]] = np.nan
    elif pattern == "large":
        x[x > LOWER + 0.7 * (UPPER - LOWER)] = np.nan
    elif pattern == "infinite":
        x[::3, 0], x[1::5, 1] = np.inf, -np.inf
    return x


def wanted(x, missing, statistic, center):
    """The statistic by its rule, in plain numpy, and the rows that it is over."""
    x = np.where(np.isfinite(x), x, np.nan)
    if missing == "drop_row":
        x = x[np.isfinite(x).all(axis=1)]
    elif missing == "none":
        x = np.where(np.isnan(x), center, x)
    elif not isinstance(missing, str):
        x = np.where(np.isnan(x), missing, x)
    with np.errstate(all="ignore"):
        value = np.nanmean(x, axis=0) if statistic == "mean" else np.nansum(x, axis=0)
    return value, np.isfinite(x).sum(axis=0)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("pattern", [slow("none"), "random", slow("large"), slow("infinite")])
@pytest.mark.parametrize("missing", [None, "skip", "drop_row", "none", [1.5, 0.0, 10.25]])
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_with_a_huge_budget_every_rule_gives_its_statistic(statistic, relation, kind, missing, pattern):
    x = data(pattern)
    known = {"n": len(x)} if relation == "add_remove" else {}
    how = {"budget": HUGE, "neighbors": relation, "missing": missing, **known}
    made = getattr(es, statistic)(x, ROWS[kind], **how)
    rule = USUAL[kind] if missing is None else missing
    value, rows = wanted(x, rule, statistic, MIDDLE)
    # Normal rows may be clipped a little even so: one of 2000, and by less than a std.
    slack = 1e-4 * (UPPER - LOWER) if kind in ("normal", "correlated") else 1e-5 * np.ones(3)
    assert (np.abs(made.value - value) < slack * (len(x) if statistic == "sum" else 1)).all()
    assert (np.abs(made.value - value) < made.confidence_interval(1 - 1e-9)[:, 1] - made.value + 1e-9).all()
    counted = counted_columns(made.plan)
    assert counted.any() == (rule in ("drop_row", "skip"))
    assert made.counts.rows[counted] == pytest.approx(rows[counted], abs=0.01)
    assert made.counts.rows[~counted] == pytest.approx(len(x), abs=0.01)
    assert made.warnings == ()
    again = es.from_json(made.to_json())
    assert again.to_json() == made.to_json()


def counted_columns(plan):
    """The columns whose rows have a noisy number of their own, or share one of complete rows."""
    return np.broadcast_to((plan.auxiliary.absences if plan.auxiliary.absences.size else np.zeros(1)) > 0, plan.d)


def test_one_number_fills_every_column():
    x = data("random") - LOWER
    for rows in (es.Box(0.0, UPPER - LOWER), es.Ball(30.0), es.Normal(3.0, 4.0)):
        made = es.mean(x, rows, missing=0.5, budget=HUGE)
        assert made.value == pytest.approx(np.where(np.isnan(x), 0.5, x).mean(axis=0), abs=1e-4)
        assert made.counts.rows.tolist() == [2000.0] * 3


@pytest.mark.one_in(6)
@pytest.mark.parametrize("pattern", ["none", "random", "large"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_unknown_rows_are_over_the_rows_that_have_a_column(relation, pattern):
    x = data(pattern, 4000)
    for statistic in ("mean", "sum"):
        for missing in (None, "drop_row", 3.0):
            how = {"budget": es.Budget(mu=300.0), "neighbors": relation, "missing": missing, "rng": rng()}
            made = getattr(es, statistic)(x, es.Unknown(50.0), n=len(x), **how)
            rule = "skip" if missing is None else missing
            value, rows = wanted(x, rule, statistic, None)
            far = np.abs(made.value - value) / (rows if statistic == "sum" else 1)
            assert (far < 2e-3 * (UPPER - LOWER)).all(), missing
            low, high = made.confidence_interval(1 - 1e-6).T
            assert ((low <= value) & (value <= high)).all(), missing
            if rule in ("skip", "drop_row"):
                assert made.counts.rows == pytest.approx(rows, abs=3)


def test_the_center_keeps_missing_entries_of_unknown_rows_where_they_were():
    """missing="none": they count as wherever the center was found, and nothing is counted."""
    x = data("random", 4000)
    made = es.mean(x, es.Unknown(50.0), budget=es.Budget(mu=300.0), missing="none", rng=rng())
    assert made.plan.auxiliary.absences.size == 0
    assert not made.counts.stds.any()
    center = made.plan.ellipsoid.center
    value, _ = wanted(x, "none", "mean", center)
    assert (np.abs(made.value - value) < 5e-3 * (UPPER - LOWER)).all()


# What needs no count ------------------------------------------------------------------------------------


def test_whole_numbers_are_never_missing_and_need_no_count():
    x = rng().integers(1, 5, (500, 3))
    for kind in (np.int64, np.uint8, np.int16, bool):
        for rows in (es.Box(0.5, 4.5), es.Normal(2.5, 1.0), es.Ball(9.0, 2.0), es.Unknown(9.0)):
            made = es.mean(x.astype(kind), rows, budget=es.Budget(mu=3.0), count_clipped=False, rng=rng())
            assert not made.counts.stds.any()
            assert made.counts.rows.tolist() == [500.0] * 3
            assert not any(made.plan.auxiliary.absences)
    plain = es.mean(x.astype(float), es.Box(0.5, 4.5), missing="none", budget=es.Budget(mu=3.0), rng=rng())
    whole = es.mean(x, es.Box(0.5, 4.5), budget=es.Budget(mu=3.0), rng=rng())
    assert np.array_equal(plain.value, whole.value)
    assert np.array_equal(plain.noise_std, whole.noise_std)


def test_types_say_which_columns_may_be_missing():
    n = 300
    whole, real = pa.array(np.arange(n) % 7), pa.array(rng().uniform(0, 6, n))
    sure = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.float64())])
    made = es.mean(pa.table([whole, real], schema=sure), es.Box(0, 7), budget=es.Budget(mu=1.0))
    assert [unit > 0 for unit in made.plan.auxiliary.absences] == [False, True]
    assert [std > 0 for std in made.counts.stds] == [False, True]
    gaps = pa.table({"a": pa.array([None if i % 2 else 3 for i in range(n)]), "b": real})
    made = es.mean(gaps, es.Box(0, 7), budget=HUGE)
    assert all(made.plan.auxiliary.absences)
    assert made.value[0] == pytest.approx(3.0, abs=1e-4)
    assert made.counts.rows[0] == pytest.approx(n / 2, abs=0.01)
    masked = np.ma.masked_greater(np.arange(40).reshape(20, 2), 30)
    made = es.mean(masked, es.Box(0, 40), budget=HUGE)
    assert made.value == pytest.approx(np.asarray(masked.mean(axis=0)), abs=1e-3)
    # Not a single value decides it: floats without any gap are counted all the same.
    assert all(es.mean(np.ones((9, 2)), es.Box(0, 7), budget=HUGE).plan.auxiliary.absences)


def test_a_text_file_may_lack_any_cell(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\nx,4\n5,6\n")
    made = es.mean(tmp_path / "t.csv", es.Box(0, 9), budget=HUGE)
    assert made.value == pytest.approx([3.0, 4.0], abs=1e-4)
    assert made.counts.rows == pytest.approx([3.0, 3.0], abs=1e-4)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_sum_with_zero_inside_its_bounds_needs_no_count(relation):
    """An absent cell adds nothing: where 0 is a value of the column it is filled in, exactly."""
    inside, outside = es.Box([-1, 0, -5], [4, 2, 0]), es.Box([1, 0, -5], [4, 2, -1])
    free = es.plan("sum", inside, n=100, neighbors=relation, budget=HUGE)
    assert not any(free.auxiliary.absences)
    plain = es.plan("sum", inside, n=100, neighbors=relation, missing="none", budget=HUGE)
    assert np.array_equal(free.noise_std, plain.noise_std)
    assert free.expected_squared_error == plain.expected_squared_error
    counted = es.plan("sum", outside, n=100, neighbors=relation, budget=HUGE)
    assert [unit > 0 for unit in counted.auxiliary.absences] == [True, False, True]
    about_zero = es.plan("sum", es.Normal(0.0, 1.0), n=100, d=3, neighbors=relation, budget=HUGE)
    assert not any(about_zero.auxiliary.absences)
    x = rng().uniform([1, 0, -5], [4, 2, -1], (100, 3))
    x[rng(3).random(x.shape) < 0.3] = np.nan
    for plan in (free, counted):
        assert plan.release(x).value == pytest.approx(np.nansum(x, axis=0), abs=1e-3)


def test_a_plan_for_columns_without_gaps_is_not_run_on_others():
    """Their types say so, before any value is read: gaps would sit at the center without a word."""
    whole = rng().integers(1, 5, (50, 2))
    for rows in (es.Box(0, 9), es.Normal(2.5, 1.0), es.Ball(9.0)):
        plan = es.mean(whole, rows, budget=HUGE, count_clipped=False).plan
        assert plan.release(whole).value == pytest.approx(whole.mean(axis=0), abs=1e-3)
        for again in (plan, es.Plan.from_json(plan.to_json())):
            with pytest.raises(es.UsageError, match="missing values"):
                again.release(whole.astype(float))
    constant = es.mean(np.full((9, 2), 5.0), es.Box([5, 0], [5, 9]), budget=HUGE)  # a column that never varies is known
    assert constant.value == pytest.approx([5.0, 5.0], abs=1e-4)
    for rows, how in ((es.Box(0, 9), {}), (es.Ball(9.0), {"missing": "none"})):
        plan = es.sum(whole, rows, budget=HUGE, count_clipped=False, **how).plan
        assert plan.release(whole.astype(float)).value == pytest.approx(whole.sum(axis=0), abs=1e-3)


def test_wrong_words_are_refused():
    x = data("random", 30)
    for missing in ("median", "", b"drop_row", [1.0], np.nan, np.inf, [1.0, np.nan, 2.0], {"a": 1}, [[1.0]]):
        with pytest.raises(es.UsageError, match="missing"):
            es.mean(x, ROWS["box"], missing=missing, budget=HUGE)
        with pytest.raises(es.UsageError, match="missing"):
            es.plan("sum", ROWS["normal"], n=9, missing=missing, budget=HUGE)
    with pytest.raises(es.UsageError, match="within the bounds of its column"):
        es.plan("sum", ROWS["box"], n=9, missing=2.5, budget=HUGE)
    for check in ("yes", 1, 0.0):
        with pytest.raises(es.UsageError, match="count_clipped"):
            es.mean(x, ROWS["box"], count_clipped=check, budget=HUGE)


# Errors -------------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_errors_are_as_forecast(statistic, relation, share):
    """Data whose mean is as far from the middle as [U2] takes it; a share missing takes as much from a mean's divisor.

    300 squared errors: within 5 of their own standard errors, which are far below the forecast.
    """
    n, mu = 20_000, 0.3
    half = (UPPER - LOWER) / 2
    x = MIDDLE + half / np.sqrt(3) + rng().uniform(-0.1, 0.1, (n, 3)) * half
    for j in range(3):
        x[rng(j).permutation(n)[: round(share * n)], j] = np.nan
    plan = es.plan(statistic, ROWS["box"], n=n, neighbors=relation, budget=es.Budget(mu=mu))
    truth = np.nanmean(x, axis=0) if statistic == "mean" else np.nansum(x, axis=0)
    generator = rng(7)
    errors = np.array([np.sum((plan.release(x, rng=generator, threads=1).value - truth) ** 2) for _ in range(300)])
    forecast = plan.expected_squared_error / ((1 - share) ** 2 if statistic == "mean" else 1)
    se = errors.std(ddof=1) / np.sqrt(errors.size)
    assert abs(errors.mean() - forecast) < 5 * se
    assert 5 * se < 0.5 * forecast


@pytest.mark.one_in(4)
@pytest.mark.parametrize("share", [slow(0.0), 0.3])
@pytest.mark.parametrize("missing", ["skip", "drop_row", "none"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("kind", ROWS)
def test_noise_is_as_stated(kind, statistic, relation, missing, share):
    """Every column's squared errors over the stated variance are chi-square, and at 0.75 of the noise would not be."""
    n, repeats = 3000, 300
    bounds = {**ROWS, **CLIPPED}[kind]
    x = MIDDLE + rng().uniform(0.1, 0.5, (n, 3)) * (UPPER - LOWER) / 2
    x[rng(3).random(x.shape) < share] = np.nan
    budget = es.Budget(mu=1.0)
    plan = es.plan(statistic, bounds, n=n, neighbors=relation, missing=missing, budget=budget)
    truth, _ = wanted(x, missing, statistic, MIDDLE)
    generator = rng(8)
    made = [plan.release(x, rng=generator, threads=1) for _ in range(repeats)]
    z = np.array([(r.value - truth) / r.noise_std for r in made])
    squares = (z**2).sum(axis=0)
    low, high = stats.chi2.ppf([1e-7, 1 - 1e-7], repeats)
    assert low > 0.75**2 * repeats
    assert high < repeats / 0.75**2
    assert ((low < squares) & (squares < high)).all()
    assert (np.abs(z.mean(axis=0)) < 5.5 / np.sqrt(repeats)).all()
    counted = counted_columns(plan)
    _, rows = wanted(x, missing, statistic, MIDDLE)
    z = np.array([(r.counts.rows - rows)[counted] / r.counts.stds[counted] for r in made])
    squares = (z**2).sum(axis=0)
    assert ((low < squares) & (squares < high)).all()
    assert counted.any() == (missing != "none")
