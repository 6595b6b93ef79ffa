"""The worst day of a ledger: races, kills, full disks, read-only files, clocks that go back."""

import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from racing import ASK, kill_at_random, race

import ellipsum as es
from ellipsum.ledger import dataset_account, entries

X = np.random.default_rng(0).uniform(0, 1, (300, 2))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def check_races(path, times):
    for time in range(times):
        name = f"race {time}"
        es.Ledger(path).init(name, epsilon=1, delta=0)
        assert race(path, name) == 5
    ledger = es.Ledger(path)
    assert ledger.verify()
    for account in ledger.accounts():
        assert (account.reserved, account.released, account.caps.pure_spent) == (5, 5, (1,))


def test_sixteen_processes_race_for_five_releases(path):
    check_races(path, 3)


@pytest.mark.slow
def test_sixteen_processes_race_for_five_releases_twenty_times(path):
    check_races(path, 20)


def check_kills(path, folder, times):
    folder.mkdir()
    ledger = es.Ledger(path)
    ledger.init("survey", epsilon=1e6, delta=0)
    kill_at_random(path, "survey", folder, times)
    assert ledger.verify()
    reserved = {entry["number"] for entry in ledger.history() if entry["what"] == "reserved"}
    given = {int(name) for name in os.listdir(folder)}
    assert given <= reserved  # never a release without a charge
    account = ledger.account("survey")
    assert account.caps.pure_spent == (Fraction(1, 5) * len(reserved),)
    assert len(reserved - given) <= times
    ledger.dataset("survey").reserve(ASK)  # it goes on
    return len(given)


def test_kills_at_random_moments(path, tmp_path):
    check_kills(path, tmp_path / "given", 12)


@pytest.mark.slow
def test_two_hundred_kills_at_random_moments(path, tmp_path):
    assert check_kills(path, tmp_path / "given", 200) > 100


FULL = """
import resource, signal, sys
import ellipsum as es
from racing import ASK
ledger = es.Ledger(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
done = 0
try:
    for _ in range(2000):
        ledger.dataset("survey").reserve(ASK)
        done += 1
except es.DataError as error:
    print(done, error)
"""


def test_a_full_disk_is_an_error_and_harms_nothing(path):
    """No file of the process may grow beyond a limit, as on a disk that is full."""
    es.Ledger(path).init("survey", epsilon=1e6, delta=0)
    most = path.stat().st_size + 300_000
    here = os.path.dirname(__file__)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", FULL, path, str(most)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    count, told = done.stdout.split(" ", 1)
    assert "could not be written" in told
    assert "Nothing was published" in told
    ledger = es.Ledger(path)
    assert ledger.verify()
    assert ledger.account("survey").reserved == int(count) > 10
    ledger.dataset("survey").reserve(ASK)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_read_only_file_can_be_looked_at_and_not_charged(path, monkeypatch):
    writer = es.Ledger(path)
    writer.init("survey", epsilon=1, delta=0)
    del writer
    path.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    ledger = es.Ledger(path)
    assert ledger.account("survey").reserved == 0
    assert ledger.verify()
    with pytest.raises(es.DataError, match="could not be written"):
        es.mean(X, es.Box(0, 1), epsilon=0.5, delta=0, ledger=ledger.dataset("survey"))


def test_a_look_at_a_read_only_file_leaves_nothing_beside_it(path, monkeypatch):
    """Files of its own, as read-only as the ledger, kept it from being written once it was writable again."""
    es.Ledger(path).init("survey", epsilon=1, delta=0)
    path.chmod(0o400)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        viewer = es.Ledger(path)
        assert viewer.account("survey").reserved == 0
        assert os.listdir(path.parent) == [path.name]
        path.chmod(0o600)
        patch.undo()
        writer = es.Ledger(path)
        writer.dataset("survey").reserve(ASK)
        patch.setattr(os, "access", lambda *_: False)
        assert viewer.account("survey").reserved == 1  # nor is what was seen first kept
        del writer
        assert viewer.account("survey").reserved == 1


