"""Where people's rows lie while they are grouped: for the user alone, and gone however the process ends."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from opening import open_table

import ellipsum as es
from ellipsum.request.people import People
from ellipsum.sources.people import Scratch, clear_own, gather

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
    found = os.fstat(table._file.fileno())
    assert found.st_nlink == 0
    assert stat.S_IMODE(found.st_mode) == 0o600
    first, second = (np.vstack(list(table.batches())) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(np.sort(first[:, 0]), np.arange(2000.0, 3000.0))  # means of i, i + 1000, ..., i + 4000
    table.close()
    with pytest.raises(es.UsageError, match="closed"):
        table.batches()


def test_passes_side_by_side_do_not_disturb_each_other():
    data = pa.table({"id": np.arange(200_000), **{c: np.arange(200_000.0) for c in "abcdefgh"}})
    table = gather(open_table(data, key="id"), People("id"))
    rows = np.vstack(list(table.batches()))
    left, right = table.batches(), table.batches()
    for block in left:
        assert np.array_equal(block, next(right))
    assert len(rows) == 200_000
    table.close()


def test_the_folder_is_for_the_user_alone_and_signals_are_left_as_they_were(folder):
    before = [signal.getsignal(number) for number in ENDINGS]
    one, two = Scratch(), Scratch()
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o700}
    assert [signal.getsignal(number) for number in ENDINGS] != before
    one.close()
    assert [signal.getsignal(number) for number in ENDINGS] != before
    clear_own()
    assert list(folder.iterdir()) == []
    two.close()
    assert [signal.getsignal(number) for number in ENDINGS] == before


def test_a_signal_that_the_program_handles_is_left_to_it(monkeypatch):
    heard = []
    own = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        scratch = Scratch()
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        assert scratch.path.exists()
        scratch.close()
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, own)


def test_a_process_that_was_forked_does_not_remove_its_parents_folder():
    scratch = Scratch()
    child = os.fork()
    if child == 0:
        try:
            scratch.close()
            clear_own()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert scratch.path.exists()
    scratch.close()
    assert not scratch.path.exists()


ENDLESS = """
import sys, numpy as np, pyarrow as pa, ellipsum as es
class Endless:
    def __iter__(self):
        for i in range(10**9):
            yield pa.record_batch({"id": np.arange(i * 50_000, (i + 1) * 50_000), "a": np.ones(50_000)})
es.mean(Endless(), es.Box(0, 1), epsilon=1, delta=1e-6, privacy_id="id")
"""


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_a_signal_that_ends_a_program_leaves_no_rows(folder, number):
    environment = os.environ | {"PYTHONPATH": str(Path(es.__file__).parents[1]), "TMPDIR": str(folder)}
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], env=environment, cwd=folder.parent)
    try:
        deadline = time.monotonic() + 100
        while not list(folder.glob("*/duckdb_temp*")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == -number  # it ends as it would have
    finally:
        process.kill()
        process.wait()
    assert list(folder.iterdir()) == []
