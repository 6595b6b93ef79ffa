"""Noise in floating point leaves traces of the data in its bits; noise that is rounded once does not."""

import numpy as np
import pytest

import ellipsum as es
from ellipsum.apps.audit.cases import NoisySums


class Many:
    def __init__(self, draw):
        self.draw = draw

    def many(self, data, runs, rng):
        return self.draw(data, runs, rng)


def polar(data, runs, rng):
    return data + np.sqrt(-2 * np.log(1 - rng.random(runs))) * np.cos(2 * np.pi * rng.random(runs))


NAIVE = {
    "ziggurat": (Many(lambda data, runs, rng: data + rng.normal(size=runs)), (0.3, 0.31)),
    "ziggurat at zero": (Many(lambda data, runs, rng: data + rng.normal(size=runs)), (0.0, 0.01)),
    "single precision": (
        Many(lambda data, runs, rng: np.float32(data) + rng.standard_normal(runs, dtype=np.float32)),
        (0.3, 0.301),
    ),
    "polar": (Many(polar), (0.0, 0.01)),
    "laplace": (Many(lambda data, runs, rng: data + rng.laplace(size=runs)), (0.3, 0.31)),
}
OURS = {
    "ball": {"bounds": es.Ball(1.0), "budget": es.Budget(mu=1.0)},
    "ball-norm": {"bounds": es.Ball(1.0), "noise": "knorm", "epsilon": 1, "delta": 1e-6},
    "box-norm": {"bounds": es.Box(-1.0, 1.0), "noise": "knorm", "epsilon": 1, "delta": 0},
}
CLOSE = np.array([[0.5], [0.0]]), np.array([[0.49], [0.0]])


@pytest.mark.parametrize("name", NAIVE)
def test_noise_in_floating_point_is_found(name):
    mechanism, pair = NAIVE[name]
    found = es.audit_bits(mechanism, pair, runs=100_000, rng=np.random.default_rng(0))
    assert found.found
    assert found.p_value < 1e-9
    same = es.audit_bits(mechanism, (pair[0], pair[0]), runs=100_000, rng=np.random.default_rng(0))
    assert not same.found
    assert same.p_value > 1e-3


@pytest.mark.parametrize("name", OURS)
def test_nothing_is_found_in_ours(name):
    mechanism = NoisySums(es.plan(statistic="sum", n=2, d=1, **OURS[name]))
    assert es.audit_bits(mechanism, CLOSE, runs=100_000, rng=np.random.default_rng(1)).p_value > 1e-3


@pytest.mark.slow
def test_nothing_is_found_in_ours_at_ten_million():
    mechanism = NoisySums(es.plan(statistic="sum", n=2, d=1, missing="none", **OURS["ball"]))
    found = es.audit_bits(mechanism, CLOSE, runs=10_000_000, rng=np.random.default_rng(2))
    assert found.p_value > 1e-3, found


def test_values_of_disjoint_supports_repeat_on_their_own_side_alone():
    odd = Many(lambda data, runs, rng: 2.0 * rng.integers(0, 1 << 20, runs) + data)
    found = es.audit_bits(odd, (0, 1), runs=20_000, rng=np.random.default_rng(3))
    assert found.found
    assert "traces" in repr(found)
