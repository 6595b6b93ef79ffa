"""Zeros of functions."""

import math

import numpy as np
import pytest

from ellipsum.numerics.roots import gauss_legendre, root


@pytest.mark.parametrize(
    ("function", "low", "high", "zero"),
    [
        (lambda x: x**9 - 1e-9, 0.0, 3.0, 0.1),
        (lambda x: math.exp(x) - 1e8, -50.0, 60.0, math.log(1e8)),
        (lambda x: 1e3 - x, -1e5, 1e6, 1e3),
        (lambda x: 1.0 if x > 0.3 else -1.0, 0.0, 1.0, 0.3),
        (lambda x: x - 2.0, 2.0, 5.0, 2.0),
        (lambda x: x - 5.0, 2.0, 5.0, 5.0),
    ],
)
def test_a_zero_is_found(function, low, high, zero):
    assert root(function, low, high, 1e-12) == pytest.approx(zero, abs=5e-12)


def test_few_steps_are_taken_where_the_function_is_smooth():
    seen = []
    root(lambda x: seen.append(x) or math.expm1(x - 1.0), 0.0, 4.0, 1e-13)
    assert len(seen) < 14


def test_one_sign_is_an_error():
    with pytest.raises(ValueError, match="same sign"):
        root(lambda x: 1.0 + x * x, -1.0, 1.0)


@pytest.mark.parametrize("count", [2, 100, 200])
def test_gauss_nodes_are_those_of_numpy(count):
    nodes, weights = gauss_legendre(count)
    their_nodes, their_weights = np.polynomial.legendre.leggauss(count)
    assert nodes == pytest.approx(their_nodes, abs=4e-16)
    assert weights == pytest.approx(their_weights, rel=1e-11)
    assert float(weights @ nodes**2) == pytest.approx(2 / 3, rel=1e-14)
