"""The table of benchmarks: what it says of a measurement, and of what became slower. Nothing here is timed."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import _table as table
from benchmarks.growth import exponent


def test_a_line_says_whether_its_target_is_met():
    assert table.Measured("a sum", 1.2, 1.25).line().endswith("met")
    assert table.Measured("a sum", 1.3, 1.25).line().endswith("NOT MET")
    assert "met" not in table.Measured("beside it", 1.3).line().lower()


def test_what_became_slower_is_named_and_nothing_else():
    before = {"same": 1.0, "slower": 1.0, "gone": 1.0}
    now = [table.Measured("same", 1.2), table.Measured("slower", 1.3), table.Measured("new", 9.0)]
    assert [line.split(": ")[1] for line in table.slower(now, before)] == ["slower"]


def test_a_busy_machine_is_not_compared_where_it_has_to_be_idle():
    rows = [table.Measured("one thread", 1.0), table.Measured("two threads", 1.0, shared=True)]
    assert table.sound(rows, was_busy=False) == rows
    assert table.sound(rows, was_busy=True) == rows[:1]


def test_records_are_kept_by_processor(tmp_path, monkeypatch):
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps({"another": {"a sum": 2.0}}))
    monkeypatch.setattr(table, "RECORDED", path)
    table.record([table.Measured("a sum", 1.23456)])
    assert table.recorded() == {"another": {"a sum": 2.0}, table.processor(): {"a sum": 1.23}}


def test_exponents_are_slopes_of_the_last_points():
    assert abs(exponent([1, 10, 100, 1000], [50, 20, 200, 2000]) - 1) < 1e-12
    assert abs(exponent([10, 100, 1000], [3, 300, 30_000]) - 2) < 1e-12
