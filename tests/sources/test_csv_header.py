"""The first line of a CSV file, and names that come from data: what may be shown, and how. [T3]"""

import json
import re

import commands
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from opening import open_table

import ellipsum as es
from ellipsum.errors import UsageError, listing, named, shown

SECRET = "Xq7secret"
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ESCAPE = "\x1b[31mred\u202egnp\r\n\x07"
"""A column whose name would color a terminal, turn its text around, break a line and ring."""


def run(*words):
    return commands.run(*words, "--epsilon", "1", "--delta", "1e-6")


def write(path, text):
    path.write_bytes(text.encode())
    return path


# --- a header ends on its own line --------------------------------------------------------------

STRAY = 'id,"weight,name\n' + "".join(f"{i},{50 + i % 50},{SECRET}{i}\n" for i in range(2000))


@pytest.mark.parametrize(
    "options",
    [
        ("--bounds", "0:7", "--neighbors", "add-remove", "--json"),
        ("--bounds", "weight=0:100"),
        ("--bounds", "0:7", "--header"),
    ],
)
def test_a_stray_quote_in_the_header_shows_no_row(tmp_path, options):
    done = run("sum", write(tmp_path / "t.csv", STRAY), *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "quote in the first line" in done.stderr
    assert SECRET not in done.stderr
    assert "weight,name" not in done.stderr


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ('id,"weight', "quote in the first line"),
        ('id,"weight"s', "quote in the first line"),
        (f'{SECRET},"', "quote in the first line"),
        (f"{SECRET}\x1b[2J,weight", "control characters"),
        (f"{SECRET},a\x00b", "control characters"),
        (f"{SECRET},a\x85b", "control characters"),
        (f"{SECRET},a\u2028b", "control characters"),
        (f"{SECRET},weight\rSmith,12\rJones,13", "control characters"),
        (f"{SECRET},weight\r\r", "control characters"),  # \r\r\r\n: translated twice
        (f"{SECRET},34.5", "holds numbers"),
        (f"{SECRET},-3,x", "holds numbers"),
        ("id,x1,0", "holds numbers"),
        ("2019,2020", "holds numbers"),
        (f'{SECRET},"1,234"', "holds numbers"),
        (f"{SECRET},1e3,nan", "holds numbers"),
        ("0", "holds numbers"),
        ("1,2,3", "holds numbers"),
    ],
)
@pytest.mark.parametrize("columns", [None, ["other"]])
def test_a_first_line_that_is_no_plain_header_is_refused_unquoted(tmp_path, first, said, columns):
    path = write(tmp_path / "t.csv", f"{first}\n1,2,{SECRET}\n")
    with pytest.raises(UsageError, match=said) as caught:
        open_table(path, columns)
    text = str(caught.value).replace(str(path), "")
    assert SECRET not in text
    assert not any(len(word) > 1 and word in text for word in re.split(r"[,\"]", first))
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("first", "columns", "header"),
    [
        ("2019,2020", ["2019", "2020"], None),
        ("2019,2020", [2019], None),
        ("id,x1,0", ["x1", "0"], None),
        ("id,x1,0", ["x1"], None),
        ("id,x1,0", None, True),
        ("2019,2020", None, True),
        ("0,1,2", None, None),
        ("1st,2nd", None, None),
        (",a,b", None, None),
        ("a,x 1,2019-01-01", None, None),
        ("größe,Preis (€)", None, None),
        ('"a","b, c"', None, None),
    ],
)
def test_headers_that_are_accepted(tmp_path, first, columns, header):
    path = write(tmp_path / "t.csv", f"{first}\r\n4,5,6\r\n")
    assert open_table(path, columns, header=header).rows() == 1


def test_names_of_a_windows_file(tmp_path):
    (tmp_path / "t.csv").write_bytes("größe,Preis (€)\n1,2\n".encode("cp1252"))
    assert open_table(tmp_path / "t.csv").columns == ("größe", "Preis (€)")


def test_the_header_holds_for_every_file(tmp_path):
    for part in "ab":
        write(tmp_path / f"{part}.csv", "2019,2020\n1,2\n")
    with pytest.raises(UsageError, match="holds numbers"):
        open_table(tmp_path)
    assert open_table(tmp_path, header=True).rows() == 2
    write(tmp_path / "b.csv", f"5,{SECRET}\n1,2\n")
    with pytest.raises(UsageError, match="holds numbers") as caught:
        open_table([tmp_path / "a.csv", tmp_path / "b.csv"], ["2019", "2020"])
    assert SECRET not in str(caught.value)


CALLS = {
    "sum": lambda data, **how: es.sum(data, es.Box(0, 9), **how),
    "mean": lambda data, **how: es.mean(data, es.Unknown(9.0), **how),
    "learn": lambda data, **how: es.learn(data, es.Unknown(9.0), **how),
    "project": lambda data, **how: es.project(data, 1, es.Box(0, 9), epsilon=200.0, delta=1e-6),
    "friendly_mean": lambda data, **how: es.friendly_mean(data, 9.0, **how),
    "subsample_and_aggregate": lambda data, **how: es.subsample_and_aggregate(
        lambda rows: rows.mean(axis=0), data, blocks=40, radius=9.0, dimension=2, workers=1, **how
    ),
    "plan": lambda data, **how: es.plan("sum", es.Box(0, 9), n=40, d=2, **how).release(data),
    "learning plan": lambda data, **how: es.plan("sum", es.Unknown(9.0), n=40, d=2, **how).release(data),
}


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")  # 40 rows are few to find bounds
@pytest.mark.parametrize("call", CALLS)
def test_every_call_takes_csv_files_and_their_header(tmp_path, call):
    path = write(tmp_path / "t.csv", "2019,2020\n" + "1,2\n" * 40)
    for data in (path, es.csv(path)):
        with pytest.raises(UsageError, match="holds numbers"):
            CALLS[call](data, **BUDGET)
    CALLS[call](es.csv(path, header=True), epsilon=20.0, delta=1e-3)


