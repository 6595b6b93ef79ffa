"""[P11] What a guarantee leaves to somebody who guesses: the exact shares, and nothing above or below them."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import ellipsum as es
from ellipsum.privacy.guarantee import max_guess_accuracy, max_true_positive_rate, percent_up
from ellipsum.privacy.spherical_curve import SphericalPrivacy

ALPHAS = (1e-4, 0.01, 0.3)


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.3, 1.0, 3.0, 8.0])
def test_gaussian_guesses(mu):
    share = max_guess_accuracy(es.Privacy(mu))
    assert ndtr(mu / 2) <= share * (1 + 1e-15)
    assert share <= ndtr(mu / 2) * (1 + 1e-12)
    for alarms in ALPHAS:
        exact = ndtr(ndtri(alarms) + mu)
        assert (
            exact * (1 - 1e-12) <= max_true_positive_rate(es.Privacy(mu), alarms) <= min(1.0, exact * (1 + 1e-6) + 1e-5)
        )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_guesses_after_a_pure_step_are_those_of_randomized_response(epsilon):
    pure = es.Privacy.of_pure(epsilon)
    assert max_guess_accuracy(pure) == pytest.approx(1 / (1 + math.exp(-epsilon)), rel=1e-12)
    corner = 1 / (1 + math.exp(epsilon))  # where false alarms and misses are as many
    for alarms in ALPHAS:
        exact = math.exp(epsilon) * alarms if alarms < corner else 1 - math.exp(-epsilon) * (1 - alarms)
        assert max_true_positive_rate(pure, alarms) == pytest.approx(exact, rel=1e-6)


def test_slack_adds_half_of_itself():
    assert max_guess_accuracy(es.Privacy(1.0, 1e-3)) - max_guess_accuracy(es.Privacy(1.0)) == pytest.approx(
        5e-4, rel=1e-9
    )


def test_steps_of_several_laws_together():
    """Every likelihood ratio of a Gaussian output and two answers of randomized response, summed up."""
    mu, pure = 0.7, (0.4, 0.9)
    x = np.linspace(-12, 12 + mu, 400_001)
    first, second = (np.exp(-0.5 * (x - shift) ** 2) / math.sqrt(2 * math.pi) for shift in (mu, 0.0))
    total = 0.0
    for a in (0, 1):
        for b in (0, 1):
            odds = [1 / (1 + math.exp(-e)) for e in pure]
            p = math.prod(q if answer else 1 - q for q, answer in zip(odds, (a, b), strict=True))
            q = math.prod(1 - q if answer else q for q, answer in zip(odds, (a, b), strict=True))
            total += float(np.maximum(p * first, q * second).sum()) * (x[1] - x[0])
    assert max_guess_accuracy(es.Privacy(mu, pure=pure)) == pytest.approx(total / 2, rel=1e-8)


def test_spherical_noise_of_one_dimension_is_laplace():
    """Half a sensitivity apart from either data set is where they are told apart."""
    assert max_guess_accuracy(SphericalPrivacy(2.0, 1)) == pytest.approx(1 - math.exp(-1.0) / 2, rel=1e-6)


def test_shares_are_shown_rounded_up():
    assert percent_up(0.5) == "50"
    assert percent_up(0.50001) == "50.1"
    assert percent_up(0.7310585786) == "73.2"
    assert percent_up(1.0) == "100"
