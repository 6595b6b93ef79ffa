"""Estimators are the public calls and nothing else, and obey scikit-learn's own checks where these can apply."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import ellipsum as es
from ellipsum.estimators import PrivateMean, PrivateScaler

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
KINDS = (PrivateMean, PrivateScaler)
NOT_APPLICABLE = {
    "check_fit_idempotent": "every fit is a new release, with new noise",
    "check_dtype_object": "an array of objects is refused by its type: its cells must not decide whether fit fails",
    "check_complex_data": "refused, in the library's own words",
    "check_estimators_empty_data_messages": "refused, in the library's own words",
}


def fitting(kind, seed=0, **words):
    words = {"bounds": (0, [10.0, 200.0]), **BUDGET, "rng": np.random.default_rng(seed), **words}
    return kind(**words)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"a": rng.uniform(2, 8, 3_000), "b": rng.normal(100, 20, 3_000)})


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learns_own_checks(kind):
    results = check_estimator(  # the bounds hold all values of the checks, so that nothing is said to be clamped
        kind((-1000, 1000), **BUDGET), expected_failed_checks=NOT_APPLICABLE, on_skip=None, on_fail=None
    )
    by_status = {
        status: {result["check_name"]: result["exception"] for result in results if result["status"] == status}
        for status in ("passed", "failed", "xfail")
    }
    assert not by_status["failed"]
    assert set(by_status["xfail"]) == set(NOT_APPLICABLE)  # none is left out that would pass
    assert len(by_status["passed"]) > 25


def test_a_fitted_mean_is_the_release_of_the_same_words(table):
    fitted = fitting(PrivateMean).fit(table)
    same = es.mean(table, es.Box([0, 0], [10, 200]), rng=np.random.default_rng(0), **BUDGET)
    assert fitted.release_ == same
    assert np.array_equal(fitted.mean_, same.value)
    assert fitted.get_feature_names_out().tolist() == ["a", "b"]


def test_a_fitted_scaler_is_one_description(table):
    fitted = fitting(PrivateScaler).fit(table)
    same = es.describe(table, es.Box([0, 0], [10, 200]), quantiles=None, rng=np.random.default_rng(0), **BUDGET)
    assert fitted.release_ == same
    assert np.array_equal(fitted.scale_, same.std)
    scaled = fitted.transform(table)
    assert np.allclose(scaled.mean(axis=0), 0, atol=0.1)
    assert np.allclose(scaled.std(axis=0), 1, atol=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_back(kind, table):
    fitted = fitting(kind).fit(table)
    before = table.copy()
    assert np.allclose(fitted.inverse_transform(fitted.transform(table)), table)
    assert table.equals(before)
    with pytest.raises(es.UsageError, match="2 columns"):
        fitted.inverse_transform(np.zeros((3, 1)))
    frame = fitted.set_output(transform="pandas").transform(table)
    assert list(frame) == ["a", "b"]


def test_a_column_whose_spread_is_lost_is_not_scaled():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.full(200, 5.0), rng.uniform(0, 200, 200)])
    scales = [fitting(PrivateScaler, seed).fit(x) for seed in range(20)]
    lost = [fitted for fitted in scales if fitted.release_.std[0] == 0]
    assert lost
    assert all(fitted.scale_[0] == 1 for fitted in lost)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, 1e300])
def test_no_cell_decides_whether_fit_fails(kind, cell, table):
    x = table.to_numpy(copy=True)
    x[7, 0] = cell
    fitted = fitting(kind).fit(x)
    assert fitted.release_.plan == fitting(kind).fit(table.to_numpy()).release_.plan
    assert np.isfinite(fitted.mean_).all()


@pytest.mark.parametrize("kind", KINDS)
def test_budget_and_bounds_have_no_defaults(kind, table):
    with pytest.raises(es.UsageError, match="epsilon"):
        kind((0, 10)).fit(table)
    with pytest.raises(es.UsageError, match="delta"):
        kind((0, 10), epsilon=1).fit(table)
    with pytest.raises(es.UsageError, match="bounds"):
        kind(**BUDGET).fit(table)
    with pytest.raises(es.UsageError, match="pair of lower and upper"):
        kind(10, **BUDGET).fit(table)


@pytest.mark.parametrize("bounds", [{"b": (0, 200), "a": (0, 10)}, ([0, 0], [10, 200])])
def test_bounds_by_name_or_by_place(bounds, table):
    fitted = fitting(PrivateMean, bounds=bounds).fit(table)
    assert np.allclose(fitted.transform(table).mean(axis=0), 0, atol=1)


def test_bounds_of_other_columns_are_refused(table):
    with pytest.raises(es.UsageError, match="'a', 'b'"):
        fitting(PrivateMean, bounds={"a": (0, 10), "c": (0, 1)}).fit(table)
    with pytest.raises(es.UsageError, match="in one order"):
        fitting(PrivateMean, bounds=es.Box({"b": (0, 200), "a": (0, 10)})).fit(table)


@pytest.mark.parametrize("bounds", [es.Normal([5, 100], std=[2, 20]), es.Unknown(1e4)], ids=["Normal", "Unknown"])
def test_a_mean_takes_any_bounds(bounds, table):
    fitted = fitting(PrivateMean, bounds=bounds).fit(table)
    assert abs(fitted.mean_[1] - table["b"].mean()) < 6 * fitted.release_.standard_error[1]


def test_every_fit_is_charged_and_what_does_not_fit_is_refused(table, tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("t", epsilon=1, delta=0)
    scaler = PrivateScaler((0, [10, 200]), epsilon=0.5, delta=0, ledger=ledger.dataset("t"))
    make_pipeline(scaler, Ridge()).fit(table, table["a"])
    assert ledger.account("t").released == 1
    clone(scaler).fit(table)
    with pytest.raises(es.BudgetRefused):
        clone(scaler).fit(table)


def test_fitted_estimators_travel(table):
    fitted = fitting(PrivateScaler).fit(table)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(table), fitted.transform(table))
    assert again.release_ == fitted.release_


def test_without_scikit_learn_the_message_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None; import ellipsum.estimators"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'ellipsum[sklearn]'" in done.stderr
