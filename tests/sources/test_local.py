"""Several files of several row groups as one source: every row once, whatever the number of threads."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opening import open_table

from ellipsum.kernels.accumulate import accumulate
from ellipsum.row_maps.maps import EllipsoidMap


@pytest.fixture
def lake(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(3):
        table = pa.table({name: rng.normal(size=1000 + k) for name in "abc"})
        pq.write_table(table, tmp_path / f"{k}.parquet", row_group_size=300)
    return tmp_path


ROW_MAP = EllipsoidMap([0.1, 0, -0.2], [0.5, 0.4, 0.3], grid_bits=40)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_any_number_of_threads_gives_the_sum_of_one_pass(lake, threads):
    table = open_table(lake)
    rows = np.concatenate(
        [np.column_stack([part[name] for name in "abc"]) for part in map(pq.read_table, sorted(lake.iterdir()))]
    )
    expected = accumulate(ROW_MAP, [rows], 1)
    total = table.total(ROW_MAP, threads)
    assert total.rows == expected.rows == 3003
    assert total.sums.equals(expected.sums)
