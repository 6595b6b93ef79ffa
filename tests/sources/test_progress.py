"""Progress: in every pass the same fractions, whatever the rows, their number where it is private, or the file. [T4]"""

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import ellipsum as es
from ellipsum.friendly.core import find_core
from ellipsum.sources import Table
from ellipsum.sources.protocol import report_steps, scale_progress

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
STEPS = [i / 100 for i in range(101)]
COARSE = [0.0, 1.0]


def array(folder, rows):
    return np.ones((rows, 3))


def integers(folder, rows):
    return np.ones((rows, 3), np.int8)


def table(folder, rows):
    return pa.table({name: np.ones(rows) for name in "abc"})


def parquet(folder, rows):
    pq.write_table(table(folder, rows), folder / "t.parquet", row_group_size=rows // 7)
    return folder / "t.parquet"


def arrow_file(folder, rows):
    feather.write_feather(table(folder, rows), folder / "t.feather", chunksize=rows // 5)
    return folder / "t.feather"


def text(folder, rows):
    (folder / "t.csv").write_text("a,b,c\n" + "1,1,1\n" * rows)
    return folder / "t.csv"


def files(folder, rows):
    parquet(folder, rows // 2)
    pq.write_table(table(folder, rows - rows // 2), folder / "u.parquet")
    return folder


def query(folder, rows):
    return es.sql(f"select 1.0 as a, 2.0 as b, 3.0 as c from range({rows})", "duckdb://")


def batches(folder, rows):
    return [np.ones((rows // 3, 3)), np.ones((rows - rows // 3, 3))]


def iterable(folder, rows):
    class Batches:
        def __iter__(self):
            yield from batches(folder, rows)

    return Batches()


KINDS = (array, integers, table, parquet, arrow_file, text, files, query, batches, iterable)


def heard(call, *words, **how):
    told = []
    call(*words, progress=told.append, **how)
    return told


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_pass_over_a_public_number_of_rows_is_a_hundred_steps(tmp_path, make):
    for rows in (30, 99, 100, 150_000):
        assert heard(es.sum, make(tmp_path, rows), es.Box(0, 1), count_clipped=False, **BUDGET) == STEPS


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_pass_over_a_private_number_of_rows_is_a_beginning_and_an_end(tmp_path, make):
    private = {"neighbors": "add_remove", "n": 30, "count_clipped": False}
    for rows in (30, 31, 150_000):
        assert heard(es.sum, make(tmp_path, rows), es.Box(0, 1), **private, **BUDGET) == COARSE


def test_no_rows_at_all_sound_the_same():
    assert heard(es.sum, np.empty((0, 2)), es.Box(0, 1), neighbors="add_remove", n=30, **BUDGET) == COARSE


def test_the_length_of_a_cell_does_not_show(tmp_path):
    path = tmp_path / "t.csv"
    for cell in ("1", "1." + "0" * 3_000_000 + "1", '"x"'):
        path.write_text("a\n" + "1\n" * 500 + cell + "\n" + "1\n" * 500)
        assert heard(es.mean, path, es.Box(0, 2), **BUDGET) == STEPS


@pytest.mark.parametrize(
    ("neighbors", "last"), [("replace", [0.8 + 0.2 * step for step in STEPS]), ("add_remove", [0.8, 1.0])]
)
def test_how_many_rows_a_person_has_does_not_show(neighbors, last):
    guess = {} if neighbors == "replace" else {"n": 100}
    for rows in (1, 2, 200_000):
        data = pa.table({"id": [*range(99), *[99] * rows], "a": np.ones(99 + rows)})
        told = heard(es.mean, data, es.Box(0, 1), privacy_id="id", neighbors=neighbors, **guess, **BUDGET)
        assert told == pytest.approx([0.0, 0.8, *last], abs=1e-12)


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_rounds_of_learning_are_told_pass_by_pass(monkeypatch, neighbors):
    passes = []
    read = Table.total
    monkeypatch.setattr(Table, "total", lambda *all: passes.append(1) or read(*all))
    words = {"neighbors": neighbors, "rng": np.random.default_rng(0), **BUDGET}
    told = heard(es.mean, np.ones((5000, 2)), es.Unknown(10.0), **words)
    assert len(passes) > 1
    assert len(told) == len(passes) * (101 if neighbors == "replace" else 2)
    assert told == sorted(told)
    assert told[0] == 0
    assert told[-1] == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore::ellipsum.ProjectionWarning")
def test_projections_and_friendly_means_count_the_same_steps(tmp_path):
    for rows in (200, 40_000):
        for make in (array, text):
            assert heard(es.project, make(tmp_path, rows), 2, es.Box(0, 1), **BUDGET) == STEPS
    for missing in (0, 1, 70, 200):  # rows that are near no row are left out of the work
        data = np.ones((200, 2))
        data[:missing] = np.nan
        assert heard(find_core, data, 1.0) == STEPS
        assert heard(es.friendly_mean, data, 1.0, **BUDGET) == STEPS


def test_steps_of_any_order_and_of_failures():
    told = []
    with report_steps(told.append, public=True) as tell:
        for fraction in (0.5, 0.2, 0.509, 7.0, -1.0):
            tell(fraction)
    assert told == STEPS
    told.clear()
    work = report_steps(told.append, public=False)
    assert work.__enter__() is None
    assert not work.__exit__(KeyError, KeyError(), None)
    assert told == [0.0]
    with report_steps(None, public=True) as tell:
        assert tell is None
    assert scale_progress(None, 0.0, 1.0) is None
