"""scikit-learn estimators (the `sklearn` extra): `fit` calls a public function.

The fitted values are a release and may be published. `transform` returns rows of the data, which may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError:
    raise ImportError("Estimators need scikit-learn 1.6 or later: pip install 'ellipsum[sklearn]'") from None

from .api import describe, mean
from .errors import Floats, UsageError, checks_keywords, listing
from .ledger import DatasetAccount
from .privacy.budget import Budget
from .rows import Box, Rows

Released = TypeVar("Released")
_ARGUMENTS = (
    *("epsilon", "delta", "budget", "neighbors", "noise", "missing", "error_weights"),
    *("ledger", "request_id", "rng"),
)
_BOUNDS = (
    "bounds must be a dict of (lower, upper), a pair of lower and upper, or a Box, Ball, Normal or Unknown object."
)
_ARRAY = {"dtype": np.float64, "ensure_all_finite": False}


def _box(bounds: Any, names: list[str] | None) -> Box:
    """The bounds in the order of the columns of X, where both have names."""
    if isinstance(bounds, Mapping):
        if names is not None and set(bounds) != set(names):
            raise UsageError(f"bounds must name exactly the columns of X: {listing(names)}.")
        return Box({name: bounds[name] for name in names or bounds})
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise UsageError(_BOUNDS)
    return Box(*bounds)


@checks_keywords
class _Fitted(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: it stores arguments, makes one release in `fit`, and shifts and scales rows."""

    def __init__(
        self,
        bounds: Any = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | None = None,
        neighbors: str = "replace",
        noise: str = "auto",
        missing: Any = None,
        error_weights: Any = None,
        ledger: DatasetAccount | None = None,
        request_id: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.neighbors = neighbors
        self.noise = noise
        self.missing = missing
        self.error_weights = error_weights
        self.ledger = ledger
        self.request_id = request_id
        self.rng = rng

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _release(self, call: Callable[..., Released], X: Any) -> Released:
        """Release X. No value may decide whether `fit` fails, so scikit-learn does not check the values."""
        validate_data(self, X, skip_check_array=True)
        names = getattr(self, "feature_names_in_", None)
        columns = None if names is None else list(names)
        bounds = self.bounds if isinstance(self.bounds, Rows) else _box(self.bounds, columns)
        return call(X, bounds, columns=columns, **{name: getattr(self, name) for name in _ARGUMENTS})

    def transform(self, X: Any) -> Floats:
        """Subtract the released means from the rows of X, and divide by the released scales."""
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, reset=False, **_ARRAY)
        shifted: Floats = (rows - self.mean_) / self._scale
        return shifted

    def inverse_transform(self, X: Any) -> Floats:
        """Undo `transform`."""
        check_is_fitted(self)
        rows: Floats = check_array(X, **_ARRAY)
        if rows.shape[1] != self.n_features_in_:
            raise UsageError(f"X must have {self.n_features_in_} columns, as it had in fit, got {rows.shape[1]}.")
        restored: Floats = rows * self._scale + self.mean_
        return restored

    @property
    def _scale(self) -> Floats | float:
        """The divisor of the rows."""
        return getattr(self, "scale_", 1.0)


class PrivateMean(_Fitted):
    """Differentially private mean of every column; `transform` subtracts it from rows.

    Every `fit` is one call of `ellipsum.mean`, with new noise and a new charge. `mean_` and `release_` may be
    published. Transformed rows may not.

    Parameters
    ----------
    bounds : dict, pair, Box, Ball, Normal or Unknown
        A dict of (lower, upper), a pair of lower and upper (numbers, or one per column), or a bounds object.
    epsilon, delta, budget, neighbors, noise, missing, error_weights, ledger, request_id, rng
        As in `ellipsum.mean`.

    Attributes
    ----------
    mean_ : array
        The released mean of each column.
    release_ : Release
        The whole release, with standard errors and the privacy guarantee.

    Notes
    -----
    Privacy proof: [U1]. The fitted values satisfy ``release_.privacy``.

    Examples
    --------
    >>> import numpy as np
    >>> from ellipsum.estimators import PrivateMean
    >>> fitted = PrivateMean((0, 10), epsilon=1, delta=1e-6).fit(np.full((1000, 2), 4.0))
    >>> fitted.transform([[4.0, 4.0]]).shape
    (1, 2)
    """

    def fit(self, X: Any, y: Any = None) -> PrivateMean:
        """Release the mean of the columns of X; y is ignored."""
        self.release_ = self._release(mean, X)
        self.mean_: Floats = self.release_.value
        return self


class PrivateScaler(_Fitted):
    """Differentially private means and standard deviations; `transform` brings rows to mean 0 and std 1.

    Every `fit` is one call of `ellipsum.describe`: one release and one charge for both. `mean_`, `scale_` and
    `release_` may be published. Transformed rows may not. A column whose released standard deviation is 0 is not
    scaled.

    Parameters
    ----------
    bounds : dict, pair or Box
        A dict of (lower, upper), a pair of lower and upper (numbers, or one per column), or a Box.
    epsilon, delta, budget, neighbors, noise, missing, error_weights, ledger, request_id, rng
        As in `ellipsum.describe`.

    Attributes
    ----------
    mean_, scale_ : array
        The released mean and standard deviation of each column.
    release_ : Description
        The whole release.

    Notes
    -----
    Privacy proof: [U1]. The fitted values satisfy ``release_.privacy``.

    Examples
    --------
    >>> import numpy as np
    >>> from ellipsum.estimators import PrivateScaler
    >>> rows = np.arange(2000.0).reshape(-1, 2) % 10
    >>> PrivateScaler((0, 10), epsilon=1, delta=1e-6).fit(rows).scale_.shape
    (2,)
    """

    def fit(self, X: Any, y: Any = None) -> PrivateScaler:
        """Release means and standard deviations of the columns of X; y is ignored."""
        self.release_ = self._release(partial(describe, quantiles=None), X)
        self.mean_: Floats = self.release_.mean
        self.scale_: Floats = np.where(self.release_.std > 0, self.release_.std, 1.0)
        return self
