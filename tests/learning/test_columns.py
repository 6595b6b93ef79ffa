"""Columns in units of their own: searched all at once, whatever their scales."""

import json

import numpy as np
import pyarrow as pa
import pytest

import ellipsum as es
from ellipsum.learning.columns import FIRST, Column, closer_look, first_look

MU = es.Budget(mu=1.0)
SCALES = 10.0 ** np.arange(-6.0, 7.0, 3.0)


def rng(seed=0):
    return np.random.default_rng(seed)


def counted(values, edges, noise, g):
    return np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1) + noise * g.normal(size=len(edges) + 1)


@pytest.mark.parametrize(
    ("draw", "center", "spread"),
    [
        (lambda g: g.normal(45, 18, 10_000) / 1e8, 45e-8, 18e-8),
        (lambda g: -0.3 + 1e-3 * g.normal(size=10_000), -0.3, 1e-3),
        (lambda g: 1e-9 * g.normal(size=10_000), 0.0, 1e-9),
        (lambda g: 0.5 * (g.random(10_000) < 0.1), 0.05, 0.15),
    ],
    ids=["age", "far from zero", "about zero", "mostly zero"],
)
@pytest.mark.parametrize("noise", [0.0, 30.0, 150.0])
def test_a_column_is_found_through_the_noise(draw, center, spread, noise):
    """Counts of 10,000 rows; the spread within a factor of 2, the center within one spread."""
    g = rng(1)
    values = draw(g)
    column = first_look(counted(values, FIRST, noise, g), noise)
    for _ in range(10):
        edges = np.linspace(column.low - column.length / 8, column.high + column.length / 8, 33)
        if column.length > 2.0**-55:
            column = closer_look(column, edges, counted(values, edges, noise, g), noise)
    assert spread / 2 < column.spread < 2.2 * spread
    assert abs(column.center - center) < spread


def alone(x, seed, share):
    """Errors of each column by itself, for its share of the budget."""
    budget = es.Budget(mu=share**0.5)
    rows = [es.mean(x[:, [j]], es.Unknown(1e8), budget=budget, rng=rng([seed, j])).value[0] for j in range(x.shape[1])]
    return np.array(rows) - x.mean(axis=0)


def test_columns_twelve_orders_apart_err_as_each_alone():
    """Root mean squares over runs and columns, each in its own unit: within 2 times those of single columns."""
    together, single = [], []
    for seed in range(4):
        x = (3 + rng(seed).normal(size=(10_000, 5))) * SCALES
        found = es.mean(x, es.Unknown(1e8), budget=MU, weights="relative", rng=rng(seed + 100))
        together.append((found.value - x.mean(axis=0)) / SCALES)
        single.append(alone(x, seed, 1 / 5) / SCALES)
    assert np.max(np.abs(together)) < 0.05
    assert np.sqrt(np.mean(np.square(together))) < 2 * np.sqrt(np.mean(np.square(single)))


SMALL = es.Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_in_different_units(seed):
    """500 rows of columns ten orders apart, where a closer look at each would drown in the noise."""
    scales = 10.0 ** np.arange(-4.0, 6.1, 2.0)
    x = (2 + rng(seed).normal(size=(500, 6))) * scales
    x[:, 1] *= rng(seed + 10).random(500) < 0.02  # at zero, but for few rows
    found = es.mean(x, es.Unknown(1e8), budget=SMALL, weights="relative", rng=rng(seed + 100))
    others = np.arange(6) != 1
    assert np.abs((found.value - x.mean(axis=0)) / scales)[others].max() < 0.6
    assert found.learned["rounds"][0]["name"] == "columns"
    shown = [step.name for step in es.plan(es.Unknown(1e8), n=500, d=6, budget=SMALL, weights="relative").rounds]
    assert shown[:2] == ["columns", "norms"]


