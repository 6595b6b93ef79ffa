"""Compiled loops of the quantile maps: comparisons only, each a function of its row alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..util.compile import compiled
from .map_kernels import _map


@compiled
def add_coordinate_sides(
    block: Any, center: Any, middle: Any, absolute: bool, below: int, above: int, total: Any
) -> None:
    """total_j += below where the offset (or its size) is at most its middle, above elsewhere."""
    for r in range(block.shape[0]):
        for j in range(block.shape[1]):
            x = block[r, j]
            offset = x - center[j] if abs(x) < np.inf else 0.0
            size = abs(offset) if absolute else offset
            total[j] += below if size <= middle[j] else above


@compiled
def add_norm_sides(
    block: Any,
    center: Any,
    scale: Any,
    packed: Any,
    exponents: Any,
    middle: float,
    below: int,
    above: int,
    total: Any,
    offsets: Any,
    y: Any,
) -> None:
    """total_0 += below where ‖y‖ is at most the middle, above elsewhere."""
    for r in range(block.shape[0]):
        length = math.sqrt(_map(block[r], center, scale, packed, exponents, offsets, y))
        total[0] += below if length <= middle else above
