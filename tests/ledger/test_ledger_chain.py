"""A changed ledger is found out, and the first bad entry is named; what is exported."""

import json
import re
import shutil
import sqlite3

import numpy as np
import pytest

import ellipsum as es
from ellipsum.ledger import ChargeRequest
from ellipsum.ledger.entries import canonical, digest

BOX = es.Box(0, 1)
X = np.random.default_rng(0).uniform(0, 1, (300, 2))


@pytest.fixture
def path(tmp_path):
    """Two data sets, eleven entries, a stored release."""
    path = tmp_path / "budget.db"
    ledger = es.Ledger(path)
    ledger.init("survey", epsilon=1, delta=1e-6)
    ledger.init("visits", epsilon=2, delta=1e-6, privacy_id="patient")
    for key in ("a", None, None):
        es.mean(X, BOX, epsilon=0.25, delta=0, ledger=ledger.dataset("survey"), request_id=key)
    person = es.Privacy(0.1, 1e-8, "replace", "person")
    ledger.dataset("visits").reserve(ChargeRequest("a test", person, {"epsilon": 0.5, "delta": 1e-7}, "patient"))
    assert len(ledger.history()) == 11
    del ledger
    return path


def change(path, *texts, values=()):
    """What somebody with the file in hand may do."""
    connection = sqlite3.connect(path)
    for text in ("drop trigger if exists ellipsum_no_change", "drop trigger if exists ellipsum_no_removal"):
        connection.execute(text)
    for text in texts:
        connection.execute(text, values)
    connection.commit()
    connection.close()


def forge(path, number, edit, onwards=True):
    """Rewrite an entry, and all digests from there on."""
    connection = sqlite3.connect(path)
    connection.execute("drop trigger if exists ellipsum_no_change")
    rows = connection.execute("select number, body from ellipsum_entries order by number").fetchall()
    before = digest(rows[number - 2][1])
    for place, body in rows[number - 1 :]:
        fields = json.loads(body) | {"before": before}
        if place == number:
            edit(fields)
        body = canonical(fields)
        before = digest(body)
        connection.execute("update ellipsum_entries set body = ?, digest = ? where number = ?", (body, before, place))
        if not onwards:
            break
    connection.commit()
    connection.close()


def test_a_ledger_verifies(path):
    ledger = es.Ledger(path)
    assert ledger.verify() == ledger.anchor
    assert ledger.verify(ledger.anchor) == ledger.anchor
    assert ledger.anchor.startswith("11:")


@pytest.mark.parametrize("number", [1, 4, 7, 11])
def test_a_changed_entry_is_named(path, number):
    change(path, f"update ellipsum_entries set body = replace(body, '2026', '2025') || ' ' where number = {number}")
    with pytest.raises(es.DataError, match=f"Entry {number} is bad: it was changed"):
        es.Ledger(path).verify()


def test_a_changed_entry_with_its_digest_is_named_by_the_next(path):
    forge(path, 4, lambda fields: fields.update(at="1999"), onwards=False)
    with pytest.raises(es.DataError, match="Entry 5 is bad: it does not follow the entry before"):
        es.Ledger(path).verify()


def test_text_after_an_entry_is_no_part_of_one(path):
    """Looking at the ledger failed on it, and verify, which was to name it, found nothing."""
    fields = es.Ledger(path).history()[-1]
    del fields["digest"]
    body = canonical(fields) + " {}"
    values = (body, digest(body))
    change(path, "update ellipsum_entries set body = ?, digest = ? where number = 11", values=values)
    with pytest.raises(es.DataError, match="Entry 11 is bad: it does not follow"):
        es.Ledger(path).verify()


def test_a_missing_entry_is_named(path):
    change(path, "delete from ellipsum_entries where number = 6")
    with pytest.raises(es.DataError, match="Entry 6 is bad: it is missing"):
        es.Ledger(path).verify()


def test_columns_are_those_of_the_text(path):
    change(path, "update ellipsum_entries set key = 'b' where key = 'a'")
    with pytest.raises(es.DataError, match="Entry 4 is bad: its columns"):
        es.Ledger(path).verify()


@pytest.mark.parametrize("table", ["plans", "results"])
def test_what_is_kept_beside_is_checked(path, table):
    change(path, f"update ellipsum_{table} set body = replace(body, '1', '2')")
    with pytest.raises(es.DataError, match="was changed"):
        es.Ledger(path).verify()


def halve(fields):
    fields["charged"]["epsilon"] = ["0.125"]


def lower(fields):
    fields["spent"]["epsilon"] = ["0.1"]


def nonsense(fields):
    fields["charged"] = 3


def negative(fields):
    fields["charged"]["epsilon"], fields["spent"]["epsilon"] = ["-0.25"], ["-0.25"]


@pytest.mark.parametrize(("number", "edit"), [(4, halve), (6, lower), (8, nonsense), (4, negative)])
def test_sums_are_those_of_the_charges_even_where_the_chain_was_redone(path, number, edit):
    forge(path, number, edit)
    with pytest.raises(es.DataError, match=f"Entry {number} is bad: it (does not follow|is no entry)"):
        es.Ledger(path).verify()


def test_caps_are_not_raised_later(path):
    forge(path, 3, lambda fields: fields["caps"].update(epsilon=["0.4"]))
    with pytest.raises(es.DataError, match="Entry 6 is bad"):
        es.Ledger(path).verify()