def test_a_header_is_declared_with_the_file(tmp_path):
    path = write(tmp_path / "t.csv", "2019,2020\n1,2\n")
    with pytest.raises(UsageError, match="header must be"):
        es.csv(path, header="yes")
    with pytest.raises(UsageError, match=r"Use data=es\.csv\(path, header=True\)"):
        es.sum(path, es.Box(0, 9), header=True, **BUDGET)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "words",
    [
        ("sum", "--bounds", "0:9"),
        ("mean", "--bounds", "0:9"),
        ("learn", "--magnitude", "9"),
        ("project", "--bounds", "0:9", "--k", "1", "--yes"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_takes_header(tmp_path, words):
    path = write(tmp_path / "t.csv", "2019,2020\n" + "1,2\n" * 40)
    command, *options = words
    options += ["--output", tmp_path / ("out.parquet" if command == "project" else "out.json")]
    refused = run(command, path, *options)
    assert refused.returncode == 2
    assert "--header" in refused.stderr
    done = run(command, path, *options, "--header", "--yes")
    assert done.returncode == 0, done.stderr


# --- names in messages and on screens -----------------------------------------------------------


def test_names_are_bounded_and_escaped():
    assert shown("plain größe 名 \U0001f600") == "plain größe 名 \U0001f600"
    assert shown(ESCAPE) == r"\x1b[31mred\u202egnp\r\n\x07"
    assert shown("\ud800\u2066\x9b\U000e0001").isprintable()
    assert len(shown("x" * 10**6)) < 70
    assert named(7) == "7"
    assert named("a b") == "'a b'"
    text = listing(f"column {i}" for i in range(100))
    assert text.endswith("'column 19' and 80 more")
    assert len(listing(["\U000e0001" * 1000] * 1000)) < 15_000


def sources(tmp_path):
    table = pa.table({ESCAPE: [1.0, 2.0], "y" * 5000: ["a", "b"], "id": [[1], [2]]})
    pq.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    return [
        table,
        [table, table],
        tmp_path / "t.parquet",
        tmp_path / "t.feather",
        ds.dataset(tmp_path / "t.parquet"),
        ds.dataset(table).scanner(),
        pl.from_arrow(table),
        table.to_pandas(),
        pd.DataFrame({ESCAPE: pd.Series(["a", 1], dtype=object), "y" * 5000: [1, 2], "id": [1, 2]}),
        iter([table]),
    ]


def test_names_in_the_messages_of_every_source(tmp_path):
    asked = [
        {"columns": ["nope"]},
        {"columns": ["y" * 5000]},
        {"columns": [ESCAPE, ESCAPE]},
        {"columns": [ESCAPE + "[3]"]},
        {"columns": ["y" * 5000 + "[3]"]},
        {"columns": ["id"]},
        {"columns": [ESCAPE], "key": "nobody"},
        {"columns": [ESCAPE], "key": "id"},
        {"columns": [ESCAPE], "key": ESCAPE},
        {"columns": None},
    ]
    said = []
    for i in range(len(sources(tmp_path))):
        for how in asked:
            try:
                open_table(sources(tmp_path)[i], **how)
            except es.EllipsumError as error:
                said.append(str(error))
    assert len(said) > 80
    assert all(text.isprintable() and len(text) < 1000 for text in said)
    assert any(r"\x1b[31mred" in text for text in said)


def test_names_in_results_are_escaped_for_people_and_exact_in_json():
    table = pa.table({ESCAPE: np.ones(50), "z" * 500: np.ones(50), "id": np.arange(50)})
    release = es.mean(table, es.Box(0, 9), columns=[ESCAPE, "z" * 500], **BUDGET)
    people = es.mean(table.rename_columns(["a", "b", ESCAPE]), es.Box(0, 9), privacy_id=ESCAPE, **BUDGET)
    for text in (repr(release), release._repr_html_(), repr(people), repr(people.plan)):
        assert all(line.isprintable() for line in text.split("\n"))
        assert r"\x1b[31mred" in text
        assert "z" * 100 not in text
    assert json.loads(release.to_json())["columns"] == [ESCAPE, "z" * 500]


def test_names_on_the_terminal_are_escaped(tmp_path):
    names = [ESCAPE, "[bold]b[/bold]", ":smile:"]
    pq.write_table(pa.table({name: np.ones(50) for name in names}), tmp_path / "t.parquet")
    done = run("mean", tmp_path / "t.parquet", "--bounds", "0:9")
    assert done.returncode == 0, done.stderr
    assert all(line.isprintable() for line in (done.stdout + done.stderr).split("\n"))
    for word in (r"\x1b[31mred", "[bold]b[/bold]", ":smile:"):
        assert word in done.stdout
    missing = run("mean", tmp_path / "t.parquet", "--bounds", "nope=0:9")
    assert missing.returncode == 2
    assert all(line.isprintable() for line in missing.stderr.split("\n"))
    assert r"\x1b[31mred" in missing.stderr
