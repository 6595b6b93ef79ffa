"""Wide integers are exact."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ellipsum.numerics.wide_integers import Wide, larger_squares, squares_of, sum_of

numbers = st.integers(-(2**100), 2**100)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5))
def test_addition_and_conversion_are_exact(pairs):
    a, b = Wide.from_ints(p[0] for p in pairs), Wide.from_ints(p[1] for p in pairs)
    assert (a + b).to_ints() == [x + y for x, y in pairs]
    assert a.equals(Wide.from_ints(a.to_ints()))
    assert a.join(b).to_ints() == a.to_ints() + b.to_ints()


@given(numbers, st.integers(0, 200))
def test_splitting_is_floor_division(value, shift):
    whole, fraction = Wide.from_ints([value]).split(shift)
    exact = Fraction(value) / 2**shift
    assert whole[0] == exact.__floor__()
    assert abs(Fraction(float(fraction[0])) - (exact - exact.__floor__())) <= Fraction(1, 2**52)


@given(st.integers(-(2**60), 2**60), st.integers(1, 45))
def test_splitting_shifts_left(value, places):
    whole, fraction = Wide.from_ints([value]).split(-places)
    assert whole[0] == value << places
    assert fraction[0] == 0


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_from_int64(values):
    assert Wide.from_int64(np.array(values, np.int64)).to_ints() == values


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1), st.integers(0, 2**59))
def test_products_are_exact(values, factor):
    assert Wide.product(np.array(values, np.int64), factor).to_ints() == [value * factor for value in values]


@given(numbers)
def test_floats_are_close(value):
    assert abs(Wide.from_ints([value]).to_float()[0] - value) <= abs(value) * 2.0**-51


halves = st.integers(0, 2**61)


@given(st.lists(st.tuples(halves, halves, st.integers(0, 2**62 - 1), st.integers(0, 2**62 - 1)), min_size=1))
def test_sums_of_squares_are_exact(rows):
    first = squares_of([np.array(part) for part in zip(*rows, strict=True)])
    second = squares_of([np.array([row[3] for row in rows])])
    assert sum_of(first) == sum(a * a for row in rows for a in row)
    assert sum_of(larger_squares(first, second)) == sum_of(first)
    halved = squares_of([np.array([row[0] for row in rows])])
    assert sum_of(larger_squares(halved, second)) == sum(max(row[0], row[3]) ** 2 for row in rows)
