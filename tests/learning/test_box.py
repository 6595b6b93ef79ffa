"""[K1][L8] Few columns under pure noise: where each is clamped, what is counted beside, and when it is chosen."""

import json
import math
import re

import numpy as np
import pytest

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.learning.maps import CoordinateHistogram, FarCount
from ellipsum.noise import Stream
from ellipsum.numerics.wide_integers import Wide

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
N = 20_000


def column(law, seed=0, n=N):
    rng = np.random.default_rng(seed)
    return {
        "normal": lambda: rng.normal(5, 1, n),
        "zeros": lambda: np.where(rng.random(n) < 0.6, 0, rng.lognormal(1, 1, n)),
        "rare": lambda: (rng.random(n) < 0.05).astype(float),
        "exponential": lambda: rng.exponential(1, n),
        "humps": lambda: np.where(rng.random(n) < 0.4, rng.normal(-10, 1, n), rng.normal(10, 1, n)),
        "far": lambda: rng.normal(1000, 1, n),
        "straddling": lambda: rng.normal(2, 1, n),
    }[law]()[:, None]


def released(data, seed=1, **words):
    return es.mean(data, es.Unknown(1e4), rng=np.random.default_rng(seed), **{**BUDGET, **words})


LAWS = ["normal", "zeros", "rare", "exponential", "humps", "far", "straddling"]


@pytest.mark.parametrize("law", LAWS)
def test_errs_less_than_gaussian_noise_alone_would(law):
    """Within four stds of Gaussian noise in a region that is known to hold six stds of the rows on either side."""
    data = column(law)
    known = 2 * 6 * data.std() / (es.Budget(**BUDGET).mu * N)
    release = released(data)
    assert release.plan.mechanism == "box"
    assert abs(float(release.value[0] - data.mean())) < 4 * known
    low, high = release.confidence_interval(0.999)[0]
    assert low <= data.mean() <= high


def test_a_column_that_ends_at_zero_gets_little_room_below():
    rows = released(column("exponential")).plan.rows
    low, high = float(rows.lower[0]), float(rows.upper[0])
    assert -0.5 * high < low < 0.3
    assert 4 < high < 40


def test_a_column_that_goes_on_beyond_zero_is_not_cut_there():
    assert float(released(column("straddling")).plan.rows.lower[0]) < -0.3


def test_chosen_by_public_numbers_alone():
    def pure(n=N, d=1, **words):
        return es.plan(es.Unknown(1e4), n=n, d=d, statistic="mean", **{**BUDGET, **words}).pure

    assert pure()
    assert [pure(d=d) for d in (2, 3, 4, 5)] == [True, True, False, False]
    assert pure(n=40_000, d=4)
    assert [pure(n=2000, d=d) for d in (1, 2)] == [True, False]
    assert not pure(n=800)
    assert pure(n=500, neighbors="add_remove")
    assert not pure(n=N, epsilon=0.01)
    assert not pure(noise="gaussian")
    assert not pure(method="coinpress")
    assert not pure(epsilon=1.0, delta=0.3)  # Gaussian noise of so large a delta is as good
    assert not es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", budget=es.Budget(mu=0.5)).pure
    assert not es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", budget=es.Budget(rho=0.1)).pure
    assert not es.plan(es.Unknown(1e4), d=1, statistic="mean", neighbors="add_remove", **BUDGET).pure


def test_people_with_many_rows_need_more_of_them():
    words = {"privacy_id": "id", "per_person": "rows", "statistic": "mean", **BUDGET}
    few, many = (es.plan(es.Unknown(1e4), n=N, d=1, max_rows=rows, **words) for rows in (40, 2))
    assert (few.pure, many.pure) == (False, True)


def test_groups_keep_gaussian_rounds():
    plan = es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", by="g", keys=["a", "b"], **BUDGET)
    assert not plan.pure


def test_the_plan_and_the_release_say_so_and_delta_is_not_spent():
    plan = es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", **BUDGET)
    assert "pure in every round" in repr(plan)
    release = plan.release(column("normal"), rng=np.random.default_rng(0))
    assert release.privacy.epsilon(0) == 1.0
    assert release.privacy.pure == (1.0,)
    assert "pure epsilon" in repr(release.plan)
    assert es.Release.from_json(release.to_json()) == release


@pytest.mark.parametrize(("noise", "pure"), [("auto", True), ("gaussian", False), ("norm", True)])
def test_a_plan_that_is_made_again_keeps_its_noise(noise, pure):
    plan = es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", noise=noise, **BUDGET)
    assert plan.pure is pure
    assert plan.again(n=2 * N).pure is pure
    few = es.plan(es.Unknown(1e4), n=500, d=1, statistic="mean", noise="norm", **BUDGET)
    assert few.again(n=501).pure


def test_learned_rows_are_about_their_mean():
    learned = es.learn(column("exponential"), es.Unknown(1e4), rng=np.random.default_rng(2), **BUDGET).rows
    assert float(learned.center[0]) == pytest.approx(1, abs=0.1)
    assert learned.norm_law.median * float(learned.std[0]) == pytest.approx(0.62, abs=0.25)  # of |x - 1|


