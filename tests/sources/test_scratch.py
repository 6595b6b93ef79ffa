"""Where people's rows lie while they are grouped: for the user alone, and gone however the process ends."""

import os
import signal
import stat
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from opening import open_table

import ellipsum as es
from ellipsum.request.people import People
from ellipsum.sources import people
from ellipsum.sources.people import Scratch, gather
from ellipsum.sources.person_rows import reduce_people

ENDINGS = [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    home = tmp_path / "temporary"
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    return home


def test_the_rows_of_people_lie_in_a_file_without_a_name(folder):
    data = pa.table({"id": np.arange(5000) % 1000, "a": np.arange(5000.0)})
    table = gather(open_table(data, key="id"), People("id"))
    assert list(folder.iterdir()) == []
    first, second = (np.vstack(list(table.batches())) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(np.sort(first[:, 0]), np.arange(2000.0, 3000.0))  # means of i, i + 1000, ..., i + 4000
    table.close()
    with pytest.raises(es.UsageError, match="closed"):
        table.batches()


def test_the_rows_outlast_a_table_that_is_closed_meanwhile():
    data = pa.table({"id": np.arange(50_000), **{c: np.arange(50_000.0) for c in "abcdefgh"}})
    table = gather(open_table(data, key="id"), People("id"))
    passed = table.batches()
    (rows,) = passed
    table.close()
    assert np.array_equal(np.sort(rows[:, 0]), np.arange(50_000.0))


def test_the_folder_is_for_the_user_alone_and_signals_are_left_as_they_were(folder):
    before = [signal.getsignal(number) for number in ENDINGS]
    scratch = Scratch()
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o700}
    assert [signal.getsignal(number) for number in ENDINGS] == before
    scratch.close()
    assert list(folder.iterdir()) == []


def test_a_process_that_was_forked_does_not_remove_its_parents_folder():
    scratch = Scratch()
    child = os.fork()
    if child == 0:
        try:
            scratch.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert scratch.path.exists()
    scratch.close()
    assert not scratch.path.exists()


def test_rows_beyond_duckdbs_memory_are_sorted_on_disk(folder, monkeypatch):
    """Success does not depend on how many rows there are, which is private where people are."""
    spilled = []
    monkeypatch.setattr(people, "MEMORY", "64MB")
    monkeypatch.setattr(
        people, "reduce_people", lambda batches, *how: reduce_people(_watched(batches, folder, spilled), *how)
    )
    rng = np.random.default_rng(0)
    count = 1_200_000
    batches = [
        pa.record_batch({"id": rng.integers(0, count // 4, 100_000), **{c: rng.random(100_000) for c in "abcdefgh"}})
        for _ in range(count // 100_000)
    ]
    table = gather(open_table(batches, key="id"), People("id", "sum", 1000))
    assert spilled[0] > 40_000_000
    assert table.count() == len({key for batch in batches for key in batch.column(0).to_pylist()})
    total = sum(rows[:, 0].sum() for rows in table.batches())
    assert total == pytest.approx(sum(batch.column(1).to_numpy().sum() for batch in batches), rel=1e-12)
    table.close()


def _watched(batches, folder, spilled):
    """The batches; how many bytes lie in the folder when the first one comes."""
    for batch in batches:
        if not spilled:
            spilled.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
        yield batch
