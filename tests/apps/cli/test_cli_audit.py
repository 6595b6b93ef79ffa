"""`ellipsum audit`."""

import json

import commands
import pytest

SURE = ("--confidence", 1 - 1e-9)  # a true claim is contradicted that rarely


def run(*words, cwd=None):
    return commands.run("audit", *words, cwd=cwd)


def test_names_are_listed():
    done = run()
    assert done.returncode == 0
    assert "sum-ball" in done.stdout.split()


def test_json_alone_and_a_picture(tmp_path):
    done = run("sum-ball", "--runs", 20_000, *SURE, "--json", "--plot", tmp_path / "audit.png")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mechanism"] == "sum-ball"
    assert found["contradicted"] is False
    assert 0.8 < found["mu_lower"] < 1.05  # 0.89 to 0.92, six standard errors below the claim
    assert (tmp_path / "audit.png").stat().st_size > 1000


@pytest.mark.parametrize(
    "words", [("nonsense",), ("sum-ball", "--runs", 0), ("sum-ball", "--runs", 3), ("sum-ball", "--confidence", 2)]
)
def test_wrong_usage_is_2(words):
    done = run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error" in done.stderr


def test_whole_releases():
    done = run("sum-ball", "--whole", "--runs", 200, *SURE)
    assert done.returncode == 0, done.stderr
    assert "not contradicted" in done.stdout
