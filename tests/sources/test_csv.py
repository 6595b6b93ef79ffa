"""CSV files: which rows one mutated line may change, that no cell is quoted, and numbers as Python reads them. [T3]"""

import itertools
import random
import re
import struct

import numpy as np
import pyarrow as pa
import pytest
from counting import count_cases
from csv_rules import NUMBER, cells_of, identity_of, numbers_of, rows_of
from opening import open_table

from ellipsum.errors import EllipsumError
from ellipsum.sources.csv import CsvTable
from ellipsum.sources.selection import Selection

SECRET = "Xq7"  # in every cell of text, and in no name
QUICK, SLOW = range(2), range(2, 43)
EACH = 80
SEEDS = [*QUICK, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW)]
ODD = ['"', '""', '"', ",", "\r", "\x00", "\x1b", "\xff", "\x85", " ", "\t", "e", "-", ".", "7", "12", "nan", SECRET]


def text_cell(rng, line_ends):
    """A properly quoted cell of text: separators, doubled quotes and, where allowed, line ends in any place."""
    pieces = [",", '""', "x", SECRET, " ", "\r", "5", *(["\n", "\r\n"] if line_ends else [])]
    return '"' + "".join(rng.choice(pieces) for _ in range(rng.randrange(6))) + '"'


def proper_row(rng, width, line_ends):
    size = width if rng.random() < 0.9 else rng.randrange(1, width + 3)
    kinds = [lambda: repr(round(rng.gauss(0, 9), 3)), lambda: text_cell(rng, line_ends), lambda: SECRET, lambda: ""]
    return ",".join(rng.choice(kinds)() for _ in range(size)) + rng.choice(["\n", "\n", "\r\n"])


def mutated(rng, line):
    """The line with some bytes put in, taken out or put in place of a cell; none of them a line end."""
    body, end = re.fullmatch(r"(.*?)(\r?\n)", line, re.DOTALL).groups()
    how = rng.randrange(3)
    noise = "".join(rng.choice(ODD) for _ in range(rng.randrange(1, 7)))
    if how == 0:
        cells = body.split(",")
        cells[rng.randrange(len(cells))] = noise
        return ",".join(cells) + end
    at = rng.randrange(len(body) + 1)
    return body[:at] + (noise + body[at:] if how == 1 else body[at + rng.randrange(1, 4) :]) + end


def open_ended(row):
    """Whether a cell is quoted, holds a line end, and begins behind any quotes with a separator or a line end."""
    return any("\n" in text and re.match(r'"*(?:,|\r?\n)', text) for text, _, _ in cells_of(row))


def delivered(path, rng, longest):
    """What the reader makes of each row: its entries as bits, and whose it is."""
    table = CsvTable(path, Selection(key="k0"), chunk_bytes=rng.choice([1, 7, 64, 1 << 20]), longest_line=longest)
    pieces = list(table.pieces())
    keys = [key for some, _ in pieces for key in some.to_pylist()]
    entries = [row.tobytes() for _, block in pieces for row in np.where(np.isnan(block), np.nan, block)]
    assert table.rows() == len(entries) == len(keys)
    return list(zip(keys, entries, strict=True))


def expected(body, width, longest):
    """The same by the written rules."""
    found = []
    for row in rows_of(body):
        who = identity_of(row, 0, longest)
        entries = np.array(numbers_of(row, width, longest)[1:])
        found.append((who and who.encode("latin-1"), np.where(np.isnan(entries), np.nan, entries).tobytes()))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_one_line_changes_its_own_row_alone(tmp_path, request, seed):
    rng = random.Random(seed)
    path, alone, moved = tmp_path / "t.csv", 0, 0
    for _ in range(EACH):
        width, line_ends = rng.randrange(2, 5), rng.random() < 0.5
        header = ",".join(f"k{j}" for j in range(width)) + "\n"
        rows = [proper_row(rng, width, line_ends) for _ in range(rng.randrange(1, 12))]
        i = rng.randrange(len(rows))
        rows[i] = proper_row(rng, width, False)
        other = [*rows[:i], mutated(rng, rows[i]), *rows[i + 1 :]]
        longest = rng.choice([10**6, 10**6, 30])
        seen = []
        for lines in (rows, other):
            path.write_bytes((header + "".join(lines)).encode("latin-1"))
            seen.append(delivered(path, rng, longest))
            assert seen[-1] == expected("".join(lines), width, longest)
        before, after = seen
        assert len(before) == len(rows)
        last = max([i, *(j for j in range(i + 1, len(rows)) if open_ended(rows[j]))])
        rest = len(rows) - 1 - last
        assert after[:i] == before[:i]
        assert after[len(after) - rest :] == before[len(before) - rest :]
        if last == i:
            assert len(after) == len(before)
            alone += 1
        moved += len(after) != len(before)
    count_cases(request, "CSV lines", EACH)
    assert alone > EACH / 2
    assert moved < EACH / 10


def test_a_cell_that_is_open_ended_can_join_rows(tmp_path):
    """The statement's condition is needed: here an odd quote meets a cell that begins with a line end."""
    path = tmp_path / "t.csv"
    texts = ['k0,k1\n1,2\n3,4\n5,"\n6"\n7,8\n', 'k0,k1\n1,"2\n3,4\n5,"\n6"\n7,8\n']
    rows = []
    for text in texts:
        path.write_text(text)
        rows.append(delivered(path, random.Random(0), 10**6))
    assert [len(found) for found in rows] == [4, 3]
    assert rows[0][-1] == rows[1][-1]


