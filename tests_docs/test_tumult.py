"""Tumult's side of its page runs, in an environment of its own: it needs older packages than ellipsum does."""

import sys

from conftest import DOCS, blocks


def test_tumults_code_runs(folder, monkeypatch, capfd):
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    (code,) = blocks(DOCS / "concepts" / "comparison.md", "py", section="Tumult Analytics")
    exec(compile(code, "comparison.md", "exec"), {})
    assert "bmi_average" in capfd.readouterr().out
