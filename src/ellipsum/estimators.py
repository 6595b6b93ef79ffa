"""scikit-learn estimators (the `sklearn` extra): the same public calls, fitted where a pipeline wants them.

What is fitted is a release and may be published; what `transform` returns are the caller's own rows, and may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError:
    raise ImportError("Estimators need scikit-learn 1.6 or later: pip install 'ellipsum[sklearn]'") from None

from .api import describe, mean
from .errors import Floats, UsageError, listing
from .privacy.budget import Budget
from .rows import Box, Rows

_WORDS = (
    *("epsilon", "delta", "budget", "neighbors", "noise", "missing", "weights"),
    *("ledger", "dataset", "key", "analyst", "rng"),
)
_BOUNDS = "bounds is a dict with (lower, upper) for each column, or a pair of lower and upper."
_ARRAY = {"dtype": np.float64, "ensure_all_finite": False}


def _box(bounds: Any, names: list[str] | None) -> Box:
    """The bounds in the order of X's columns, where both have names."""
    if isinstance(bounds, Mapping):
        if names is not None and set(bounds) != set(names):
            raise UsageError(f"bounds must name the columns of X, and no other: {listing(names)}.")
        return Box({name: bounds[name] for name in names or bounds})
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise UsageError(_BOUNDS)
    return Box(*bounds)


class _Fitted(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share: words kept as they were typed, a release made by `fit`, rows moved by `transform`."""

    def __init__(
        self,
        bounds: Any = None,
        *,
        rows: Rows | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | None = None,
        neighbors: str = "replace",
        noise: str = "auto",
        missing: Any = None,
        weights: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        key: str | None = None,
        analyst: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.bounds = bounds
        self.rows = rows
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.neighbors = neighbors
        self.noise = noise
        self.missing = missing
        self.weights = weights
        self.ledger = ledger
        self.dataset = dataset
        self.key = key
        self.analyst = analyst
        self.rng = rng

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _call(self, publish: Callable[..., Any], X: Any) -> Any:
        """One release of X, its columns in their order. Cells are left to the call: they must not decide on failure."""
        validate_data(self, X, skip_check_array=True)
        names = getattr(self, "feature_names_in_", None)
        columns = None if names is None else list(names)
        words = {name: getattr(self, name) for name in _WORDS}
        return publish(X, self._rows(columns), columns=columns, **words)

    def _rows(self, columns: list[str] | None) -> Rows:
        if (self.bounds is None) == (self.rows is None):
            raise UsageError(f"State either bounds= or rows=. {_BOUNDS}")
        return _box(self.bounds, columns) if self.rows is None else self.rows

    def _own(self, X: Any) -> Floats:
        """The caller's rows as an array, of the columns that `fit` saw."""
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, reset=False, **_ARRAY)
        return rows

    def _back(self, X: Any) -> Floats:
        """Transformed rows, which have lost their names perhaps."""
        check_is_fitted(self)
        rows: Floats = check_array(X, **_ARRAY)
        if rows.shape[1] != self.n_features_in_:
            raise UsageError(f"X must have {self.n_features_in_} columns, as it had in fit, got {rows.shape[1]}.")
        return rows


class PrivateMean(_Fitted):
    """The private mean of every column, as an estimator: `fit` publishes it, `transform` subtracts it from rows.

    Every `fit` is one call of `ellipsum.mean`, with new noise and a new charge. `mean_` and `release_` may be
    published; transformed rows are as private as the rows were.

    Guarantee: [U1], `release_.privacy`.

    Arguments:
        bounds: a dict with (lower, upper) for each column, or a pair of lower and upper: numbers, or one per column.
        rows: in place of bounds, what is known about a row: Ball, Box, Normal or Unknown.
        epsilon: with delta: the privacy budget. There is no default: `fit` refuses to go on without one.
        delta: with epsilon: the privacy budget.

    The other words are those of `ellipsum.mean`.
    """

    def fit(self, X: Any, y: Any = None) -> PrivateMean:
        """Publish the mean of the columns of X; y is not looked at."""
        self.release_ = self._call(mean, X)
        self.mean_: Floats = self.release_.value
        return self

    def transform(self, X: Any) -> Floats:
        """The rows of X, less the published mean."""
        return self._own(X) - self.mean_

    def inverse_transform(self, X: Any) -> Floats:
        """The rows of X, and the published mean again."""
        return self._back(X) + self.mean_


class PrivateScaler(_Fitted):
    """Private means and standard deviations, as an estimator: `transform` brings rows to mean 0 and spread 1.

    Every `fit` is one call of `ellipsum.describe`: one release and one charge give both. `mean_`, `scale_` and
    `release_` may be published; transformed rows are as private as the rows were. A column whose spread is lost in
    noise (a published standard deviation of 0) is not scaled.

    Guarantee: [U1], `release_.privacy`.

    Arguments:
        bounds: a dict with (lower, upper) for each column, or a pair of lower and upper: numbers, or one per column.
        rows: in place of bounds, a Box.
        epsilon: with delta: the privacy budget. There is no default: `fit` refuses to go on without one.
        delta: with epsilon: the privacy budget.

    The other words are those of `ellipsum.describe`.
    """

    def fit(self, X: Any, y: Any = None) -> PrivateScaler:
        """Publish means and standard deviations of the columns of X; y is not looked at."""
        self.release_ = self._call(describe, X)
        self.mean_: Floats = self.release_.mean
        self.scale_: Floats = np.where(self.release_.std > 0, self.release_.std, 1.0)
        return self

    def transform(self, X: Any) -> Floats:
        """The rows of X, less the published means and over the published standard deviations."""
        return (self._own(X) - self.mean_) / self.scale_

    def inverse_transform(self, X: Any) -> Floats:
        """The rows of X as they were before `transform`."""
        return self._back(X) * self.scale_ + self.mean_
