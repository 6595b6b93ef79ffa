"""Decimal texts become the nearest double, bit for bit as Python reads them."""

import random
import struct
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from opening import open_table

from ellipsum.sources.decimals import digits, nearest_double


def bits(number):
    return struct.pack("d", number)


def any_double(rng):
    return struct.unpack("d", struct.pack("Q", rng.getrandbits(63)))[0]


def cases(rng):
    """(w, q) of every kind: all exponents, shortest and full texts of doubles, few digits, next to ties."""
    yield rng.getrandbits(64) % 10**19, rng.randint(-345, 312)
    number = any_double(rng)
    if np.isfinite(number):
        mantissa, power = f"{number:.16e}".split("e")
        yield int(mantissa.replace(".", "")), int(power) - 16
    whole, fraction = f"{abs(rng.gauss(0, 1)):.17f}".split(".")
    yield int(whole + fraction), -len(fraction)
    yield rng.randrange(10 ** rng.randint(1, 19)), rng.randint(-30, 30)
    tie = Fraction(2 * (rng.getrandbits(53) | 1 << 52) + 1) * Fraction(2) ** rng.randint(-61, 9)
    q = -rng.randint(0, 18)
    w = int(tie * Fraction(10) ** -q) + rng.choice((0, 0, 1))
    if 0 < w < 10**19:
        yield w, q


def test_the_nearest_double_or_no_answer():
    rng = random.Random(5)
    undecided = total = 0
    for _ in range(20_000):
        for w, q in cases(rng):
            negative = rng.random() < 0.5
            settled, value = nearest_double(np.uint64(w), q, negative)
            total += 1
            undecided += not settled
            if settled:
                assert bits(value) == bits(float(f"{'-' if negative else ''}{w}e{q}")), (w, q)
    assert undecided < 0.05 * total  # subnormal, beyond the doubles, or a tie


@pytest.mark.parametrize(
    ("w", "q", "settled"),
    [
        (0, -400, True),
        (1, 0, True),
        (9007199254740993, 0, False),  # a tie
        (17976931348623157, 292, True),  # the largest double
        (17976931348623159, 292, False),  # beyond it
        (22250738585072014, -324, True),  # the least normal one
        (49, -325, False),
        (123456789012345678, -400, False),
        (1, 400, False),
    ],
)
def test_edges(w, q, settled):
    found, value = nearest_double(np.uint64(w), q, False)
    assert found == settled
    if settled:
        assert bits(value) == bits(float(f"{w}e{q}"))


def test_runs_of_digits_end_where_they_end():
    rng = random.Random(6)
    for _ in range(20_000):
        size = rng.randrange(1, 30)
        text = bytes(rng.choice(b"0123456789") if rng.random() < 0.9 else rng.randrange(256) for _ in range(size))
        end = next((i for i, c in enumerate(text) if not 48 <= c <= 57), size)
        w, i = digits(np.frombuffer(text, np.uint8), np.uint64(0), np.uint64(0))
        assert int(i) == end
        assert int(w) == (int(text[:end]) if end else 0) % 2**64


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
