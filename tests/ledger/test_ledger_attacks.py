"""Somebody with the file in hand, or in a hurry: doctored files, races of every kind, odd amounts, interrupts."""

import json
import os
import signal
import sqlite3
import threading
from contextlib import closing, suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from racing import ASK, FORK

import ellipsum as es
from ellipsum.errors import EllipsumError
from ellipsum.ledger import ChargeRequest, DatasetAccount

BOX = es.Box(0, 1)
X = np.random.default_rng(0).uniform(0, 1, (300, 2))
WORDS = {"epsilon": 0.2, "delta": 0}


@pytest.fixture
def path(tmp_path):
    """Two releases, the first of them stored, each with a plan."""
    path = tmp_path / "budget.db"
    ledger = es.Ledger(path)
    ledger.init("survey", epsilon=1, delta=0, analyst_caps={"north": 0.8, "*": 0.6}, period={"year": 0.9})
    for key in ("a", None):
        es.mean(X, BOX, ledger=ledger.dataset("survey", analyst="north"), request_id=key, **WORDS)
    del ledger
    return path


def doctor(path, script, values=None):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("drop trigger ellipsum_no_change; drop trigger ellipsum_no_removal")
        if values is None:
            connection.executescript(script)
        else:
            connection.execute(script, values)
        connection.commit()


LOOKS = {
    "show": repr,
    "account": lambda ledger: ledger.account("survey").to_dict(),
    "history": lambda ledger: ledger.history(),
    "lines": lambda ledger: ledger.export("jsonl"),
    "events": lambda ledger: ledger.export("dp_accounting"),
    "registry": lambda ledger: ledger.export("registry"),
    "charge": lambda ledger: ledger.dataset("survey", analyst="north").reserve(ASK),
    "key": lambda ledger: es.mean(X, BOX, ledger=ledger.dataset("survey", analyst="north"), request_id="a", **WORDS),
    "close": lambda ledger: ledger.close("survey"),
}


# Doctored files -----------------------------------------------------------------------------------------


def odd_entries():
    """Each entry with a field missing, or of another kind; its digest is that of the new text."""
    for number, field in ((1, "budget"), (1, "analysts"), (2, "caps"), (5, "spent"), (5, "charged"), (5, "guarantee")):
        for value in ("missing", None, 3, "x", [], {"mu": "1e999999999", "epsilon": ["-1"]}):
            yield number, field, value


@pytest.mark.parametrize("batch", range(4))
def test_odd_entries_are_plain_errors(path, batch):
    for number, field, value in list(odd_entries())[batch::4]:
        other = path.with_name("odd.db")
        other.write_bytes(path.read_bytes())
        with closing(sqlite3.connect(other)) as connection:
            (body,) = connection.execute("select body from ellipsum_entries where number = ?", (number,)).fetchone()
        fields = json.loads(body) | {field: value}
        if value == "missing":
            del fields[field]
        body = es.ledger.entries.canonical(fields)
        values = (body, es.ledger.entries.digest(body), number)
        doctor(other, "update ellipsum_entries set body = ?, digest = ? where number = ?", values)
        with pytest.raises(es.DataError, match="is bad"):
            es.Ledger(other).verify()
        for look in LOOKS.values():
            with suppress(EllipsumError):
                look(es.Ledger(other))


@pytest.mark.parametrize(
    "script",
    [
        "create trigger x after insert on ellipsum_entries begin delete from ellipsum_entries where number > 6; end",
        "create trigger x before insert on ellipsum_entries begin select raise(ignore); end",
        "alter table ellipsum_entries rename to e; create view ellipsum_entries as select * from e where number < 5",
        "create table e as select * from ellipsum_entries; drop table ellipsum_entries; "
        "alter table e rename to ellipsum_entries",
        "drop index ellipsum_by_dataset; "
        "create index ellipsum_by_dataset on ellipsum_entries (dataset, what, number) where number < 5",
    ],
    ids=["swallowed", "ignored", "hidden", "retyped", "not indexed"],
)
def test_tables_that_would_lose_charges_are_refused(path, script):
    """A trigger could take every charge away again, and verify found the chain in order."""
    doctor(path, script)
    for look in (*LOOKS.values(), es.Ledger.verify):
        with pytest.raises(es.DataError, match="ellipsum did not create"):
            look(es.Ledger(path))