def test_missing_entries_are_counted():
    data = column("normal")
    data[: N // 4] = np.nan
    release = released(data)
    assert float(release.value[0]) == pytest.approx(5, abs=0.02)
    assert float(release.counts.rows[0]) == pytest.approx(0.75 * N, abs=60)


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", [es.mean, es.sum])
def test_sums_and_private_sizes(statistic, neighbors):
    data = column("normal")
    how = {"neighbors": neighbors, "n": N, "rng": np.random.default_rng(3), **BUDGET}
    release = statistic(data, es.Unknown(1e4), **how)
    assert release.plan.mechanism == "box"
    truth = float(data.mean() if statistic is es.mean else data.sum())
    low, high = release.confidence_interval(0.999)[0]
    assert low <= truth <= high
    assert float(release.value[0]) == pytest.approx(truth, rel=0.01)


# Several columns, and what is counted.


def table(n=40_000, seed=0):
    """Units far apart, skew, a column that a fifth of the rows lack."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.normal(45, 15, n), rng.lognormal(10, 0.8, n), rng.exponential(0.01, n)], axis=1)
    rows[: n // 5, 1] = np.nan
    return rows


MAGNITUDES = es.Unknown({"age": 1e3, "income": 1e8, "share": 1e3})


def released_table(rows, statistic=es.mean, seed=1, **words):
    frame = {name: rows[:, j] for j, name in enumerate(("age", "income", "share"))}
    return statistic(frame, MAGNITUDES, rng=np.random.default_rng(seed), **{**BUDGET, **words})


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", [es.mean, es.sum])
def test_few_columns_are_clamped_one_by_one(statistic, neighbors):
    rows = table()
    release = released_table(rows, statistic, neighbors=neighbors, n=len(rows))
    plan = release.plan
    assert (plan.mechanism, plan.clamped, plan.rows.kind) == ("box", True, "learned_box")
    truth = np.nanmean(rows, axis=0) if statistic is es.mean else np.nansum(rows, axis=0)
    low, high = release.confidence_interval(0.999).T
    assert ((low <= truth) & (truth <= high)).all()
    assert np.allclose(release.value, truth, rtol=0.02)
    assert release.counts.rows[1] == pytest.approx(0.8 * len(rows), abs=400)
    assert es.Release.from_json(release.to_json()) == release
    assert "rows" in repr(release)
    assert "counts noisy" in repr(release)


def test_an_absent_cell_counts_as_the_mean_so_that_its_count_hardly_matters():
    """About the middle of its ends, 0.4 of a half-width off, the noise of the count would be four times the value's."""
    release = released_table(table())
    own = release.noise.own[1]
    away = abs(float(release.plan.rows.mean[1] - release.plan.ellipsoid.center[1]))
    assert own < release.noise_std[1] / 4
    assert own < 0.2 * away * release.counts.stds[1] / release.counts.rows[1]


def test_errs_less_than_gaussian_rounds_on_skewed_columns():
    squares = {"auto": [], "gaussian": []}
    for seed in range(6):
        rows = table(seed=seed)
        for noise, found in squares.items():
            value = released_table(rows, seed=seed, noise=noise).value
            found.append(((value - np.nanmean(rows, axis=0)) / np.nanstd(rows, axis=0)) ** 2)
    assert np.mean(squares["auto"]) < np.mean(squares["gaussian"]) / 2


def with_far_rows(share, n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(5, 1, (n, 2))
    rows[rng.random(n) < share, 0] = 9000.0
    return rows


def test_rows_far_out_are_found_by_a_closer_look():
    rows = with_far_rows(0.014)
    release = released(rows)
    names = [step["name"] for step in release.learned["rounds"]]
    assert names.count("far rows") == 2
    assert names[-2] == "columns"  # distances once more
    low, high = release.confidence_interval()[0]
    assert low <= rows[:, 0].mean() <= high
    assert float(release.value[0]) == pytest.approx(rows[:, 0].mean(), rel=0.1)


def test_without_rows_far_out_there_is_no_closer_look():
    names = [step["name"] for step in released(with_far_rows(0.0)).learned["rounds"]]
    assert names == ["columns", "columns", "columns", "far rows", "final"]


def test_rows_far_out_that_cannot_be_placed_are_told():
    """Scattered over all octaves on both sides no bin holds enough of them, but their number is sure."""
    rng = np.random.default_rng(3)
    rows = rng.normal(5, 1, (20_000, 2))
    far = rng.random(20_000) < 0.018
    where = np.exp(rng.uniform(np.log(60), np.log(9000), far.sum())) * rng.choice([-1, 1], far.sum())
    rows[far, rng.integers(0, 2, far.sum())] = where
    with pytest.warns(es.AccuracyWarning, match="far beyond the others"):
        release = released(rows)
    told = int(re.search(r"about (\d+) rows", release.warnings[0]).group(1))
    assert told == pytest.approx(far.sum(), rel=0.4)
    assert es.Release.from_json(release.to_json()).warnings == release.warnings


def test_a_count_of_far_rows_is_one_apart_between_any_two_rows():
    """[L2] By brute force: any row in the place of any other moves it by at most one; missing entries are not far."""
    row_map = FarCount([0.0, 10.0], [1.0, 2.0])
    odd = [0.0, 1.0, 1.5, -3.0, 8.0, 10.0, 12.5, np.nan, np.inf, -np.inf, 1e300, -1e308]
    rows = np.array(np.meshgrid(odd, odd)).reshape(2, -1).T.copy()
    sums = [int(accumulate(row_map, [row[None, :]], threads=1).sums.to_ints()[0]) for row in rows]
    finite = np.isfinite(rows)
    expected = ((np.abs(rows - [0, 10]) > [1, 2]) & finite).any(axis=1)
    assert sums == expected.astype(int).tolist()
    assert (row_map.body.changes("replace"), row_map.body.changes("add_remove")) == (1, 1)
    assert row_map.body.changes("replace", 3) == 3


@pytest.mark.parametrize("absences", [False, True])
def test_missing_entries_have_a_bin_of_their_own_where_asked(absences):
    edges = np.array([[0.0, 1.0], [5.0, 6.0]])
    row_map = CoordinateHistogram(edges, absences=absences)
    rows = np.array([[0.5, np.nan], [np.inf, 5.5], [2.0, 9.0], [-np.inf, np.nan]])
    table = row_map.table(accumulate(row_map, [rows], threads=1).sums.to_float())
    wanted = np.array([[0.0, 1, 1, 2], [0, 1, 1, 2]])
    assert np.array_equal(table, wanted if absences else wanted[:, :3])
    assert row_map.body.changes("replace") == 4


# The noise.


def test_a_tenth_less_noise_is_refused():
    saved = json.loads(released_table(table()).plan.to_json())
    saved["law"]["scales"][0] *= 0.9
    with pytest.raises(es.UsageError, match="noise is below"):
        es.Plan.from_json(json.dumps(saved))
    saved["law"]["scales"][0] *= math.inf
    with pytest.raises(es.UsageError):
        es.Plan.from_json(json.dumps(saved))


def test_noise_of_the_last_round_has_its_stated_std_and_not_a_tenth_less():
    release = released_table(table())
    plan = release.plan
    assert plan.riders.width == 0  # all of epsilon that is left is for values
    stds = plan.noise_law.stds(3)
    rng = np.random.default_rng(5)
    nothing = Wide.from_ints([0] * 3)
    draws = np.array([plan.noise_law.add(nothing, [], Stream.open(rng)) for _ in range(6000)]) / stds
    error = 6.1 * math.sqrt(5 / (4 * len(draws)))  # of a root mean square; kurtosis 6 at most, columns alike; odds 1e-9
    assert error < 0.09
    assert float(np.sqrt(np.mean(draws**2))) == pytest.approx(1, rel=error)
    left = release.learned["rounds"][-1]["privacy"]["pure"][0]
    alone = (plan.rows.upper - plan.rows.lower) * math.sqrt(2) / left  # Laplace noise of a column that has all of it
    assert (plan.noise_base[0].unscale * plan.noise_base[1] > alone).all()


def test_rounds_add_up_to_epsilon_and_no_more():
    spent = [step["privacy"]["pure"][0] for step in released(with_far_rows(0.02)).learned["rounds"]]
    assert 1 - 1e-9 < sum(spent) <= 1


@pytest.mark.parametrize("field", ["missed", "absent_std", "unseen", "mean", "std"])
def test_doctored_columns_are_refused(field):
    saved = json.loads(released_table(table()).plan.to_json())
    rows = saved["rows"]
    rows[field] = -1 if field == "unseen" else [-1e12] * 3
    with pytest.raises(es.UsageError):
        es.Plan.from_json(json.dumps(saved))


def test_a_report_and_a_picture_of_learned_columns(tmp_path):
    release = released_table(table())
    release.report(tmp_path / "mean.html")
    assert "learned ends" in (tmp_path / "mean.html").read_text()
    release.plot(tmp_path / "mean.png")


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("n", [1, 2, 30, 300])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_whatever_the_rows_are_there_is_an_answer(n, epsilon):
    """Nothing about the data decides whether a call fails: odd rows, few rows, small and large budgets."""
    for seed in range(12):
        rng = np.random.default_rng([seed, n])
        odd = [0.0, 1e4, -1e4, np.nan, np.inf, 1e-300, 5.0, 1e300]
        data = rng.choice(rng.choice(odd, rng.integers(1, 4)), (n, seed % 4 + 1)) * rng.choice([1.0, rng.random()])
        for neighbors in ("replace", "add_remove"):
            how = {"epsilon": epsilon, "delta": 0, "neighbors": neighbors, "n": n, "rng": rng}
            how |= {"missing": str(rng.choice(["column", "row", "center"])), "weights": "relative"}
            statistic = es.mean if rng.random() < 0.5 else es.sum
            release = statistic(data, es.Unknown(float(rng.choice([1e-140, 1e4, 1e140]))), **how)
            assert np.isfinite(release.value).all()
            assert es.Release.from_json(release.to_json()) == release
