"""Reports: one page that needs nothing else, escapes everything, and holds nothing but what was published."""

import re
import shlex
import sys
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from commands import run

import ellipsum as es
from ellipsum.display.html import html
from ellipsum.display.recipe import masked, shell
from ellipsum.display.wording import format_number

SPEND = {"epsilon": 3.0, "delta": 1e-6}
N = 4321
X = np.random.default_rng(8).uniform([18, 0], [90, 80_000], (N, 2))
CITY = np.array(["north", "south", "<b>west</b>"])[np.arange(N) % 3]
WHO = np.arange(N) % 1500
TABLE = pa.table({"age": X[:, 0], "income": X[:, 1], "city": CITY, "who": WHO})
BOX = es.Box({"age": (0, 120), "income": (0, 200_000)})
pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning", "ignore::ellipsum.ProjectionWarning")


def rng():
    return np.random.default_rng(3)


RESULTS = {
    "mean": lambda: es.mean(TABLE, BOX, rng=rng(), **SPEND),
    "sum": lambda: es.sum(TABLE, BOX, neighbors="add_remove", n=4000, noise="gaussian", rng=rng(), **SPEND),
    "describe": lambda: es.describe(TABLE, BOX, missing="drop_row", covariance=True, rng=rng(), **SPEND),
    "people": lambda: es.mean(
        TABLE, BOX, privacy_id=es.People("who", per_person="sum", max_rows=2), rng=rng(), **SPEND
    ),
    "ball": lambda: es.mean(X, es.Ball(9e4, [50.0, 4e4]), count_clipped=False, budget=es.Budget(mu=1.0), rng=rng()),
    "unknown": lambda: es.mean(X, es.Unknown(1e6), rng=rng(), **SPEND),
    "groups": lambda: es.mean(TABLE, BOX, by="city", rng=rng(), **SPEND),
    "listed": lambda: es.sum(
        TABLE, BOX, by=es.Groups("city", keys=["north", "south"]), rng=rng(), epsilon=1.0, delta=0.0
    ),
    "friendly": lambda: es.friendly_mean(X[:500] / [10, 1e4], (1.0, 64.0), rng=rng(), **SPEND),
}
NOT_LOADED = {
    "no center": lambda: es.friendly_mean(X[:500], 1e-3, rng=rng(), **SPEND),
    "learned": lambda: es.learn(X, es.Unknown(1e6), rng=rng(), **SPEND),
    "projection": lambda: es.project(X[:50], 1, es.Box(0, 1e5), epsilon=300.0, delta=1e-6, rng=rng()),
}


@cache
def made(name):
    return {**RESULTS, **NOT_LOADED}[name]()


@cache
def page_of(name):
    return html(made(name))