def test_an_entry_that_is_not_kept_is_no_charge(path, monkeypatch):
    ledger = es.Ledger(path)
    monkeypatch.setattr(type(ledger._store), "_check_schema", lambda *_: None)
    doctor(path, "create trigger x before insert on ellipsum_entries begin select raise(ignore); end")
    with pytest.raises(es.DataError, match="did not store"):
        ledger.dataset("survey", analyst="north").reserve(ASK)


@pytest.mark.parametrize(("number", "what"), [(1, "budget"), (2, "caps"), (5, "spent")])
def test_a_changed_entry_is_not_charged_upon(path, number, what):
    doctor(path, f"update ellipsum_entries set body = replace(body, '\"0', '\"1') where number = {number}")
    assert what
    with pytest.raises(es.DataError, match=f"Entry {number} is bad: it was changed"):
        es.Ledger(path).dataset("survey", analyst="north").reserve(ASK)


@pytest.mark.parametrize("look", ["history", "lines", "events"])
def test_a_changed_entry_is_not_shown_as_if_it_were_true(path, look):
    doctor(path, "update ellipsum_entries set body = replace(body, '0.2', '0.1') where number = 5")
    with pytest.raises(es.DataError, match="Entry 5 is bad: it was changed"):
        LOOKS[look](es.Ledger(path))


def test_a_changed_release_is_not_given_out_under_its_key(path):
    doctor(path, "update ellipsum_results set body = replace(body, '0.', '1.')")
    with pytest.raises(es.DataError, match="the release that is stored for it was changed"):
        LOOKS["key"](es.Ledger(path))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("delete from ellipsum_plans", "A plan .* is missing"),
        ("delete from ellipsum_results", "Entry 4 is bad: the release .* is missing"),
        ("update ellipsum_results set body = cast(body as blob)", "Entry 4 is bad: the release .* was changed"),
        ("update ellipsum_plans set body = cast(body as blob)", "A plan .* was changed"),
        ("update ellipsum_entries set body = cast(body as blob) where number = 3", "Entry 3 is bad: it is no entry"),
        ("update ellipsum_entries set number = -6 where number = 6", "Entry 1 is bad: it is missing"),
        ("update ellipsum_entries set number = 1 << 62 where number = 6", "Entry 6 is bad: it is missing"),
    ],
)
def test_verify_finds_what_was_taken_away_or_turned_into_something_else(path, script, why):
    doctor(path, script)
    with pytest.raises(es.DataError, match=why):
        es.Ledger(path).verify()


def test_an_entry_far_beyond_the_others_is_not_built_upon(path):
    doctor(path, "update ellipsum_entries set number = (1 << 62) + ((1 << 62) - 1) where number = 6")
    with pytest.raises(es.DataError, match="its number is too large"):
        es.Ledger(path).dataset("survey", analyst="north").reserve(ASK)


# Races --------------------------------------------------------------------------------------------------


def crowd(target, count, *arguments):
    start, told = FORK.Event(), FORK.SimpleQueue()
    members = [FORK.Process(target=_member, args=(target, start, told, place, *arguments)) for place in range(count)]
    for one in members:
        one.start()
    start.set()
    found = [told.get() for _ in members]
    for one in members:
        one.join(60)
        assert one.exitcode == 0
    return found


def _member(target, start, told, place, *arguments):
    start.wait(60)
    try:
        told.put(target(place, *arguments))
    except EllipsumError as error:
        told.put(type(error).__name__ + ": " + str(error))


def _init(place, path):
    es.Ledger(path).init("survey", epsilon=1 + place, delta=0)
    return 1 + place


