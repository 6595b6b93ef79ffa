"""Groups of rows are added while the next are read: whichever of them are odd, each row is added once."""

from itertools import product

import numpy as np
import pytest

from ellipsum.kernels.accumulate import accumulate
from ellipsum.kernels.blocks import ROWS
from ellipsum.row_maps.maps import EllipsoidMap


def ball(columns):
    rng = np.random.default_rng(columns)
    return EllipsoidMap(rng.normal(size=columns), rng.uniform(0.5, 2, columns) * columns**-0.5, grid_bits=30)


def one_by_one(row_map, data):
    """The sum of rows that are each added alone."""
    return np.sum([accumulate(row_map, [row[None]], threads=1).sums.to_ints() for row in data], axis=0).tolist()


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [8, 13, 700])
def test_each_row_is_added_once_whichever_groups_are_odd(columns, kind):
    row_map = ball(columns)
    groups = 5
    for odd in product([False, True], repeat=groups):
        data = np.random.default_rng(sum(odd)).normal(size=(groups * ROWS + 3, columns)).astype(kind)
        data[np.flatnonzero(odd) * ROWS + 1, columns // 2] = np.nan
        wanted = one_by_one(row_map, data)
        gaps = np.hstack([data, data])[:, :columns]
        for block in (data, gaps, data[::-1]):
            assert accumulate(row_map, [block], threads=1).sums.to_ints() == wanted, odd
        whole = groups * ROWS  # no row is left over behind the last group
        assert accumulate(row_map, [data[:whole]], threads=1).sums.to_ints() == one_by_one(row_map, data[:whole])
