"""Every law of noise with what data may be like: absences, outliers, one row, no width, people, matrices."""

import numpy as np
import pytest

import ellipsum as es

RICH = {"epsilon": 40.0, "delta": 1e-6}
LAWS = {"gaussian": {"noise": "gaussian"}, "knorm_l2": {"noise": "knorm"}, "knorm_linf": {"noise": "knorm", "delta": 0}}
RELATIONS = ("replace", "add_remove")
pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")


def released(call, data, rows, law, relation, **words):
    return call(data, rows, **{**RICH, **LAWS[law], "neighbors": relation, "rng": np.random.default_rng(3), **words})


def near(found, truth, stds, times=8.0):
    assert (np.abs(np.asarray(found) - truth) <= times * np.asarray(stds) + 1e-9).all(), (found, truth, stds)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", LAWS)
def test_absences_and_cells_outside_are_counted(law, relation):
    """Spherical noise is taken for rows of a ball; there rows are left out whole."""
    rng = np.random.default_rng(0)
    data = rng.uniform(0, 1, (4000, 3))
    data[:400, 0] = np.nan
    data[-300:, 1] = 7.0
    data[5, 2] = np.inf
    if law == "knorm_l2":
        release = released(
            es.mean, data, es.Ball(1.0, center=0.5, columns=("a", "b", "c")), law, relation, missing="skip"
        )
        clipped = np.sum(np.linalg.norm(np.nan_to_num(data - 0.5, posinf=0.0), axis=1) > 1)
        near(release.counts.clipped.sum(), clipped, 3 * release.plan.outside_stds.max())
    else:
        release = released(es.mean, data, es.Box({"a": (0, 1), "b": (0, 1), "c": (0, 1)}), law, relation)
        truth = np.nanmean(np.clip(np.where(np.isinf(data), np.nan, data), 0, 1), axis=0)
        near(release.value, truth, release.noise_std)
        near(release.counts.outside_rows, 300, release.plan.clamping_test.most_rows)
        if law == "gaussian":
            near(release.counts.outside, [0, 300, 0], release.plan.outside_stds)
        else:
            assert release.counts.outside is None
    near(release.counts.rows, [3600, 4000, 3999], release.counts.stds)
    assert release.plan.mechanism == law
    assert es.from_json(release.to_json()).to_json() == release.to_json()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("call", [es.sum, es.mean])
def test_one_row_of_one_column(call, law, relation):
    for cell in (0.25, np.nan, 1e300):
        data = np.array([[cell]])
        for rows in (es.Box(0.0, 1.0), es.Ball(1.0)):
            release = released(call, data, rows, law, relation, n=1 if relation == "add_remove" else None)
            assert np.isfinite(release.value).all()
            assert np.isfinite(release.confidence_interval()).all()
            assert release.confidence_region().contains(release.value)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", ["gaussian", "knorm_linf"])
def test_columns_without_width_are_what_they_are_stated_to_be(law, relation):
    rows = es.Box({"a": (0.0, 1.0), "b": (5.0, 5.0)})
    release = released(
        es.mean, np.full((300, 2), 0.5), rows, law, relation, n=300 if relation == "add_remove" else None
    )
    assert release.value[1] == pytest.approx(5.0, abs=1e-9)
    none = es.Box({"a": (2.0, 2.0), "b": (5.0, 5.0)})
    still = released(es.mean, np.zeros((300, 2)), none, law, relation, n=300 if relation == "add_remove" else None)
    near(still.value, [2.0, 5.0], still.noise_std)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("per_person", ["mean", "sum", "rows"])
@pytest.mark.parametrize("law", LAWS)
def test_people_with_many_rows(law, per_person, relation):
    rng = np.random.default_rng(1)
    who, value = rng.integers(0, 500, 3000), rng.uniform(0, 1, 3000)
    table = {"who": who, "x": value, "y": 1 - value}
    rows = es.Ball(9.0, columns=("x", "y")) if law == "knorm_l2" else es.Box({"x": (0, 9), "y": (0, 9)})
    words = {"privacy_id": es.People("who", per_person=per_person, max_rows=None if per_person == "mean" else 20)}
    release = released(es.mean, table, rows, law, relation, **{k: w for k, w in words.items() if w is not None})
    sizes = np.bincount(who)[np.unique(who)]
    sums = np.bincount(who, value)[np.unique(who)]
    truths = {"mean": np.mean(sums / sizes), "sum": np.mean(sums), "rows": value.mean()}
    near(release.value[0], truths[per_person], release.standard_error[0])
    assert release.privacy.unit == "person"
    assert release.plan.mechanism == law


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", ["gaussian", "knorm_l2"])
def test_matrices(law, relation):
    cov = np.array([[4.0, 1.5, 0.0], [1.5, 1.0, 0.2], [0.0, 0.2, 0.5]])
    data = np.random.default_rng(2).multivariate_normal([1.0, 2.0, 3.0], cov, 5000)
    rows = es.Normal([1.0, 2.0, 3.0], cov=cov)
    release = released(es.mean, data, rows, law, relation, n=5000 if relation == "add_remove" else None)
    assert release.plan.mechanism == law
    near(release.value, data.mean(axis=0), release.standard_error)
    again = es.Plan.from_json(release.plan.to_json())
    assert again == release.plan
    assert np.linalg.matrix_rank(again.noise_cov) == 3
    assert release.confidence_region(0.999999).contains(data.mean(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "knorm_l2"])
def test_a_million_columns(law):
    release = released(
        es.sum, np.zeros((2, 10**6), np.float32), es.Ball(1.0), law, "replace", missing="none", count_clipped=False
    )
    assert release.plan.mechanism == law
    assert np.std(release.value) == pytest.approx(release.noise_std[0], rel=0.01)
