"""From a file to a release and what can be taken home of it, over the wire."""

import csv
import io
import json
import os
import sqlite3
import threading
import time
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from visiting import BOUNDS, BUDGET, Visitor

import ellipsum as es

pytest_plugins = ["studios"]

SLOW = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 30000000) select i * 1.0 as x from c"


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """One studio for all: its process that makes releases is started once."""
    visitor = Visitor()
    yield visitor.enter()
    visitor.close()


@pytest.fixture(autouse=True)
def no_ledger(monkeypatch):
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)


def test_from_a_file_to_everything_that_can_be_taken_home(visitor, people):
    desk = visitor.opened(people)
    page = visitor.get(desk).text
    assert ">income<" in page
    assert "Oslo" not in page
    found = visitor.ask(f"{desk}/forecast", {**BOUNDS, **BUDGET})
    assert found["n"] == 2000
    assert found["error"] > 0
    job = visitor.release(desk, {**BOUNDS, **BUDGET})
    place = visitor.get(job).place
    page = visitor.get(place)
    assert page.status == 200
    assert "Private mean" in page.text
    release = es.from_json(visitor.get(f"{place}/release.json").text)
    assert release.secure
    assert release.stated == {"epsilon": 1.0, "delta": 1e-6}
    lines = list(csv.DictReader(io.StringIO(visitor.get(f"{place}/release.csv").text)))
    assert [line["column"] for line in lines] == ["age", "income"]
    assert [float(line["value"]) for line in lines] == release.value.tolist()
    assert "age=0:120" in visitor.get(f"{place}/release.sh").text
    assert "es.mean(" in visitor.get(f"{place}/release.py").text
    report = visitor.get(f"{place}/report.html")
    assert report.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "age" in report.text
    assert visitor.get(f"{place}/nothing.exe").status == 404
    assert place in visitor.get("/history").text


def test_a_form_releases_once(visitor, people):
    """A double click, a reload and the way back make no second release."""
    desk = visitor.opened(people)
    form, before = visitor.form(desk), len(visitor.studio.jobs)
    fields = {"form": form, **BOUNDS, **BUDGET}
    answers = []
    clicks = [
        threading.Thread(target=lambda: answers.append(visitor.post(f"{desk}/release", fields))) for _ in range(4)
    ]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    assert {answer.status for answer in answers} == {303}
    assert len({answer.place for answer in answers}) == 1
    visitor.ended(answers[0].place)
    assert visitor.post(f"{desk}/release", fields).place == answers[0].place
    changed = visitor.post(f"{desk}/release", {**fields, "epsilon": "2"})
    assert changed.status == 422
    assert "used already" in changed.text
    assert "not from this run" in visitor.post(f"{desk}/release", {**fields, "form": "0" * 64}).text
    assert len(visitor.studio.jobs) == before + 1


def test_release_again_makes_another_release(visitor, people):
    desk = visitor.opened(people)
    place = visitor.get(visitor.release(desk, {**BOUNDS, **BUDGET})).place
    assert "once more" in visitor.get(place).text
    again = visitor.post(f"{place}/again", {"form": visitor.form(place)})
    second = visitor.get(visitor.ended(again.place)).place
    assert second != place
    first, other = (es.from_json(visitor.get(f"{one}/release.json").text) for one in (place, second))
    assert (first.value != other.value).any()
    assert first.plan == other.plan


def test_wrong_fields_come_back_with_their_errors_and_nothing_is_spent(visitor, people):
    desk = visitor.opened(people)
    before = len(visitor.studio.jobs)
    sent = {"form": visitor.form(desk), **BOUNDS, "b-0": "<b>x", "delta": "1e-6"}
    done = visitor.post(f"{desk}/release", sent)
    assert done.status == 422
    assert 'id="b-0-wrong"' in done.text
    assert 'id="epsilon-wrong"' in done.text
    assert 'value="&lt;b&gt;x"' in done.text
    assert "<b>x" not in done.text
    assert len(visitor.studio.jobs) == before