def test_two_names_of_one_file_are_refused(path):
    """Each name has a log of its own, in which the other does not look: both could spend the whole."""
    ledger = es.Ledger(path)
    ledger.init("survey", epsilon=1, delta=0)
    os.link(path, path.with_name("other.db"))
    for name in (path, path.with_name("other.db")):
        with pytest.raises(es.DataError, match="hard links"):
            es.Ledger(name).dataset("survey").reserve(ASK)
    with pytest.raises(es.DataError, match="hard links"):  # on a connection that was open before
        ledger.dataset("survey").reserve(ASK)
    path.with_name("other.db").unlink()
    ledger.dataset("survey").reserve(ASK)


def test_a_symbolic_link_is_the_file_that_it_names(path, tmp_path):
    es.Ledger(path).init("survey", epsilon=1, delta=0)
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    names = [es.Ledger(path), es.Ledger(link)]
    for time in range(5):
        names[time % 2].dataset("survey").reserve(ASK)
    for one in names:
        with pytest.raises(es.BudgetRefused):
            one.dataset("survey").reserve(ASK)
    assert os.listdir(link.parent) == ["link.db"]
    link.unlink()
    link.symlink_to(tmp_path / "nowhere.db")
    with pytest.raises(es.DataError, match="There is no ledger"):
        es.Ledger(link).init("survey", epsilon=1, delta=0)


def test_a_file_that_was_replaced_is_not_charged_behind_the_scenes(path, tmp_path):
    """A connection to the file that was there before would charge what nobody looks at any more."""
    ledger = es.Ledger(path)
    ledger.init("survey", epsilon=1, delta=0)
    es.Ledger(tmp_path / "new.db").init("survey", epsilon=1, delta=0)
    reserved = ledger.dataset("survey").reserve(ASK)
    os.replace(tmp_path / "new.db", path)
    for beside in tmp_path.glob("budget.db-*"):
        beside.unlink()
    with pytest.raises(es.DataError, match="does not contain this charge"):
        ledger.dataset("survey").enter(reserved, "{}")
    for _ in range(5):
        ledger.dataset("survey").reserve(ASK)
    assert es.Ledger(path).account("survey").reserved == 5
    with pytest.raises(es.BudgetRefused):
        es.Ledger(path).dataset("survey").reserve(ASK)
    path.unlink()
    with pytest.raises(es.DataError, match="There is no ledger"):
        ledger.dataset("survey").reserve(ASK)


def test_a_database_of_something_else_is_left_alone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table people (age integer)")
    content = path.read_bytes()
    with pytest.raises(es.UsageError, match="a database of another program"):
        es.Ledger(path).init("survey", epsilon=1, delta=0)
    assert path.read_bytes() == content


def test_a_clock_that_goes_backwards_breaks_nothing(path, monkeypatch):
    times = iter(f"20{year:02d}-01-01T00:00:00.000000+00:00" for year in range(60, 0, -1))
    for module in (dataset_account, entries):
        monkeypatch.setattr(module, "read_clock", lambda: next(times))
    ledger = es.Ledger(path)
    ledger.init("survey", epsilon=1, delta=0)
    for _ in range(5):
        ledger.dataset("survey").enter(ledger.dataset("survey").reserve(ASK), "{}")
    with pytest.raises(es.BudgetRefused):
        ledger.dataset("survey").reserve(ASK)
    told = [entry["at"] for entry in ledger.history()]
    assert told == sorted(told, reverse=True)
    assert [entry["number"] for entry in ledger.history()] == list(range(1, 13))
    assert ledger.verify()


def test_a_child_process_has_a_connection_of_its_own(path):
    ledger = es.Ledger(path)
    ledger.init("survey", epsilon=1, delta=0)
    child = os.fork()
    if child == 0:
        try:
            ledger.dataset("survey").reserve(ASK)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    ledger.dataset("survey").reserve(ASK)
    assert ledger.account("survey").reserved == 2
    assert ledger.verify()
