"""`ellipsum ledger`, and releases that are charged to one, typed in a shell in an empty folder."""

import json
import re
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import commands
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import ellipsum as es
from ellipsum.apps import cli
from ellipsum.ledger import DatasetAccount
from ellipsum.ledger.entries import canonical, digest


@pytest.fixture
def people(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.uniform(0, 100, 900), "who": rng.integers(0, 300, 900)})
    pacsv.write_csv(table, tmp_path / "people.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)
    return tmp_path


@pytest.fixture
def shell(people, monkeypatch, capsys):
    """The commands of a shell, without a process each: exit code, standard output and standard error."""

    def run(line):
        monkeypatch.setattr("sys.argv", ["ellipsum", *line.split()])
        code = cli._run()
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    run.folder = people
    return run


MEAN = "mean people.csv --bounds age=0:120 --delta 0 --json --epsilon"


def test_a_budget_from_an_empty_folder(shell, monkeypatch):
    made = shell("ledger init budget.db --dataset survey --epsilon 1 --delta 1e-6")
    assert made.returncode == 0, made.stderr
    assert "'survey': epsilon = 1, delta = 1e-06" in made.stdout
    charge = "--ledger budget.db --dataset survey"
    first = shell(f"{MEAN} 0.6 {charge} --request-id monday")
    assert first.returncode == 0, first.stderr
    again = shell(f"{MEAN} 0.6 {charge} --request-id monday")
    assert again.stdout == first.stdout
    assert "the release that the ledger stored for this request id" in again.stderr
    assert "stored" not in first.stderr
    refused = shell(f"{MEAN} 0.6 {charge}")
    assert refused.returncode == 3
    assert refused.stderr.count("Requested: epsilon = 0.6") == 2  # The forecast does not say that it was spent.
    assert refused.stdout == ""
    assert "Requested: epsilon = 0.6, delta = 0. Remaining: epsilon = 0.4 of 1" in refused.stderr
    assert "Largest request that fits: epsilon = 0.4, delta = 0." in refused.stderr
    monkeypatch.setenv("ELLIPSUM_LEDGER", "budget.db")
    assert shell(f"{MEAN} 0.4").returncode == 2  # whose budget?
    assert shell(f"{MEAN} 0.4 --dataset survey").returncode == 0
    shown = json.loads(shell("ledger show budget.db --json").stdout)
    assert shown["accounts"][0]["spent"]["epsilon"] == ["1"]
    text = shell("ledger show budget.db").stdout
    assert "spent         epsilon = 1 of 1" in text
    assert f"anchor {shown['anchor']}" in text
    assert "releases      2 completed, 0 charged but not completed" in text
    verified = shell(f"ledger verify budget.db --anchor {shown['anchor']}")
    assert verified.returncode == 0
    assert shown["anchor"] in verified.stdout
    history = shell("ledger history budget.db").stdout
    assert re.search(r"survey  reserved, mean for epsilon 0\.6, delta 0, key monday", history)
    for form in ("jsonl", "dp_accounting", "registry"):
        assert shell(f"ledger export budget.db --format {form}").returncode == 0
    assert shell("ledger close budget.db --dataset survey").returncode == 0
    assert shell(f"{MEAN} 0.1 {charge}").returncode == 3


def test_every_releasing_command_takes_a_ledger(shell):
    init = "ledger init budget.db --dataset survey --epsilon 1000 --delta 1e-6 --privacy-id who --analyst-cap x=900"
    assert shell(init).returncode == 0
    charge = "--ledger budget.db --dataset survey@2026 --analyst x --privacy-id who --yes --delta 1e-9"
    for line in (
        "sum people.csv --bounds age=0:120 --epsilon 1",
        "learn people.csv --columns age --magnitude 1e3 --epsilon 8 --request-id rows",
        "project people.csv --k 1 --bounds age=0:120 --epsilon 100 --output out.parquet",
    ):
        done = shell(f"{line} {charge}")
        assert done.returncode == 0, done.stderr
    again = shell(f"learn people.csv --columns age --magnitude 1e3 --epsilon 8 --request-id rows {charge}")
    assert "the ledger stored for this request id" in again.stderr
    account = json.loads(shell("ledger show budget.db --dataset survey --json").stdout)["accounts"][0]
    assert (account["reserved"], account["released"]) == (3, 3)
    other = shell(
        "sum people.csv --bounds age=0:120 --epsilon 1 --delta 1e-9 --ledger budget.db --dataset survey --analyst x"
    )
    assert other.returncode == 3
    assert "do not add up" in other.stderr


def test_wrong_words_are_refused_with_their_codes(shell):
    assert shell("ledger show nothing.db").returncode == 4
    assert not (shell.folder / "nothing.db").exists()
    assert shell("ledger init budget.db --epsilon 1 --delta 0").returncode == 2
    assert shell("ledger init budget.db --dataset a --epsilon x --delta 0").returncode == 2
    assert shell("ledger init budget.db --dataset a --epsilon 1 --delta 0 --cap nonsense").returncode == 2
    twice = "--analyst-cap north=0.1 --analyst-cap north=0.5"
    assert shell(f"ledger init budget.db --dataset a --epsilon 1 --delta 0 {twice}").returncode == 2
    assert shell("ledger init budget.db --dataset a --epsilon 1 --delta 0 --period decade=1").returncode == 2
    assert not (shell.folder / "budget.db").exists()
    assert shell("ledger init budget.db --dataset a --epsilon 1 --delta 0 --period month=0.5").returncode == 0
    assert shell(f"{MEAN} 0.1 --ledger budget.db").returncode == 2
    assert shell("ledger verify budget.db --anchor 1:00").returncode == 2
    assert shell("ledger history budget.db --dataset b").returncode == 2
    damaged = (shell.folder / "budget.db").read_bytes().replace(b'"epsilon":"1"', b'"epsilon":"9"')
    (shell.folder / "budget.db").write_bytes(damaged)
    found = shell("ledger verify budget.db")
    assert found.returncode == 4
    assert "Entry 1 is bad" in found.stderr


def test_a_refusal_ends_a_process_with_code_3(people):
    def run(line):
        return commands.run(*line.split())

    assert run("ledger init budget.db --dataset survey --epsilon 0.5 --delta 0").returncode == 0
    done = run(f"{MEAN} 0.6 --ledger budget.db --dataset survey")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(
        "error: Budget of 'survey' exceeded: not enough epsilon left. Requested: epsilon = 0.6, delta = 0."
    )


def test_a_release_that_cannot_be_entered_is_printed_with_a_warning(shell, monkeypatch):
    def fail(*_, **__):
        raise es.DataError("the disk is full.")

    assert shell("ledger init budget.db --dataset survey --epsilon 1 --delta 0").returncode == 0
    monkeypatch.setattr(DatasetAccount, "enter", fail)
    monkeypatch.setattr("warnings.filters", [("default", None, es.LedgerWarning, None, 0)])
    done = shell(f"{MEAN} 0.6 --ledger budget.db --dataset survey")
    assert done.returncode == 0
    assert json.loads(done.stdout)["value"]
    assert re.search("^warning: The release was charged, but.*the disk is full", done.stderr, re.MULTILINE)


def test_no_command_writes_over_the_ledger(shell):
    shell("ledger init budget.db --dataset survey --epsilon 1 --delta 0")
    for line in ("ledger export budget.db", f"{MEAN} 0.5 --ledger budget.db --dataset survey"):
        refused = shell(f"{line} --output budget.db")
        assert refused.returncode == 2
        assert "is a database" in refused.stderr
    assert json.loads(shell("ledger show budget.db --json").stdout)["accounts"][0]["reserved"] == 0


@pytest.mark.parametrize(
    ("number", "field", "value"),
    [(1, "at", None), (1, "dataset", "missing"), (3, "stated", 3), (3, "analyst_spent", {}), (3, "period_spent", "x")],
)
def test_an_entry_that_nobody_wrote_is_a_plain_error(shell, number, field, value):
    """Looking at it was a crash."""
    shell("ledger init budget.db --dataset survey --epsilon 1 --delta 0 --analyst-cap x=1 --period year=1")
    assert shell(f"{MEAN} 0.6 --ledger budget.db --dataset survey --analyst x").returncode == 0
    with closing(sqlite3.connect("budget.db")) as connection:
        connection.execute("drop trigger ellipsum_no_change")
        text = "select body from ellipsum_entries where number = ?"
        fields = json.loads(connection.execute(text, [number]).fetchone()[0]) | {field: value}
        if value == "missing":
            del fields[field]
        text = "update ellipsum_entries set body = ?, digest = ? where number = ?"
        connection.execute(text, [canonical(fields), digest(canonical(fields)), number])
        connection.commit()
    done = [
        shell(f"ledger {what} budget.db") for what in ("show", "show --json", "history", "history --json", "verify")
    ]
    assert {one.returncode for one in done} <= {0, 4}
    assert done[0].returncode == 4 or done[2].returncode == 4
    assert all("entry" in one.stderr.lower() for one in done if one.returncode)
    assert done[-1].returncode == 4
