"""Threads that read and add parts of a table: the sums of one pass, every row once, errors and interrupts heard."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opening import open_table

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.row_maps.maps import EllipsoidMap
from ellipsum.sources.local import accumulate_local


@pytest.fixture
def lake(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(3):
        table = pa.table({name: rng.normal(size=1000 + k) for name in "abc"})
        pq.write_table(table, tmp_path / f"{k}.parquet", row_group_size=300)
    return tmp_path


ROW_MAP = EllipsoidMap([0.1, 0, -0.2], [0.5, 0.4, 0.3], grid_bits=40)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 50])
def test_any_number_of_threads_gives_the_sum_of_one_pass(lake, threads):
    table = open_table(lake)
    expected = accumulate(ROW_MAP, table.batches(), 1)
    found = accumulate_local(table, ROW_MAP, threads, None)
    assert found.rows == expected.rows == 3003
    assert found.sums.equals(expected.sums)


class Parts:
    """A table whose parts do as they are told."""

    reopenable, columns, width = True, None, 3

    def __init__(self, parts):
        self._parts = parts

    def rows(self):
        return 10

    def parts(self):
        return self._parts


def test_an_error_in_one_part_stops_all():
    begun = []
    halt = threading.Event()

    def endless():
        begun.append(1)
        while True:
            yield None, np.zeros((5, 3))
            halt.wait(0.001)

    def failing():
        yield None, np.zeros((5, 3))
        raise es.DataError("a part")

    with pytest.raises(es.DataError, match="a part"):
        accumulate_local(Parts([endless, failing, endless, endless]), ROW_MAP, 2, None)
    assert len(begun) == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ellipsum")]


def test_an_interrupt_stops_all_and_passes():
    def endless():
        while True:
            yield None, np.zeros((5, 3))

    def interrupt(share):
        if share > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        accumulate_local(Parts([endless, endless]), ROW_MAP, 2, interrupt)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ellipsum")]