@pytest.mark.parametrize("seed", range(1, 4))
def test_columns_at_zero_keep_the_few_rows_elsewhere(seed):
    """Their units stay of the order of their spreads, or those rows would be farther off than anything that counts."""
    g, few = rng(seed), np.array([1, 2, 4, 4, 7, 9, 22, 33, 48, 49])
    x = np.maximum(8 + 4 * g.normal(size=(1800, 60)), 0)
    x[:, :10] = np.where(g.random((1800, 10)).argsort(axis=0) < few, 1 + x[:, :10] / 4, 0.0)
    x[:, 10:35] *= g.random((1800, 25)) < np.linspace(0.06, 0.9, 25)
    found = es.mean(x, es.Unknown(1e3), budget=SMALL, weights="relative", rng=rng(seed + 100))
    units = 1 / (found.plan.ellipsoid.scale * np.sqrt(60) * x.std(axis=0))
    assert units[6:10].min() > 0.25
    low, high = found.confidence_interval().T
    assert ((low <= x.mean(axis=0)) & (x.mean(axis=0) <= high)).all()


def people(n=4000):
    g = rng(5)
    return pa.table({"age": g.normal(45, 18, n), "income": g.lognormal(10.4, 0.7, n)})


def test_magnitudes_are_stated_by_column():
    table = people()
    rows = es.Unknown({"income": 1e8, "age": 200})
    found = es.mean(table, rows, budget=MU, rng=rng())
    assert found.columns == ("income", "age")
    truth = np.array([np.mean(table["income"].to_numpy()), np.mean(table["age"].to_numpy())])
    assert found.value == pytest.approx(truth, rel=0.05)
    assert found.learned["magnitude"] == [1e8, 200.0]
    again = es.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    plan = es.plan(rows, n=4000, budget=MU, statistic="mean")
    assert plan.d == 2
    assert "income: 1e+08, age: 200" in repr(plan)
    saved = type(plan).from_json(plan.to_json())
    assert saved.to_json() == plan.to_json()
    assert json.loads(plan.to_json())["rows"]["magnitude"] == [1e8, 200.0]
    assert np.array_equal(plan.release(table, rng=rng()).value, found.value)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("weights", ["relative", "equal"])
def test_every_value_lies_within_the_magnitude_of_its_column(relation, weights):
    x = np.array([[1.0, -50.0, 1e6]]) * (1 - 0.01 * rng(9).random((300, 3)))
    sizes = np.array([1.0, 50.0, 1e6])
    for seed in range(3):
        found = es.mean(x, es.Unknown(sizes), budget=MU, neighbors=relation, weights=weights, rng=rng(seed))
        assert (np.abs(found.value) <= sizes).all()


@pytest.mark.parametrize("method", ["coinpress", "instance_optimal", "variance_aware", "friendly_core"])
def test_other_methods_take_the_largest_magnitude(method):
    budget = es.Budget(epsilon=2.0, delta=1e-6)
    x = 10 + rng().normal(size=(2000, 2))
    wide = es.mean(x, es.Unknown([50.0, 50.0]), budget=budget, method=method, rng=rng())
    assert np.array_equal(wide.value, es.mean(x, es.Unknown(50.0), budget=budget, method=method, rng=rng()).value)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: es.Unknown({}), "at least one column"),
        (lambda: es.Unknown({"a": 1.0}, columns=("a",)), "either"),
        (lambda: es.Unknown([1.0, 0.0]), "between"),
        (lambda: es.Unknown({"a": "much"}), "magnitude"),
        (lambda: es.Unknown([1.0, np.nan]), "magnitude"),
        (lambda: es.plan(es.Unknown([1.0, 2.0]), n=100, d=3, budget=MU), "number of columns"),
        (lambda: es.mean(people(), es.Unknown([1.0, 2.0, 3.0]), budget=MU), "number of columns"),
        (lambda: es.mean(people(), es.Unknown({"age": 1.0, "height": 2.0}), budget=MU), "height"),
    ],
)
def test_wrong_magnitudes_are_refused(make, word):
    with pytest.raises(es.UsageError, match=word):
        make()


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
def test_a_column_of_one_value_but_for_few_rows_spoils_no_other():
    """Its unit shrinks step by step until those few are farther off than anything: norms tell, and it is undone."""
    rng = np.random.default_rng(4)
    n = 20_000
    flags = (rng.random((n, 3)) < 0.012).astype(float)
    rows = np.column_stack([rng.normal(5, 2, (n, 4)), rng.exponential(3, (n, 2)), flags])
    known = es.Unknown(100, columns=[f"c{j}" for j in range(9)])
    for seed in range(6):
        made = es.mean(rows, known, budget=es.Budget(mu=0.12), rng=np.random.default_rng(seed), threads=1)
        assert np.abs((made.value - rows.mean(axis=0)) / rows.std(axis=0)).max() < 0.5