def silent(error, path, line, typed):
    """No text of a cell in what is said, nor control characters; bounded, and no foreign error behind it."""
    assert isinstance(error, EllipsumError)
    assert error.__cause__ is None
    assert error.__context__ is None or isinstance(error.__context__, EllipsumError)
    said = str(error).replace(str(path), "FILE")
    assert SECRET not in said
    assert said.isprintable()
    assert len(said) < 3000
    if "first line" in said:  # refused as no header: nothing of the line is said
        assert not any(len(name) > 2 and name in said for name in re.findall(r"\w+", line) if name not in typed)


def header_of(rng):
    """A first line: plain names with noise in them, names alone, or a row, as in a file without a header."""
    names = ["weight", "height", "größe", "id", "x 1", '"a, b"', "1st", "", *(["2019"] if rng.random() < 0.3 else [])]
    line = ",".join(rng.sample(names, 4))
    how = rng.randrange(4)
    if how == 0:
        return f"{SECRET},{rng.gauss(0, 9)!r},{SECRET},{rng.randrange(99)}"
    if how == 1:
        return line
    odd = [piece for piece in (*ODD, "\u202e", "\u2028", "\x07") if piece != SECRET]
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(line) + 1)
        line = line[:at] + rng.choice(odd) + line[at:]
    return line if how == 2 else line[rng.randrange(len(line)) :]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_header_never_shows_a_row(tmp_path, request, seed):
    rng = random.Random(seed)
    path, refused, taken = tmp_path / "t.csv", 0, 0
    for _ in range(EACH):
        line = header_of(rng)
        body = "".join(proper_row(rng, 4, rng.random() < 0.5) for _ in range(rng.randrange(6)))
        text = line + rng.choice(["\n", "\r\n"]) + body
        path.write_bytes(text.encode(rng.choice(["utf-8", "utf-8-sig"])))
        columns = rng.choice([None, None, None, ["weight"], ["2019", "id"], [f"{rng.randrange(9)}"]])
        key = rng.choice([None, None, "id"])
        try:
            table = CsvTable(path, Selection(columns, key))
        except EllipsumError as error:
            silent(error, path, line, [*(columns or []), "id"])
            refused += 1
            continue
        taken += 1
        assert SECRET not in str(table.columns)
        assert all(name.replace('"', "") in line.replace('"', "") for name in table.available)
        assert table.rows() == sum(len(block) for block in table.batches()) == len(rows_of(body))
    count_cases(request, "CSV headers", EACH)
    assert refused > EACH / 10
    assert taken > EACH / 20


# --- numbers ------------------------------------------------------------------------------------------


def bits(number):
    return struct.pack("d", number)


def any_double(rng):
    return struct.unpack("d", struct.pack("Q", rng.getrandbits(63)))[0]


FORMS = ("{!r}", "{:.3f}", "{:.17f}", "{:.25e}", "{:+.16e}", " {!r} ", '"{!r}"', "{:.0f}.", "{:.30f}", "{:e}")


def test_cells_are_read_as_python_reads_them(tmp_path):
    rng = random.Random(7)
    numbers = [rng.gauss(0, 1) * 10 ** rng.randint(-12, 12) for _ in range(400)]
    numbers += [number for number in (any_double(rng) for _ in range(400)) if np.isfinite(number)]
    texts = [rng.choice(FORMS).format(number) for number in numbers]
    texts += ["0" * k + "1" for k in range(30)] + ["0." + "0" * k + "12345678901234567" for k in range(30)]
    texts += ["-0", "+0", "-0.0", "1e400", "-1e400", "1e-400", "5.e3", ".5E-3", "12345678901234567890123"]
    texts += ["1e99999999999999999999", "1e-99999999999999999999", "0e99999999999"]
    missing = ["", ".", "-", "e5", "1e", "1e+", "1.2.3", "0x10", "inf", "nan", "1 2", "1e5.0", "--1", "+-1", "1_000"]
    lines = [f"7,{text},8" for text in texts + missing]
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(lines))
    found = np.concatenate(list(open_table(tmp_path / "t.csv", "b").batches()))[:, 0]
    expected = [float(text.strip('"')) for text in texts]
    assert [bits(x) for x in found[: len(texts)]] == [bits(x) for x in expected]
    assert np.isnan(found[len(texts) :]).all()
    assert len(found) == len(lines)


def test_whole_tables_come_back_from_their_text(tmp_path):
    rng = np.random.default_rng(8)
    table = pa.table({name: rng.normal(size=3000) * 10.0 ** rng.integers(-5, 9, 3000) for name in "abc"})
    lines = (",".join(map(repr, row)) for row in zip(*(c.to_pylist() for c in table.columns), strict=True))
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\r\n".join(lines) + "\r\n")
    found = np.concatenate(list(open_table(tmp_path / "t.csv").batches()))
    assert np.array_equal(found, np.column_stack([c.to_numpy() for c in table.columns]))


def test_arrow_casts_numbers_alone():
    """Of texts of these bytes; those with a plus in front are cast without it."""
    for size in range(1, 6):
        for letters in itertools.product("1+-.eE", repeat=size):
            text = "".join(letters)
            try:
                pa.array([text]).cast(pa.float64())
            except pa.ArrowInvalid:
                assert text.startswith("+") or not NUMBER.fullmatch(text)
            else:
                assert NUMBER.fullmatch(text)
