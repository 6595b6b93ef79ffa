"""Unknown bounds: only a magnitude is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, checks_keywords, names, positive, shown
from .base import Columns, Reach, Rows, length_of, plain, scalar_or_vector, short, spread_out

_LEAST, _MOST = 1e-140, 1e140  # doubles hold the squares of all that is learned within such a magnitude


@checks_keywords
@dataclass(frozen=True, init=False, repr=False)
class Unknown(Rows):
    """Unknown bounds: only |value| <= magnitude is known, and bounds are learned privately.

    Parameters
    ----------
    magnitude : float, sequence of float, or mapping of str to float
        Public bound on the size of every value: one number, one per column, or a dict by column name. It may be a
        thousand times too large; values beyond it are clamped. Must not be computed from the data.
    columns : sequence of str, optional
        Names of the columns, if `magnitude` is not a dict.
    method : str, default "auto"
        "auto", or a published method: "coinpress", "instance_optimal", "variance_aware" or "friendly_core".
    steps : int, optional
        Option of a published method: the number of its steps.
    std : float or sequence of float, optional
        Option of "coinpress": known standard deviations. By default they are estimated.
    clip_share : float, optional
        Option of "instance_optimal": the share of its remaining budget that finds the clip radius.

    Raises
    ------
    UsageError
        If `magnitude` is not positive, `method` is not a name, or an argument is unknown.

    Notes
    -----
    Privacy proofs: [L1] to [L12] for "auto", [L20] to [L26] for published methods.

    Examples
    --------
    >>> import ellipsum as es
    >>> import numpy as np
    >>> people = {"age": np.arange(5000.0) % 80, "income": 1000.0 * (np.arange(5000) % 70)}
    >>> release = es.mean(people, es.Unknown({"age": 1000, "income": 1e8}), epsilon=1, delta=1e-6)
    >>> release.value.shape
    (2,)
    """

    kind: ClassVar[str] = "unknown"
    magnitude: float | Floats
    method: str
    options: Mapping[str, Any]

    def __init__(
        self,
        magnitude: ArrayLike | Mapping[str, float],
        columns: Columns | None = None,
        *,
        method: str = "auto",
        steps: int | None = None,
        std: ArrayLike | None = None,
        clip_share: float | None = None,
    ) -> None:
        if isinstance(magnitude, Mapping):
            if columns is not None:
                raise UsageError("Unknown takes either a mapping of name: magnitude, or magnitude and columns.")
            if not magnitude:
                raise UsageError("Unknown needs at least one column.")
            columns, magnitude = tuple(map(str, magnitude)), list(magnitude.values())
        size = scalar_or_vector("magnitude", magnitude)
        if not isinstance(size, np.ndarray):
            size = positive("magnitude", size)
        if not np.all((np.asarray(size) >= _LEAST) & (np.asarray(size) <= _MOST)):
            raise UsageError(
                f"magnitude must lie between {_LEAST:g} and {_MOST:g}, got {short(size)}. Rescale the columns."
            )
        if not isinstance(method, str):
            raise UsageError(f"method must be the name of a method, got {type(method).__name__}.")
        self._set(magnitude=size)
        options = {"steps": steps, "std": std, "clip_share": clip_share}
        options_set = {name: value for name, value in options.items() if value is not None}
        self._set(columns=names("columns", columns, self.d), method=method, options=options_set)

    @property
    def d(self) -> int | None:
        return length_of(self.magnitude)

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        return {**fields, "options": {name: plain(value) for name, value in self.options.items()}}

    @property
    def largest(self) -> float:
        """A bound on the size of every value of every column."""
        return float(np.max(self.magnitude))

    def magnitudes(self, d: int) -> Floats:
        """One per column."""
        return spread_out(self.magnitude, d)

    def resolve(self, d: int) -> Unknown:
        self._check_length(d)
        return self

    def reach(self, d: int, metric: str, n: int | None) -> Reach:
        raise UsageError(
            "A projection needs bounds, got Unknown. Pass Ball, Box or Normal, or learn bounds first with es.learn."
        )

    def __repr__(self) -> str:
        return f"Unknown(magnitude={self.shown})"

    @property
    def shown(self) -> str:
        """The magnitude as a short text."""
        if self.columns is None or not isinstance(self.magnitude, np.ndarray):
            return short(self.magnitude)
        pairs = zip(self.columns[:4], self.magnitude, strict=False)
        texts = [f"{shown(name)}: {size:g}" for name, size in pairs]
        return "{" + ", ".join(texts) + (", ..." if len(self.columns) > 4 else "") + "}"
