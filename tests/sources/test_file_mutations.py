"""Damaged files: bytes flipped, cut, doubled, inserted and zeroed, read through every way in.

Whatever the bytes are, the answer is a release or a plain error of ours, which quotes no cell and no reader. Since
native readers are involved, the cases run in processes of their own: a crash is seen and names its case.
"""

import contextlib
import decimal
import gzip
import io
import json
import os
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from counting import count_cases

SECRET, NUMBER = "Xq7secret", 8675309
CASE_SECONDS = 60
BATCH_SECONDS = 600
COLUMNS = ("amount", "visits", "price")
PLAIN = [
    r".* could not be read( as an? (Parquet|Arrow|CSV) file \(.*\)| as a data set)?\.",
    r"The data set could not be read \(a file damaged, gone or of another format, or a filter that fails\)\.",
    r".* is (empty|empty: it has no header line|UTF-16 text)\..*",
    r".* starts with a blank line\. Its first line must name the columns\.",
    r".* seems to separate its cells by '.*'\. Write it with ',' instead\.",
    r"The first line of .* holds (numbers, so it may be a row|control characters)\. .*",
    r"A quote in the first line of .* is never closed, or more follows it\. .*",
    r".* has no column '[]\w[]+' \(from (columns|privacy_id|--columns or --bounds)\)\..* Columns: .*",
    r".* has \d+ columns called '\w+'\. Rename them, or choose others\.",
    r"Column '\w+' of .* is of type .*, not a number\. Name the numeric ones in columns\.",
    r"Column '\w+' of .* holds lists of any length\. .*",
    r"columns declares lists of 3, but those of 'vector' in .* are \d+ long\.",
    r"privacy_id names '\w+' of .*, which is of type .*\. Use a column of whole numbers, text, dates or times\.",
    r"The plan is for .*",
    r"The plan was made for [\d,]+ rows, but the data has [\d,]+\. .*",
    r"The data has no rows\. .*",
    r"The rows could not be grouped by person\. .*",
    r"The header of .*",
]  # fmt: skip


# --- files ----------------------------------------------------------------------------------------


