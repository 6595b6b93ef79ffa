"""The search for a least value against functions whose least point is known."""

import numpy as np
import pytest
from scipy.optimize import minimize

from ellipsum.numerics.descent import descend

FAR = np.full(30, 1e3)


def bowl(curvature, middle):
    def function(x):
        slope = curvature * (x - middle)
        return 0.5 * float(slope @ (x - middle)), slope

    return function


def valley(x):
    """Rosenbrock's, about a point off the diagonal."""
    y = x + 0.5
    steep = y[1:] - y[:-1] ** 2
    value = float((100 * steep**2 + (1 - y[:-1]) ** 2).sum())
    slope = np.zeros_like(x)
    slope[:-1] = -400 * steep * y[:-1] - 2 * (1 - y[:-1])
    slope[1:] += 200 * steep
    return value, slope


@pytest.mark.parametrize("widest", [1.0, 3.0, 10.0])
def test_a_bowl_has_its_middle(widest):
    middle = np.linspace(-3, 5, 30)
    found = descend(bowl(np.geomspace(1 / widest, widest, 30), middle), FAR, 0.0)
    assert found == pytest.approx(middle, abs=1e-4)


def test_a_bent_valley_as_scipy_has_it():
    reach = np.full(6, 10.0)
    found = descend(valley, reach, 0.0)
    peer = minimize(valley, np.zeros(6), jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-10})
    assert found == pytest.approx(peer.x, abs=1e-5)
    assert np.ptp(found) < 1e-5
    assert found[0] == pytest.approx(0.5, abs=1e-5)


def test_nothing_moves_beyond_its_reach():
    reach = np.array([0.5, 100.0])
    found = descend(bowl(np.ones(2), np.array([2.0, 3.0])), reach, 0.0)
    assert found == pytest.approx([0.5, 3.0], abs=1e-6)


def test_the_start_is_kept_where_it_is_least():
    assert not descend(bowl(np.ones(3), np.zeros(3)), np.ones(3), 1e-9).any()
