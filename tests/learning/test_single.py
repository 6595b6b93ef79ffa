"""[K5][L8] One column under pure noise: the law of its last round, where it clips, and when it is chosen."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import ellipsum as es
from ellipsum.integers import Wide
from ellipsum.law_files import law_from_dict
from ellipsum.noise import Stream
from ellipsum.noise_laws import LaplaceLaw
from ellipsum.plans import kinds_of
from ellipsum.privacy import Privacy
from ellipsum.riders import Riders

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
    assert release.plan.law_name == "laplace"
    assert abs(float(release.value[0] - data.mean())) < 4 * known
    low, high = release.confidence_interval(0.999)[0]
    assert low <= data.mean() <= high


def test_a_column_that_ends_at_zero_gets_little_room_below():
    ellipsoid = released(column("exponential")).plan.ellipsoid
    low = float(ellipsoid.center[0] - ellipsoid.reach[0])
    high = float(ellipsoid.center[0] + ellipsoid.reach[0])
    assert -0.5 * high < low < 0.3
    assert 4 < high < 40


def test_a_column_that_goes_on_beyond_zero_is_not_cut_there():
    ellipsoid = released(column("straddling")).plan.ellipsoid
    assert float(ellipsoid.center[0] - ellipsoid.reach[0]) < -0.3


def test_chosen_by_public_numbers_alone():
    def pure(n=N, d=1, **words):
        return es.plan(es.Unknown(1e4), n=n, d=d, statistic="mean", **{**BUDGET, **words}).pure

    assert pure()
    assert not pure(d=2)
    assert not pure(n=1000)
    assert pure(n=4000, neighbours="add_remove")
    assert not pure(n=N, epsilon=0.1)
    assert not pure(noise="gaussian")
    assert not pure(method="coinpress")
    assert not pure(epsilon=1.0, delta=0.3)  # Gaussian noise of so large a delta is as good
    assert not es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", budget=es.Budget(mu=0.5)).pure
    assert not es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", budget=es.Budget(rho=0.1)).pure
    assert not es.plan(es.Unknown(1e4), d=1, statistic="mean", neighbours="add_remove", **BUDGET).pure


def test_people_with_many_rows_need_more_of_them():
    words = {"privacy_id": "id", "per_person": "rows", "statistic": "mean", **BUDGET}
    few, many = (es.plan(es.Unknown(1e4), n=N, d=1, max_rows=rows, **words) for rows in (10, 2))
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
    assert "Laplace" in repr(release.plan)
    assert es.Release.from_json(release.to_json()) == release


@pytest.mark.parametrize(("noise", "pure"), [("auto", True), ("gaussian", False), ("norm", True)])
def test_a_plan_that_is_made_again_keeps_its_noise(noise, pure):
    plan = es.plan(es.Unknown(1e4), n=N, d=1, statistic="mean", noise=noise, **BUDGET)
    assert plan.pure is pure
    assert plan.again(n=2 * N).pure is pure
    few = es.plan(es.Unknown(1e4), n=1000, d=1, statistic="mean", noise="norm", **BUDGET)
    assert few.again(n=1001).pure


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


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", [es.mean, es.sum])
def test_sums_and_private_sizes(statistic, neighbours):
    data = column("normal")
    how = {"neighbours": neighbours, "n": N, "rng": np.random.default_rng(3), **BUDGET}
    release = statistic(data, es.Unknown(1e4), **how)
    assert release.plan.law_name == "laplace"
    truth = float(data.mean() if statistic is es.mean else data.sum())
    low, high = release.confidence_interval(0.999)[0]
    assert low <= truth <= high
    assert float(release.value[0]) == pytest.approx(truth, rel=0.01)


# The law.


def rows_by_hand(bits, riders, count, draws):
    """Integer rows as the kernel makes them: inside, pulled in with a count, absent."""
    rng = np.random.default_rng(0)
    size = 1 + len(riders.absences) + riders.octaves
    for _ in range(draws):
        row = [0] * size
        kind = rng.integers(3)
        if kind == 0:
            row[0] = round(math.ldexp(rng.uniform(-1, 1), bits))
        elif kind == 1:
            row[0] = round(math.ldexp(riders.pull * rng.choice([-1, 1]), bits))
            row[1 + len(riders.absences) + rng.integers(riders.octaves)] = riders.outside[0]
        else:
            row[1] = riders.absences[0]
        yield [*row, *([count] if count else [])]


@pytest.mark.parametrize(("neighbours", "count"), [("replace", 0), ("add_remove", 1000)])
def test_no_neighbours_are_further_apart_than_epsilon(neighbours, count):
    bits, riders = 20, Riders("column", None, (1 << 19,), np.array([0.5]), (1 << 18,), 4, 0.8)
    kinds = kinds_of(bits, riders, count, neighbours, None)
    shares = [0.8, 0.9, *[0.2] * 4] + ([0.1] if count else [])
    law = LaplaceLaw.of([0.85 * share for share in shares], kinds, 1.0)
    law.prove(Privacy.of_pure(1.0, neighbours), Fraction(0), [1] * len(shares), kinds)
    rows = list(rows_by_hand(bits, riders, count, 400))
    others = rows[::-1] if neighbours == "replace" else [[0] * len(rows[0])] * len(rows)
    apart = [
        sum(abs(a - b) / scale for a, b, scale in zip(*pair, law.scales, strict=True))
        for pair in zip(rows, others, strict=True)
    ]
    assert 0.7 < max(apart) <= 1.0


def test_a_tenth_less_noise_is_refused():
    release = released(column("normal"))
    saved = json.loads(release.plan.to_json())
    saved["law"]["scales"][0] *= 0.9
    with pytest.raises(es.UsageError, match="noise is below"):
        es.Plan.from_json(json.dumps(saved))
    saved["law"]["scales"][0] *= math.inf
    with pytest.raises(es.UsageError):
        es.Plan.from_json(json.dumps(saved))


def test_one_scale_for_every_coordinate():
    law = LaplaceLaw((1.0, 2.0))
    assert law_from_dict(law.to_dict()) == law
    riders = Riders("column", None, (1 << 19,), np.array([0.5]), (), 0, 1.0)
    kinds = kinds_of(20, riders, 0, "replace", None)
    with pytest.raises(es.UsageError):
        law.prove(Privacy.of_pure(1.0), Fraction(0), [1, 1, 1], kinds)
    with pytest.raises(es.UsageError):
        law.prove(Privacy(1.0), Fraction(0), [1, 1], kinds)
    with pytest.raises(es.UsageError):
        law.prove(Privacy.of_pure(1.0), Fraction(0), [1, 1], None)


def test_noise_of_the_last_round_has_its_stated_std_and_not_a_tenth_less():
    plan = released(column("normal")).plan
    assert plan.riders.octaves > 4
    stds = plan.noise_law.stds(plan.row_map.width)
    rng = np.random.default_rng(5)
    nothing = Wide.from_ints([0] * plan.row_map.width)
    draws = np.array([plan.noise_law.add(nothing, [], Stream.open(rng)) for _ in range(1500)]) / stds
    error = 6.1 * math.sqrt(5 / (4 * draws.size))  # a root mean square of draws of kurtosis 6; odds of 1e-9
    assert error < 0.08
    assert float(np.sqrt(np.mean(draws**2))) == pytest.approx(1, rel=error)


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("n", [1, 2, 30, 300])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_whatever_the_rows_are_there_is_an_answer(n, epsilon):
    """Nothing about the data decides whether a call fails: odd rows, few rows, small and large budgets."""
    for seed in range(12):
        rng = np.random.default_rng([seed, n])
        odd = [0.0, 1e4, -1e4, np.nan, np.inf, 1e-300, 5.0, 1e300]
        data = rng.choice(rng.choice(odd, rng.integers(1, 4)), (n, 1)) * rng.choice([1.0, rng.random()])
        for neighbours in ("replace", "add_remove"):
            how = {"epsilon": epsilon, "delta": 0, "neighbours": neighbours, "n": n, "rng": rng}
            release = es.mean(data, es.Unknown(float(rng.choice([1e-140, 1e4, 1e140]))), **how)
            assert np.isfinite(release.value).all()
            assert es.Release.from_json(release.to_json()) == release