class Page(HTMLParser):
    """Tags, attributes and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "path", "use", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [*RESULTS, *NOT_LOADED])
def test_a_page_needs_nothing_else(name):
    text = page_of(name)
    page = Page(text)
    assert page.open == []  # every tag is closed
    assert not {"script", "link", "img", "iframe", "object", "form", "a", "base"} & set(page.tags)
    assert not [value for key, value in page.attributes if key in ("src", "href", "action") and value[:1] != "#"]
    assert not [key for key, _ in page.attributes if key.startswith("on")]
    assert "//" not in text.replace("<!DOCTYPE", "")
    assert ("http-equiv", "Content-Security-Policy") in page.attributes
    assert "default-src 'none'" in text
    names = [value for key, value in page.attributes if key == "id"]
    assert len(names) == len(set(names))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [*RESULTS, *NOT_LOADED])
def test_a_page_says_everything(name):
    page = Page(page_of(name))
    for words in ("Results", "Privacy guarantee", "of guesses are right on average", "Source of the bounds",
                  "Checklist", "unit of privacy", "To be completed by the publisher", "Reproduce",
                  "import ellipsum as es",
                  "How to cite", "NOT PRIVATE"):  # fmt: skip
        assert words in page.text, words


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", RESULTS)
def test_a_page_follows_from_what_was_published(name):
    """The release as it is read from its own JSON has the same page, to the byte."""
    result = made(name)
    loaded = es.from_json(result.to_json())
    assert html(loaded) == page_of(name)


def test_values_and_intervals_are_those_of_the_release():
    release = made("mean")
    text = Page(html(release)).text
    ends = (release.value[0], *release.confidence_interval(0.95)[0])
    value, low, high = (format_number(float(end), float(release.standard_error[0])) for end in ends)
    assert f"age {value} {release.standard_error[0]:.3g} [{low}, {high}]" in text
    assert "[0, 120]" in text
    assert "excludes sampling error and bias from clamping to the bounds" in text


def test_a_private_number_of_rows_is_not_told():
    release = made("sum")
    text = Page(html(release)).text
    assert f"{release.row_count:,.6g}" in text
    assert not re.search(rf"\b{N}\b|{N:,}", text)
    assert re.search(rf"\bn = {N:,}", Page(page_of("mean")).text)


def test_names_and_keys_are_escaped():
    odd = {"<script>alert(1)</script>": (0, 120), "a&b\u202e": (0, 2e5)}
    release = es.mean(X, es.Box(odd), rng=rng(), **SPEND)
    for text in (html(release), page_of("groups")):
        page = Page(text)
        assert "script" not in page.tags
        assert "b" not in page.tags
        assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)" in html(release)
    assert "&lt;b&gt;west" in page_of("groups")


def test_nothing_is_drawn_of_a_plan_that_forecasts_nothing(tmp_path):
    rows, by = np.random.default_rng(0).uniform(size=(400, 2)), np.arange(400) % 4
    words = {"epsilon": 5.0, "delta": 1e-6, "rng": np.random.default_rng(1)}
    private, listed = (es.mean(rows, es.Box(0, 1), by=es.Groups(by, keys), **words) for keys in (None, [0, 1, 2, 3]))
    private.report(tmp_path / "p.html")
    listed.report(tmp_path / "l.html")
    assert "Expected error of the plan" not in (tmp_path / "p.html").read_text()
    assert "Expected error of the plan" in (tmp_path / "l.html").read_text()


def test_the_odds_are_those_of_the_curve():
    assert "at most 69.2% of guesses are right" in Page(page_of("ball")).text  # Phi(1/2) = 0.69146
    pure = es.mean(TABLE, BOX, epsilon=1.0, delta=0.0, rng=rng())
    assert "at most 73.2% of guesses are right" in Page(html(pure)).text  # e / (1 + e) = 0.73106
    assert "which of two values one row has" in Page(html(pure)).text
    assert "whether one row is in the data" in Page(page_of("sum")).text
    assert "one person with all of their rows" in Page(page_of("people")).text


def test_warnings_are_told():
    wide = es.mean(X, es.Box({"age": (0, 30), "income": (0, 9e4)}), rng=rng(), **SPEND)
    assert wide.warnings
    text = Page(html(wide)).text
    assert all(" ".join(words.split()) in text for words in wide.warnings)
    assert "There are accuracy warnings above" in text


def test_learned_bounds_have_their_costs():
    text = Page(page_of("unknown")).text
    assert "no value exceeds 1e+06" in text
    assert "Steps, all within the guarantee" in text
    assert "privacy loss" in text


def test_the_balance_of_a_ledger(tmp_path):
    book = es.Ledger(tmp_path / "budget.db")
    book.init("survey", epsilon=5, delta=1e-5, analyst_caps={"ann": 4})
    release = es.mean(TABLE, BOX, ledger=book.dataset("survey@2026", analyst="ann"), noise="knorm", **SPEND)
    release.report(tmp_path / "report.html", ledger=book.dataset("survey@2026"))
    text = Page((tmp_path / "report.html").read_text()).text
    assert "Spent: epsilon = 3 of 5" in text
    assert "1 release made" in text
    assert "ann" not in text.split()
    assert "NOT PRIVATE" not in text
    with pytest.raises(es.UsageError, match="account of a data set"):
        release.report(tmp_path / "other.html", ledger=book)
    assert "could not be read" in html(release, ledger=tmp_path / "nothing.db", dataset="survey")


def test_without_matplotlib_a_report_has_no_pictures(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = html(made("mean"))
    assert "pip install &#x27;ellipsum[plots]&#x27;" in text
    assert "<svg" not in text


def test_many_columns_have_a_table_and_the_first_pictures(monkeypatch):
    monkeypatch.setattr("ellipsum.display.html._MOST_PAGES", 1)
    wide = es.mean(np.zeros((50, 1000)), es.Box(-1, 1), rng=rng(), noise="gaussian", **SPEND)
    text = html(wide)
    assert text.count("<tr>") > 1000
    assert text.count("<figure") == 2
    assert "The first 1 of 17 pages" in text


# How to make it again -----------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [name for name in RESULTS if name != "friendly"])
def test_the_call_in_python_makes_the_same_plan(name):
    result = made(name)
    data = TABLE if result.columns == ("age", "income") else X
    space = {"data": data}
    exec(result.background().recipe.python, space)
    again = space["release"]
    assert again.privacy == result.privacy
    if name != "unknown":  # whose last round follows from noisy ones
        assert again.plan == result.plan


def test_the_call_of_a_friendly_mean():
    space = {"data": X[:500] / [10, 1e4]}
    exec(made("friendly").background().recipe.python, space)
    again, plan = space["release"].plan, made("friendly").plan
    assert (again.privacy, again.gate, again.mechanism, again.radii) == (
        plan.privacy,
        plan.gate,
        plan.mechanism,
        plan.radii,
    )


def test_a_magnitude_that_nobody_kept_is_left_open():
    recipe = made("learned").background().recipe
    space = {"data": X, "magnitude": 1e6}
    exec(recipe.python, space)
    assert space["release"].privacy == made("learned").privacy
    assert recipe.command == ""


def test_the_command_makes_the_same_plan(tmp_path):
    pacsv.write_csv(TABLE, tmp_path / "data.csv")
    release = made("sum")
    command = shlex.split(release.background().recipe.command)
    assert command[:3] == ["ellipsum", "sum", "data.csv"]
    done = run(*command[1:], "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert es.from_json(done.stdout).plan == release.plan


def test_passwords_and_folders_are_not_told():
    words = ["ellipsum", "mean", "postgresql://ann:hunter2@host/db", "--sql", "select a/b from t", "--json"]
    assert shell(words) == "ellipsum mean 'postgresql://ann:***@host/db' --sql 'select a/b from t' --json"
    assert (
        masked("postgresql://host/db?user=ann&password=hunter2&x=1") == "postgresql://host/db?user=ann&password=***&x=1"
    )
    for address in (
        "postgresql://ann:p@ss/w:rd@host/db",
        "postgresql://host/db?p%61ssword=hunter2",
        "x://:hunter2@h/d",
    ):
        for words in ([address], [f"--ledger={address}"]):
            assert not {"ss/w", "hunter2"} & set(re.split(r"[:@=&]", shell(words)))
    told = shell(
        ["ellipsum", "mean", "--json", "/home/ann/my data.csv", "--report=/home/ann/r.html", "-o", "/tmp/ann/o"]
    )
    assert told == "ellipsum mean --json 'my data.csv' --report=r.html -o o"
    assert shell(["ellipsum", "mean", "duckdb:////home/ann/x.db"]) == "ellipsum mean duckdb:///x.db"
    assert shell(["x", "--bounds", "a/b=0:1"]) == "x --bounds a/b=0:1"