def test_of_several_that_open_a_budget_one_does(tmp_path):
    """Each states another amount, and the file is not there yet."""
    for time in range(3):
        path = tmp_path / f"{time}.db"
        found = crowd(_init, 8, path)
        (opened,) = [amount for amount in found if isinstance(amount, int)]
        assert sum("has a budget in this ledger already" in str(one) for one in found) == 7
        assert es.Ledger(path).account("survey").budget["epsilon"] == opened
        assert es.Ledger(path).verify()


def _same_key(place, path):
    return es.mean(X, BOX, ledger=es.Ledger(path).dataset("survey"), request_id="once", **WORDS).to_json()


def test_one_key_is_one_charge_however_many_ask_at_once(tmp_path):
    path = tmp_path / "budget.db"
    es.Ledger(path).init("survey", epsilon=1, delta=0)
    found = crowd(_same_key, 6, path)
    made = {one for one in found if not one.startswith("BudgetRefused")}
    assert len(made) == 1
    assert all("still running" in one for one in found if one.startswith("BudgetRefused"))
    assert es.Ledger(path).account("survey").reserved == 1
    assert _same_key(0, path) in made


def _charge_or_close(place, path):
    ledger = es.Ledger(path)
    if place == 3:
        ledger.close("survey")
        return "closed"
    return ledger.dataset("survey").reserve(ASK).number


def test_nothing_is_charged_after_the_end(tmp_path):
    for time in range(3):
        path = tmp_path / f"{time}.db"
        es.Ledger(path).init("survey", epsilon=100, delta=0)
        found = crowd(_charge_or_close, 10, path)
        entries = [entry["what"] for entry in es.Ledger(path).history()]
        assert entries[-1] == "closed"
        assert sum(isinstance(one, int) for one in found) == entries.count("reserved")
        assert es.Ledger(path).verify()


def test_threads_share_one_ledger(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=0)
    admitted = []

    def charge():
        with suppress(es.BudgetRefused):
            admitted.append(ledger.dataset("survey").reserve(ASK).number)

    threads = [threading.Thread(target=charge) for _ in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(admitted)) == 5


# Keys, amounts, interrupts ------------------------------------------------------------------------------


def test_a_key_belongs_to_its_data_set(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=0)
    ledger.init("census", epsilon=1, delta=0)
    first = es.mean(X, BOX, ledger=ledger.dataset("survey"), request_id="a", **WORDS)
    other = es.mean(X, BOX, ledger=ledger.dataset("census"), request_id="a", **WORDS)
    assert other != first
    assert ledger.account("census").reserved == 1


@pytest.mark.parametrize(
    "epsilon", ["0." + "3" * 390, "999999." + "9" * 390, "1e6", "1e-100", Decimal("0.2"), 0.1 + 0.2]
)
def test_amounts_of_any_length_are_kept_to_the_digit(tmp_path, epsilon):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=epsilon, delta=0)
    exact = Fraction(str(epsilon))
    assert ledger.account("survey").budget["epsilon"] == exact
    if exact >= Fraction(1, 5):
        ledger.dataset("survey").reserve(ASK)
        assert ledger.account("survey").caps.pure == (exact,)
    else:
        with pytest.raises(es.BudgetRefused):
            ledger.dataset("survey").reserve(ASK)
    assert ledger.verify()
    assert repr(ledger)


@pytest.mark.parametrize(
    "epsilon", ["-0.1", "nan", "inf", "1e301", "0x1", "1_0", "٣", "", " ", b"1", 1j, [1], "1" * 401]
)
def test_amounts_that_are_none_are_refused(tmp_path, epsilon):
    with pytest.raises(es.UsageError):
        es.Ledger(tmp_path / "budget.db").init("survey", epsilon=epsilon, delta=0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("moment", ["within a transaction", "before the release"])
def test_an_interrupt_leaves_the_charge_and_a_ledger_in_order(tmp_path, monkeypatch, moment):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=0)

    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)

    if moment == "before the release":
        with pytest.raises(KeyboardInterrupt):
            es.mean(X, BOX, ledger=ledger.dataset("survey"), progress=interrupt, **WORDS)
    else:
        with monkeypatch.context() as patch:
            patch.setattr(es.ledger.dataset_account, "_store_plan", interrupt)
            with pytest.raises(KeyboardInterrupt):
                es.mean(X, BOX, ledger=ledger.dataset("survey"), **WORDS)
    charged = int(moment == "before the release")
    assert es.Ledger(tmp_path / "budget.db").account("survey").reserved == charged
    assert ledger.account("survey").released == 0
    ledger.dataset("survey").reserve(ASK)
    assert ledger.verify()