def frame(rows=160):
    """Numbers of every kind, lists, texts and dates; some missing; every cell is distinctive."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    gaps = rng.random(rows) < 0.1
    whole = rng.integers(0, 50, rows)
    price = [None if gap else decimal.Decimal(NUMBER + int(v)) / 100 for gap, v in zip(gaps, whole, strict=True)]
    vectors = [[float(v), 2.0, 3.0][: 3 - v % 7 // 6] for v in whole]
    return pa.table({
        "amount": pa.array(NUMBER + rng.normal(size=rows)),
        "visits": pa.array(np.where(gaps, None, whole + NUMBER).tolist(), pa.int32()),
        "price": pa.array(price, pa.decimal128(12, 2)),
        "level": pa.array([f"{SECRET}-{v % 5}" for v in whole]).dictionary_encode(),
        "code": pa.array(whole % 3, pa.int16()).dictionary_encode(),
        "who": pa.array([None if v == 3 else f"{SECRET}{v}" for v in whole]),
        "day": pa.array((whole + 10_000).tolist(), pa.date32()),
        "vector": pa.array(vectors, pa.list_(pa.float64())),
        "fixed": pa.array([[v, 1, 2] for v in whole.tolist()], pa.list_(pa.float32(), 3)),
    })  # fmt: skip


def parquet(**options):
    def write(path):
        import pyarrow.parquet as pq

        pq.write_table(frame(), path, **options)

    return write


def feather(**options):
    def write(path):
        import pyarrow.feather as fe

        fe.write_feather(frame(), path, **options)

    return write


def stream(path):
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, frame().schema) as out:
        out.write_table(frame(), max_chunksize=64)


def zipped(level, members=1):
    def write(path):
        from pyarrow import csv

        text = io.BytesIO()
        csv.write_csv(frame().drop_columns(["level", "code", "vector", "fixed"]), text)
        lines = text.getvalue().splitlines(keepends=True)
        step = -(-len(lines) // members)
        parts = [b"".join(lines[start : start + step]) for start in range(0, len(lines), step)]
        path.write_bytes(b"".join(gzip.compress(part, level, mtime=0) for part in parts))

    return write


LAYOUTS = {
    "plain.parquet": parquet(compression="none", use_dictionary=False, row_group_size=50),
    "snappy.parquet": parquet(compression="snappy", data_page_size=256),
    "zstd.parquet": parquet(compression="zstd", row_group_size=70, data_page_version="2.0"),
    "checked.parquet": parquet(compression="none", write_page_checksum=True, write_page_index=True),
    "split.parquet": parquet(use_dictionary=False, use_byte_stream_split=["amount"], compression="none"),
    "plain.feather": feather(compression="uncompressed", chunksize=64),
    "lz4.feather": feather(compression="lz4"),
    "zstd.feather": feather(compression="zstd", chunksize=50),
    "stream.arrow": stream,
    "zipped.csv.gz": zipped(9),
    "stored.csv.gz": zipped(0),
    "members.csv.gz": zipped(6, members=40),
}


# --- damage ---------------------------------------------------------------------------------------


def damaged(whole, rng):
    """One to three injuries, each at a random place; the ends of a file, where formats keep their maps, more often."""
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        data = rng.choice(INJURIES)(data, rng) if data else data
    return bytes(data)


def place(data, rng):
    size = len(data)
    near = min(size, 3000)
    return int(rng.choice([rng.integers(size), size - 1 - rng.integers(near), rng.integers(near)]))


def flip(data, rng):
    for _ in range(int(rng.choice([1, 1, 4, 30]))):
        data[place(data, rng)] ^= 1 << int(rng.integers(8))
    return data


def overwrite(data, rng):
    start = place(data, rng)
    data[start : start + 8] = rng.choice([b"\x00" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, rng.bytes(8)])[
        : len(data) - start
    ]
    return data


def cut(data, rng):
    return data[: place(data, rng)]


def remove(data, rng):
    start = place(data, rng)
    del data[start : start + int(rng.integers(1, 200))]
    return data


def double(data, rng):
    start = place(data, rng)
    data[start:start] = data[start : start + int(rng.integers(1, 400))]
    return data


def insert(data, rng):
    start = place(data, rng)
    data[start:start] = rng.bytes(int(rng.integers(1, 64)))
    return data


def zero(data, rng):
    start = place(data, rng)
    length = min(int(rng.integers(1, 200)), len(data) - start)
    data[start : start + length] = bytes(length)
    return data


INJURIES = [flip, flip, overwrite, cut, remove, double, insert, zero]


# --- ways in, each in a process of its own --------------------------------------------------------


def ways(path):
    """Calls that read the file; each gives the texts that it showed."""
    from opening import open_table

    import ellipsum as es

    ball = es.Ball(1e3, NUMBER)
    spend = {"epsilon": 1.0, "delta": 1e-6}
    vector = [] if path.name.endswith(".gz") else ["vector[3]", "fixed"]
    lake = path.suffix in (".parquet", ".feather")

    def read(columns, key):
        for keys, rows in open_table(path, columns, key=key).pieces():
            assert keys is None or len(keys) == len(rows)
        return ""

    def command(*words):
        from ellipsum.apps import cli

        shown, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors), pytest.MonkeyPatch.context() as m:
            m.setattr(sys, "argv", ["ellipsum", *words])
            code = cli._run()
        assert code in (0, 2, 4), code
        last = errors.getvalue().strip().splitlines()[-1]
        assert (code != 0) == last.startswith("error: "), last
        assert SECRET not in shown.getvalue() + errors.getvalue()
        return last.removeprefix("error: ") if code else ""

    bounds = [word for name in COLUMNS for word in ("--bounds", f"{name}=0:1e7")]
    private = {**spend, "neighbors": "add_remove", "n": 100}
    money = ["--epsilon", "1", "--delta", "1e-6"]
    return [
        lambda: es.mean(path, ball, columns=COLUMNS, **spend) and "",
        lambda: es.sum(path, ball, columns=COLUMNS, **private) and "",
        *[lambda column=column: es.sum(path, es.Ball(10), columns=column, **private) and "" for column in vector],
        lambda: read(COLUMNS, "who"),
        lambda: read(("amount", "code") if vector else ("amount",), "level" if vector else "day"),
        lambda: es.mean(path, ball, columns=COLUMNS, privacy_id="who", **spend) and "",
        *[lambda: es.mean(path.parent.parent, ball, columns=(*COLUMNS, "year"), **spend) and ""] * lake,
        lambda: command("mean", str(path), *bounds, "--columns", ",".join(COLUMNS), *money),
    ]  # fmt: skip


def complaint(call):
    """What is wrong with what a call did, or None."""
    from ellipsum.errors import AccuracyWarning, DataError, UsageError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", AccuracyWarning)  # damage may leave rows that are far outside, or none
        try:
            shown = call()
        except (DataError, UsageError) as error:
            if error.__cause__ is not None or error.__context__ is not None:
                return "holds a reader's error: " + "".join(traceback.format_exception(error))
            shown = str(error)
        except Exception as error:
            return "foreign error: " + "".join(traceback.format_exception(error))[-1500:]
    if SECRET in shown or str(NUMBER) in shown:
        return f"quotes a cell: {shown}"
    if shown and not any(re.fullmatch(text, shown, re.DOTALL) for text in PLAIN):
        return f"not a plain message: {shown}"
    return None


def work(names, folder, first, last, rehearse=True):
    """Run cases; a line of JSON before each, and one for each complaint. Case i is of layout i modulo their number."""
    import faulthandler

    wholes = [(Path(folder) / name).read_bytes() for name in names]
    paths = [Path(folder) / f"{name}.cases" / "year=2020" / name for name in names]
    for path, whole in zip(paths, wholes, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole)
    for call in (
        ways(paths[0]) if rehearse else ()
    ):  # a sound file is read, and what compiles does so before the clock runs
        assert call() == ""
    for case in range(first, last):
        path = paths[case % len(names)]
        path.write_bytes(damaged(wholes[case % len(names)], np.random.default_rng(case)))
        calls = ways(path)
        index = case // len(names) % len(calls)
        for way in {index, (index + 3) % len(calls)}:
            print(json.dumps({"case": case, "way": way}), flush=True)
            faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
            found = complaint(calls[way])
            faulthandler.cancel_dump_traceback_later()
            if found is not None:
                print(json.dumps({"case": case, "way": way, "complaint": found}), flush=True)


def attacked(names, folder, first, last, before="pass", rehearse=True):
    """Every complaint about the cases, crashes and hangs included: (layout, case, way, what)."""
    for name in names:
        LAYOUTS[name](folder / name)
    found = []
    while first < last:
        arguments = (names, str(folder), first, last, rehearse)
        done = apart(f"import test_file_mutations as t; {before}; t.work(*{arguments!r})")
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found += [(line["case"], line["way"], line["complaint"]) for line in lines if "complaint" in line]
        if done.returncode == 0:
            break
        assert lines, done.stderr[-2000:]
        found.append((lines[-1]["case"], lines[-1]["way"], f"ended by {done.returncode}: {done.stderr[-1500:]}"))
        first = lines[-1]["case"] + 1
    return [(names[case % len(names)], case, way, what) for case, way, what in found]


def apart(script, *words):
    """A script in a process of its own."""
    command = [sys.executable, "-X", "faulthandler", "-c", script, *map(str, words)]
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parent), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=BATCH_SECONDS)


def deadly(path):
    """Ways in that go wrong in every way there is, to see that it is noticed."""

    def say(text):
        raise DataError(text)

    def chained():
        try:
            path.read_bytes().decode("ascii", "strict") and say("")
        except UnicodeDecodeError:
            say("x could not be read.")

    from ellipsum.errors import DataError

    return [
        lambda: say("x could not be read."),
        os.abort,
        lambda: {}["key"],
        lambda: say(f"{SECRET} could not be read."),
        lambda: say("ArrowInvalid: offset 7 beyond 3"),
        chained,
        lambda: warnings.warn("told by a cell", stacklevel=1),
    ]


# --- the tests ------------------------------------------------------------------------------------


def no_complaints(request, folder, kind, first, last):
    names = [name for name in LAYOUTS if kind in name]
    found = attacked(names, folder, first, last)
    count_cases(request, "damaged files", last - first)
    assert not found, "\n\n".join(f"{name}, case {case}, way {way}: {what}" for name, case, way, what in found[:5])


@pytest.mark.parametrize(("kind", "cases"), [(kind, 40) for kind in (".parquet", ".feather", ".arrow", ".gz")])
def test_damaged_files_give_plain_errors(request, tmp_path, kind, cases):
    no_complaints(request, tmp_path, kind, 0, cases)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize(("kind", "cases"), [(".parquet", 1500), (".feather", 1500), (".arrow", 600), (".gz", 400)])
def test_many_damaged_files_give_plain_errors(request, tmp_path, kind, cases, part):
    no_complaints(request, tmp_path, kind, 1000 + part * cases, 1000 + (part + 1) * cases)


def test_crashes_and_loose_words_are_noticed(tmp_path):
    found = attacked(["plain.parquet"], tmp_path, 0, 7, "t.ways = t.deadly", rehearse=False)
    noticed = {(way, what.split(":")[0]) for _, _, way, what in found}
    assert noticed == {
        (1, "ended by -6"),
        (2, "foreign error"),
        (3, "quotes a cell"),
        (4, "not a plain message"),
        (5, "holds a reader's error"),
        (6, "foreign error"),
    }


def misplaced(folder):
    """Arrow files in which one offset, size or index points elsewhere: (path, column, key)."""
    import pyarrow as pa

    n = 64
    numbers, threes = pa.array(np.arange(3.0 * n)), np.arange(n + 1) * 3
    names = [f"a name that is not kept in its view {i:03d}" for i in range(n)]
    far, few = np.arange(n) % 7, pa.array([f"{i}" for i in range(7)])
    views = pa.array(names, pa.string_view())
    arrays = [
        ("list", pa.ListArray.from_arrays(pa.array(threes, pa.int32()), numbers), threes.astype(np.int32), 6),
        ("large_list", pa.LargeListArray.from_arrays(pa.array(threes), numbers), threes, 6),
        ("text", pa.array(names), (np.arange(n + 1) * len(names[0])).astype(np.int32), 6),
        ("large_text", pa.array(names, pa.large_string()), np.arange(n + 1) * len(names[0]), 6),
        ("text_view", views, np.frombuffer(views.buffers()[1], np.int32, 4 * n), 4 * 6 + 3),
        ("index", pa.DictionaryArray.from_arrays(pa.array(far, pa.int16()), few), far.astype(np.int16), 6),
    ]  # fmt: skip
    for name, array, places, index in arrays:
        key = name if "text" in name or name == "index" else None
        table = pa.table({name: array, "x": np.zeros(n)})
        for value in (int(np.iinfo(places.dtype).max) // 2, -7):
            path = folder / f"{name}{value}.arrow"
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
                out.write_table(table)
            wrong = places.copy()
            wrong[index : index + 3 if places.size == n + 1 else index + 1] = value
            whole = path.read_bytes()
            assert whole.count(places.tobytes()) == 1
            path.write_bytes(whole.replace(places.tobytes(), wrong.tobytes()))
            yield str(path), "x" if key else f"{name}[3]", key


_READ = """
import json, sys
import pyarrow.dataset as ds
from ellipsum.sources.open import Selection, open_table
from ellipsum.errors import DataError
for path, column, key in json.loads(sys.argv[1]):
    lists = column != "x"
    for data in (path, ds.dataset(path, format="feather"), ds.dataset(path, format="feather").scanner()):
        print(path, type(data).__name__, flush=True)
        try:
            for keys, rows in open_table(data, Selection(column, key)).pieces():
                rows[:].sum() if lists else keys.to_pylist()
            print("was read")
        except DataError:
            pass
"""


def test_places_outside_the_file_are_not_followed(request, tmp_path):
    cases = list(misplaced(tmp_path))
    done = apart(_READ, json.dumps(cases))
    count_cases(request, "damaged files", len(cases))
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-1500:]
    assert "was read" not in done.stdout, done.stdout


def test_text_of_another_encoding_is_no_damage(tmp_path):
    import pyarrow as pa

    import ellipsum as es

    who = pa.array([b"\xe9", b"\xe9", b"\xe8", b"e"]).view(pa.string())
    path = tmp_path / "latin.arrow"
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, pa.schema([("who", pa.string()), ("x", "f8")])) as out,
    ):
        out.write_table(pa.table({"who": who, "x": [1.0, 2.0, 3.0, 4.0]}))
    found = es.mean(path, es.Ball(5), columns=["x"], privacy_id="who", n=3, epsilon=1, delta=1e-6)
    assert found.plan.n == 3
