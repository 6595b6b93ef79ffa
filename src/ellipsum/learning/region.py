"""What a method finds: where the release clamps or clips, and what its interval needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..releases.decode import Absent
from ..rows import Box, LearnedRows


@dataclass(frozen=True)
class Region:
    """Where the release clamps columns (`Box`) or clips rows (`LearnedRows`), in original units.

    bias: (2, d), what clipping lowers and what it raises the sum of each column by at most, at 95%: the true sum lies
    up to bias[0] below and up to bias[1] above what is released, noise aside.
    found: whether each column was found; of another nothing is known but its magnitude.
    warnings: why intervals cannot be trusted, in sentences. unnoticed: how many outliers could go unnoticed.
    absent: the noisy number of missing entries, where the release fills them in; None where it counts them itself.
    unmeasured: whether the method bounds nothing of what clipping hides, so that the release counts clipped rows.
    """

    rows: Box | LearnedRows
    bias: Floats
    found: NDArray[np.bool_]
    warnings: tuple[str, ...] = ()
    unnoticed: int = 0
    absent: Absent | None = None
    unmeasured: bool = False