def test_an_anchor_finds_a_rolled_back_ledger(path, tmp_path):
    old = tmp_path / "old.db"
    shutil.copy(path, old)
    ledger = es.Ledger(path)
    es.mean(X, BOX, epsilon=0.25, delta=0, ledger=ledger.dataset("survey"))
    anchor = ledger.anchor
    copy = es.Ledger(old)
    assert copy.verify()  # by itself the old copy is consistent
    with pytest.raises(es.DataError, match="rolled back"):
        copy.verify(anchor)
    es.mean(X, BOX, epsilon=0.25, delta=0, ledger=copy.dataset("survey"))
    assert len(copy.history()) == len(ledger.history())
    with pytest.raises(es.DataError, match="rolled back"):  # as long, but another history
        copy.verify(anchor)
    ledger.close("survey")
    assert ledger.verify(anchor)


def test_an_anchor_finds_a_chain_that_was_redone(path):
    anchor = es.Ledger(path).anchor
    forge(path, 2, lambda fields: fields["budget"].update(epsilon="99"))
    assert es.Ledger(path).verify()
    with pytest.raises(es.DataError, match="rolled back"):
        es.Ledger(path).verify(anchor)
    for wrong in ("", "11", "x:y", 3):
        with pytest.raises(es.UsageError, match="An anchor is"):
            es.Ledger(path).verify(wrong)


def test_entries_are_never_changed_by_accident(path):
    connection = sqlite3.connect(path)
    for text in ("update ellipsum_entries set key = 'x'", "delete from ellipsum_entries"):
        with pytest.raises(sqlite3.DatabaseError, match="never"):
            connection.execute(text)
    connection.close()


def test_the_file_is_the_owners_alone(path):
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be looked at" * 30])
def test_what_is_no_ledger_is_refused(tmp_path, content):
    (tmp_path / "x.db").write_bytes(content)
    for look in (lambda x: x.accounts(), lambda x: x.verify(), lambda x: x.anchor):
        with pytest.raises(es.DataError, match="could not be read"):
            look(es.Ledger(tmp_path / "x.db"))


def test_every_byte_matters(path, tmp_path):
    """A damaged file is found out, or never was part of an entry: nothing else happens."""
    content = path.read_bytes()
    expected = es.Ledger(path).history()
    rng = np.random.default_rng(0)
    found = 0
    for place in rng.integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        copy = tmp_path / "damaged.db"
        copy.write_bytes(bytes(damaged))
        try:
            ledger = es.Ledger(copy)
            ledger.verify()
            assert ledger.history() == expected
        except es.DataError:
            found += 1
    assert found > 10


# Exports ------------------------------------------------------------------------------------------------


def test_lines_hold_every_entry(path):
    ledger = es.Ledger(path)
    lines = [json.loads(line) for line in ledger.export("jsonl").splitlines()]
    assert lines == ledger.history()


def test_events_are_those_of_the_releases(path):
    found = json.loads(es.Ledger(path).export("dp_accounting"))
    survey, visits = found["survey"]["event"], found["visits"]["event"]
    assert survey["class_name"] == visits["class_name"] == "ComposedDpEvent"
    assert [event["class_name"] for event in survey["events"]] == ["DiscreteLaplaceDpEvent"] * 3
    assert {(event["noise_parameter"], event["sensitivity"]) for event in survey["events"]} == {(0.25, 1)}
    assert visits["events"][0]["noise_multiplier"] == pytest.approx(10)
    assert found["visits"]["delta_beside"] == 1e-8


def test_the_registry_gets_facts_only(path):
    text = es.Ledger(path).export("registry")
    survey, visits = text.split("---\n")
    assert "      epsilon: 1\n      delta: 0.000001\n" in survey
    assert 'privacy_unit: "person"' in visits
    assert "by the column patient" in visits
    assert "# intended_use: ''" in survey
    assert all(re.fullmatch(r" *(# )?\w+:( .*)?", line) for line in text.replace("---\n", "").splitlines())
    assert text.isascii()
    with pytest.raises(es.UsageError, match="kind must be"):
        es.Ledger(path).export("xml")


# Indices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text", "why"),
    [
        (2, "update ellipsum_entries set body = body || ' ' where number = 2", "it was changed"),
        (5, "delete from ellipsum_entries where number = 5", "it is missing"),
        (6, "update ellipsum_entries set dataset = 'visits' where number = 6", "its columns"),
        (1, "update ellipsum_entries set number = 0 where number = 11", "it is missing"),
    ],
)
def test_the_first_bad_entry_is_named(path, number, text, why):
    change(path, text)
    with pytest.raises(es.DataError, match=f"Entry {number} is bad: {why}"):
        es.Ledger(path).verify()


def hide(path, shown):
    """Doctor the index by which sums are looked up, so that it finds some entries only."""
    change(
        path,
        "drop index ellipsum_by_dataset",
        f"create index ellipsum_by_dataset on ellipsum_entries (dataset, what, number) where {shown}",
        "pragma writable_schema = 1",
        f"update sqlite_master set sql = replace(sql, ' where {shown}', '') where name = 'ellipsum_by_dataset'",
    )


def test_an_index_that_hides_charges_is_found(path):
    """It would give their budget back."""
    hide(path, "number < 8")
    ledger = es.Ledger(path)
    assert ledger.account("survey").to_dict()["spent"]["epsilon"] == ["0.5"]  # of 0.75
    with pytest.raises(es.DataError, match="indices do not find"):
        ledger.verify()
