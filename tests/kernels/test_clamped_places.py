"""A single odd cell, wherever it lies among rows that are added many at a time, is treated as it is alone."""

import numpy as np
import pytest

from ellipsum.kernels.accumulate import accumulate
from ellipsum.row_maps.auxiliary_counts import AuxiliaryCounts
from ellipsum.row_maps.maps import ClampedMap

LIMIT = 1 << 20
UNIT = 3  # of a cell outside
ABSENT = 5  # of an absent cell
ROW = 7  # of a row with a cell outside


def clamped(columns, missing):
    absences = (ABSENT,) * columns if missing == "column" else (ABSENT,) if missing == "row" else ()
    auxiliary = AuxiliaryCounts(missing, absences=absences, outside=(UNIT,) * columns, outside_rows=ROW)
    ones = np.ones(columns)
    return ClampedMap(0 * ones, LIMIT * ones, LIMIT * ones, (-ones, ones), grid_bits=20, auxiliary=auxiliary)


def plain(data, missing):
    """Sums, absences and cells outside, cell by cell, by numpy alone; the rows as doubles."""
    cells = data.astype(np.float64)
    absent = ~np.isfinite(cells)
    if missing == "row":
        left_out = absent.any(axis=1)
        kept, counts = np.where(left_out[:, None], 0.0, cells), [ABSENT * int(left_out.sum())]
    else:
        kept, counts = np.where(absent, 0.0, cells), (ABSENT * absent.sum(axis=0)).tolist()
    whole = np.rint(np.clip(kept * LIMIT, -LIMIT, LIMIT)).sum(axis=0)
    beyond = np.abs(kept) * LIMIT > LIMIT * (1 + 2.0**-20) + 2.1
    outside = [*(UNIT * beyond.sum(axis=0)).tolist(), ROW * int(beyond.any(axis=1).sum())]
    return [*whole.astype(int).tolist(), *(counts if missing != "center" else []), *outside]


ODD = {
    "NaN": np.nan,
    "infinite": -np.inf,
    "outside": -1.5,
    "far outside": 3e38,
    "at the limit": 1.0,
    "rounds to the limit": 1 + 0.2 / LIMIT,
    "rounds beyond the limit": -1 - 0.7 / LIMIT,
}


@pytest.mark.parametrize("missing", ["center", "column", "row"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [7, 21, 65, 100])
def test_one_odd_cell_among_many(columns, kind, missing):
    row_map = clamped(columns, missing)
    rng = np.random.default_rng(columns)
    usual = rng.uniform(-1, 1, (67, columns)).astype(kind)
    for name, odd in ODD.items():
        for j in {0, columns // 2, columns - columns % 8 - 1, columns - 1}:
            data = usual.copy()
            data[rng.integers(67), j] = odd
            wanted = plain(data, missing)
            for block in (data, np.asfortranarray(data), np.hstack([data, data])[:, :columns]):
                assert accumulate(row_map, [block], threads=1).sums.to_ints() == wanted, (name, j)


def test_rows_that_lie_apart_are_the_same_rows():
    """Those that follow each other are fetched ahead; these do not."""
    row_map, data = clamped(100, "column"), np.random.default_rng(0).normal(size=(201, 100))
    apart = accumulate(row_map, [data[::2]], threads=1).sums.to_ints()
    assert apart == accumulate(row_map, [data[::2].copy()], threads=1).sums.to_ints() == plain(data[::2], "column")


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 65])
def test_few_rows_are_added_as_many_are(rows):
    """Fewer than eight rows are one group, whatever their values."""
    row_map, data = clamped(21, "column"), 2 * np.random.default_rng(rows).normal(size=(rows, 21))
    assert accumulate(row_map, [data], threads=1).sums.to_ints() == plain(data, "column")