def test_two_tabs_race_for_a_budget_that_has_room_for_one(visitor, people, tmp_path):
    ledger = str(tmp_path / "budget.db")
    made = visitor.ask("/ledger/open", {"ledger": ledger, "dataset": "s", "whole_epsilon": "1", "whole_delta": "1e-6"})
    assert made["left"] == "all of it"
    desk = visitor.opened(people)
    fields = {**BOUNDS, "epsilon": "0.7", "delta": "1e-6", "ledger": ledger, "dataset": "s"}
    jobs = []
    tabs = [threading.Thread(target=lambda: jobs.append(visitor.release(desk, fields))) for _ in range(2)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    states = sorted(json.loads(visitor.get(f"{job}/state").body)["state"] for job in jobs)
    assert states == ["failed", "released"]
    (refused,) = [job for job in jobs if "failed" in visitor.get(f"{job}/state").text]
    page = visitor.get(refused).text
    assert "The ledger refused" in page
    assert "Remaining: epsilon = 0.3 of 1" in page
    assert visitor.get(f"{refused}/edit").text.count('value="0.7"') == 1
    assert "epsilon = 0.7 of 1" in visitor.ask("/ledger/balance", {"ledger": ledger, "dataset": "s"})["spent"]
    assert visitor.ask("/ledger/balance", {"ledger": ledger})["datasets"] == ["s"]
    assert (
        "already"
        in visitor.ask("/ledger/open", {"ledger": ledger, "dataset": "s", "whole_epsilon": "1", "whole_delta": "1e-6"})[
            "problem"
        ]
    )


def test_a_forecast_that_speaks_against_the_release_stops_it_unless_accepted(visitor, people):
    desk = visitor.opened(people)
    poor = {**BOUNDS, "epsilon": "0.001", "delta": "1e-6"}
    assert visitor.ask(f"{desk}/forecast", poor)["warning"]
    form = visitor.form(desk)
    job = visitor.ended(visitor.post(f"{desk}/release", {"form": form, **poor}).place)
    assert "Nothing was spent" in visitor.get(job).text
    assert "used already" in visitor.post(f"{desk}/release", {"form": form, **poor}).text  # not the same failure again
    assert visitor.get(f"{job}/edit").status == 422
    place = visitor.get(visitor.release(desk, {**poor, "accepted": "1"})).place
    assert "--yes" in visitor.get(place).text


def test_cancelling_ends_the_work_and_keeps_the_charge(visitor, tmp_path):
    database, ledger = tmp_path / "d.db", str(tmp_path / "budget.db")
    sqlite3.connect(database).close()
    visitor.ask("/ledger/open", {"ledger": ledger, "dataset": "s", "whole_epsilon": "1", "whole_delta": "1e-6"})
    desk = visitor.post("/open/database", {"database": f"sqlite:///{database}", "query": SLOW}).place
    fields = {"use": ["0"], "a-0": "0", "b-0": "1e9", "ledger": ledger, "dataset": "s", **BUDGET}
    fields |= {"neighbors": "add_remove", "n": "30000000"}
    job = visitor.post(f"{desk}/release", {"form": visitor.form(desk), **fields}).place
    one = visitor.studio.jobs[job.rpartition("/")[2]]
    for _ in range(300):
        if one.approved:
            break
        time.sleep(0.1)
    process = one.process
    assert visitor.post(f"{job}/cancel").status == 303
    assert "The charge stays" in visitor.get(job).text
    process.process.wait(20)
    for _ in range(100):  # a busy machine takes a while to notice
        state = json.loads(visitor.get(f"{job}/state").body)["state"]
        if state == "canceled":
            break
        time.sleep(0.1)
    assert state == "canceled"
    balance = visitor.ask("/ledger/balance", {"ledger": ledger, "dataset": "s"})
    assert balance["share"] == 1.0
    assert balance["releases"] == "0 completed, 1 charged but not completed"


def test_schema_alone_is_shown(visitor, tmp_path):
    """Of Parquet the types; of no file a cell."""
    table = pa.table({"age": [41.5, 77.25], "city": ["Springfield", "Shelbyville"], "n": [3, 4]})
    pq.write_table(table, tmp_path / "t.parquet")
    page = visitor.get(visitor.opened(tmp_path / "t.parquet")).text
    assert "<small>double</small>" in page
    assert "<small>string</small>" in page
    assert 'value="1" aria-label="Use city" data-text disabled' in page
    for cell in ("41.5", "77.25", "Springfield"):
        assert cell not in page


def test_names_alone_give_plans_and_no_release(visitor):
    desk = visitor.post("/open/names", {"names": "age, income\nheight"}).place
    page = visitor.get(desk).text
    assert "Download the plan" in page
    assert f'action="{visitor.guard.root}{desk}/release"' in page  # the form's own, without a button that leads there
    assert ">Release<" not in page
    fields = {**BOUNDS, **BUDGET, "n": "5000"}
    assert visitor.ask(f"{desk}/forecast", {**fields, "n": ""})["hint"] == "Type the number of rows."
    plan = es.Plan.from_json(visitor.post(f"{desk}/plan", fields).text)
    assert plan.n == 5000
    assert visitor.ask(f"{desk}/forecast", fields)["columns"][1][1] == pytest.approx(plan.expected_error[1])
    assert visitor.post(f"{desk}/release", {"form": visitor.form(desk), **fields}).status == 404


def test_a_wanted_error_gives_the_least_epsilon(visitor, people):
    desk = visitor.opened(people)
    fields = {**BOUNDS, "delta": "1e-6", "goal": "error", "error": "500", "error_of": "1"}
    found = visitor.ask(f"{desk}/forecast", fields)
    assert found["error"] == dict(found["columns"])["income"] <= 500
    less = {**BOUNDS, "delta": "1e-6", "epsilon": str(0.99 * found["epsilon"]), "error_of": "1"}
    assert visitor.ask(f"{desk}/forecast", less)["error"] > 500
    one = visitor.ask(f"{desk}/forecast", {**fields, "error": "0.5", "error_of": ""})
    assert dict(one["columns"])["age"] <= 0.5
    drawn = visitor.get(one["picture"])
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert "epsilon" in drawn.text
    assert visitor.get("/forecast/nothing").status == 404
    refused = visitor.ask(f"{desk}/forecast", {**fields, "statistic": "quantiles"})
    assert "Enter epsilon" in refused["hint"]


def test_the_number_of_rows_is_not_told_where_it_is_private(visitor, people):
    desk = visitor.opened(people)
    private = {**BOUNDS, **BUDGET, "neighbors": "add_remove"}
    found = visitor.ask(f"{desk}/forecast", {**private, "n": "700"})
    assert found["n"] == 700
    one = visitor.studio.desks[desk.rpartition("/")[2]]
    assert one._counting is None
    assert visitor.ask(f"{desk}/forecast", {**private, "privacy_id": "city", "neighbors": "replace"}).get("n") is None


@pytest.mark.parametrize(
    ("statistic", "more", "lines"),
    [
        ("sum", {}, 2),
        ("describe", {}, 6),
        ("quantiles", {}, 6),
        ("histogram", {"bins": "4"}, 10),
        ("histogram", {"use": ["2"], "c-2": "Oslo,Rome"}, 3),
        ("count", {"by": "city", "keys": "Oslo\nRome"}, 2),
    ],
)
def test_other_statistics_have_their_pages(visitor, people, statistic, more, lines):
    desk = visitor.opened(people)
    fields = {**BOUNDS, **BUDGET, "statistic": statistic, **more}
    assert visitor.ask(f"{desk}/forecast", fields | {"use": list(map(int, fields["use"]))})["columns"]
    place = visitor.get(visitor.release(desk, fields)).place
    assert visitor.get(place).status == 200
    assert visitor.get(f"{place}/picture/0").text.lstrip().startswith("<?xml")
    head, *rest = csv.reader(io.StringIO(visitor.get(f"{place}/release.csv").text))
    assert len(rest) == lines
    assert {len(line) for line in rest} == {len(head)}
    for file in ("report.html", "release.py", "release.sh"):
        assert visitor.get(f"{place}/{file}").status == 200


def test_groups_of_learned_rows_are_forecast_and_have_their_pages(visitor, people):
    desk = visitor.opened(people)
    asked = {
        **BUDGET,
        "use": ["0", "1"],
        "kind": "learned",
        "magnitude": "1e6",
        "by": "city",
        "keys": "Oslo\nRome",
    }
    found = visitor.ask(f"{desk}/forecast", {**asked, "n": "3000"})
    assert found["error"] > 0
    assert "in each group" in found["unit"]
    place = visitor.get(visitor.release(desk, {**asked, "epsilon": "8"})).place
    page = visitor.get(place).text
    assert "Oslo" in page
    assert "Rome" in page
    assert visitor.get(f"{place}/release.csv").text.startswith('"city"')


@pytest.mark.parametrize("keys", ["Oslo\nRome\nBergen", ""])
def test_groups_have_their_pages(visitor, people, keys):
    desk = visitor.opened(people)
    place = visitor.get(visitor.release(desk, {**BOUNDS, **BUDGET, "by": "city", "keys": keys})).place
    page = visitor.get(place).text
    assert "Oslo" in page
    assert ("Bergen" in page) == bool(keys)
    assert visitor.get(f"{place}/release.csv").text.startswith('"city"')


def test_a_process_that_is_killed_says_whether_the_budget_may_be_spent(visitor, tmp_path):
    sqlite3.connect(tmp_path / "d.db").close()
    desk = visitor.post("/open/database", {"database": f"sqlite:///{tmp_path / 'd.db'}", "query": SLOW}).place
    fields = {"use": ["0"], "a-0": "0", "b-0": "1e9", **BUDGET, "neighbors": "add_remove", "n": "30000000"}
    place = visitor.post(f"{desk}/release", {"form": visitor.form(desk), **fields}).place
    job = visitor.studio.jobs[place.rpartition("/")[2]]
    for _ in range(300):
        if job.approved:
            break
        time.sleep(0.1)
    job.process.kill()
    visitor.ended(place)
    assert "may have been spent" in visitor.get(place).text
    job.approved = False
    assert "Nothing was spent" in visitor.get(place).text


def test_a_slow_open_does_not_hold_up_other_pages(visitor, tmp_path):
    fifo = tmp_path / "slow.csv"
    os.mkfifo(fifo)
    waiting = threading.Thread(target=visitor.post, args=("/open/file", {"path": str(fifo)}))
    waiting.start()
    try:
        start = time.monotonic()
        assert visitor.get("/history").status == 200
        assert visitor.get("/open").status == 200
        assert time.monotonic() - start < 10
    finally:
        with suppress(OSError):
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        waiting.join(30)
    assert not waiting.is_alive()
