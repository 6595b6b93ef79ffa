"""The exponential mechanism: its law, to 1e-9, and choices that only further bits decide."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import chi2

from ellipsum.noise import Stream
from ellipsum.noise.exponential_choice import choose


def chosen(widths, costs, rate, times, seed=0):
    stream = Stream.open(np.random.default_rng(seed))
    return np.bincount([choose(widths, costs, rate, stream) for _ in range(times)], minlength=len(widths))


@pytest.mark.parametrize("seed", range(3))
def test_bins_are_chosen_with_the_stated_odds(seed):
    """A rate that is 10% too large, or too small, would show."""
    widths, costs, rate = [1.0, 20.0, 400.0, 50.0, 0.5], [0, 6, 12, 8, 0], 0.5
    weights = np.array(widths) * np.exp(-rate * np.array(costs)[None] * np.array([[1.0], [0.9], [1.1]]))
    expected, *wrong = 4000 * weights / weights.sum(axis=1, keepdims=True)
    counts = chosen(widths, costs, Fraction(rate), 4000, seed)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-9, 4)
    for other in wrong:
        assert ((counts - other) ** 2 / other).sum() > chi2.isf(1e-9, 4)


class Fixed:
    """A stream whose first bits lie on the end of a bin."""

    next = 0

    def claim(self, start, count):
        pass

    def words(self, start, count):
        return np.array([[1 << 63, 0]], np.uint64)

    def more(self, index):
        yield from (0, 5, 0)


def test_a_number_on_the_end_of_a_bin_takes_more_bits():
    assert choose([1.0, 1.0], [0, 0], Fraction(1), Fixed()) == 1
    assert choose([1.0, 1.0], [700, 700], Fraction(1), Fixed()) == 1


@pytest.mark.parametrize("further", [0, (1 << 64) - 1])
def test_bits_beyond_the_first_decide_where_the_end_of_a_bin_lies_among_them(further):
    """The end lies within the interval that 128 bits leave: the bits that follow tell on which side."""
    with ctx.workprec(400):
        end = 1 / (1 + (-arb(1)).exp()) * arb(2) ** 128
        first = int(end.floor().unique_fmpz())

    class Near(Fixed):
        def words(self, start, count):
            return np.array([[first >> 64, first & ((1 << 64) - 1)]], np.uint64)

        def more(self, index):
            yield from itertools.repeat(further)

    assert choose([1.0, 1.0], [0, 1], Fraction(1), Near()) == (1 if further else 0)


def test_a_position_serves_one_choice():
    stream = Stream.open(np.random.default_rng(0))
    choose([1.0], [0], Fraction(1), stream)
    assert stream.next == 1