def test_rows_at_one_point_do_not_spread_over_bins_of_noise():
    """Bins that were chosen for holding most hold noise: 800 rows at zero beside them are still at one point."""
    start = Column(-0.1, 0.1, 0.0, 0.2)
    edges = np.linspace(-0.1, 0.1, 33)
    found = []
    for seed in range(200):
        counts = 60 * np.random.default_rng(seed).standard_normal(34)
        counts[17] += 800
        found.append(closer_look(start, edges, counts, 60.0))
    assert not any(column.found for column in found)  # a third of them were
    assert all(abs(column.center) < 0.01 for column in found if not column.found)


def test_a_column_that_hardly_any_row_has_is_not_seen():
    rng = np.random.default_rng(3)
    assert not any(first_look(500 * rng.standard_normal(FIRST.size + 1), 500.0).seen for _ in range(200))


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
def test_columns_of_zeros_and_of_skewed_amounts_in_other_units_are_found():
    """A fifth of 10,000 rows have an amount: the first look at octaves may miss them, a second one does not."""
    g = np.random.default_rng(7)
    units = np.array([3.0, 2000.0, 0.5, 40.0])
    rows = units * g.lognormal(size=(10_000, 4)) * (g.random((10_000, 4)) < 0.2)
    known = es.Unknown(1e6, columns=["visits", "claims", "hours", "points"])
    for seed in range(12):
        made = es.mean(rows, known, epsilon=1, delta=1e-6, rng=np.random.default_rng(seed), threads=1)
        assert np.abs((made.value - rows.mean(axis=0)) / rows.std(axis=0)).max() < 0.3


def test_zeros_that_are_fewer_than_the_rows_elsewhere_are_not_the_column():
    """3000 zeros in one bin stand out, 7000 rows over all octaves do not: the interval before holds both."""
    g = np.random.default_rng(5)
    values = np.where(np.arange(10_000) < 3_000, 0.0, 0.04 * g.random(10_000))
    found = []
    for _ in range(20):
        column = first_look(counted(values, FIRST, 395.0, g), 395.0)
        for _ in range(6):
            edges = np.linspace(column.low - column.length / 8, column.high + column.length / 8, 33)
            column = closer_look(column, edges, counted(values, edges, 395.0, g), 395.0)
        found.append(column.spread)
    assert min(found) > values.std() / 4  # some were ten millionths of it


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
def test_learned_rows_of_many_zeros_clip_where_their_own_release_does():
    """Norms about a center beside the zeros are many spreads long: clipping seemed to lose seven times too much."""
    g = np.random.default_rng(7)
    rows = np.array([3.0, 2000.0, 0.5, 40.0]) * g.lognormal(size=(10_000, 4)) * (g.random((10_000, 4)) < 0.2)
    known = es.Unknown(1e6, columns=["visits", "claims", "hours", "points"])
    first, second = es.Budget(epsilon=1, delta=1e-6).split(1, 1)
    errors = []
    for seed in range(8):
        learned = es.learn(rows, known, budget=first, rng=rng(seed), threads=1).rows
        made = es.mean(rows, learned, budget=second, rng=rng(seed + 100), threads=1)
        errors.append((made.value - rows.mean(axis=0)) / rows.std(axis=0))
    assert np.sqrt(np.mean(np.square(errors))) < 0.04  # 0.03 or less; it was 0.07