@pytest.mark.parametrize("look", [es.Ledger.account, es.Ledger.close, es.Ledger.history])
def test_what_is_no_name_has_no_account(path, look):
    for name in (["survey"], {}, "a\nb"):
        with pytest.raises(es.UsageError, match="dataset must be a name"):
            look(es.Ledger(path), name)


@pytest.mark.parametrize("name", ["budget\0.db", "\ud800.db"])
def test_addresses_that_name_no_file_are_refused(name):
    with pytest.raises(es.UsageError, match="A ledger is a path"):
        es.Ledger(name)


def test_a_file_may_have_any_name_that_a_file_may_have(tmp_path):
    ledger = es.Ledger(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff?#%.db"))
    ledger.init("survey", epsilon=1, delta=0)
    assert ledger.verify() == ledger.anchor
    assert b"b\xff?#%.db" in os.listdir(os.fsencode(tmp_path))
    with pytest.raises(es.DataError, match="is a folder"):
        es.Ledger(tmp_path).init("survey", epsilon=1, delta=0)


@pytest.mark.parametrize("word", ["dataset", "request_id", "analyst"])
def test_names_have_a_length(tmp_path, word):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=0)
    names = {"dataset": "survey@2026", "analyst": "ana", "request_id": "a"}
    names[word] += "x" * 1000

    def ask(dataset, analyst, request_id):
        return es.mean(X, BOX, ledger=ledger.dataset(dataset, analyst=analyst), request_id=request_id, **WORDS)

    with pytest.raises(es.UsageError, match=f"{word} must be a name of"):
        ask(**names)
    assert ledger.account("survey").reserved == 0


def test_a_charge_of_nothing_but_a_claim_is_worked_out(tmp_path):
    """What is stated is not believed: the guarantee's own curve is charged."""
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=1e-6)
    with pytest.raises(es.BudgetRefused):
        ledger.dataset("survey").reserve(
            ChargeRequest("a lie", es.Privacy.of_pure(3.0), {"epsilon": 0.1, "delta": 1e-9})
        )
    with pytest.raises(es.BudgetRefused):
        ledger.dataset("survey").reserve(ChargeRequest("a lie", es.Privacy(2.0), {"epsilon": 0.1, "delta": 1e-9}))


@pytest.mark.parametrize(
    "words", [{"request_id": 3}, {"request_id": ""}, {"analyst": "a\nb"}, {"analyst": b"x"}, {"dataset": 3}]
)
def test_names_of_a_charge_are_texts(tmp_path, words):
    """A number as a key was entered, and verify found that the entry's columns were not those of its text."""
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=0)
    with pytest.raises(es.UsageError, match="must be a name of"):
        DatasetAccount(**({"store": ledger._store, "dataset": "survey"} | words))
    assert ledger.account("survey").reserved == 0


def test_a_release_is_entered_once_and_where_it_was_charged(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=0)
    ledger.init("census", epsilon=1, delta=0)
    reserved = ledger.dataset("survey").reserve(ASK)
    with pytest.raises(es.DataError, match="does not contain this charge"):
        ledger.dataset("census").enter(reserved, "{}")
    ledger.dataset("survey").enter(reserved, "{}")
    with pytest.raises(es.DataError, match="could not be written"):
        ledger.dataset("survey").enter(reserved, "{}")
    assert ledger.account("survey").released == 1
    assert ledger.verify()
