"""Spherical noise: its curve against mpmath, every draw correctly rounded, the stated law and no other."""

from __future__ import annotations

import functools
import math

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from scipy import integrate, special, stats
from test_noise import FALSE_ALARM, Scripted, seeded

from ellipsum.errors import UsageError
from ellipsum.noise import Stream, vectors
from ellipsum.noise.law import ball_isf, ball_sf, ball_square_isf, ball_square_sf, ball_std
from ellipsum.noise.vector_runs import ball_draws, ball_shift
from ellipsum.noise.vectors import add_ball_noise
from ellipsum.numerics.wide_integers import Wide
from ellipsum.privacy import spherical_curve
from ellipsum.privacy.gaussian_curve import certified_mu
from ellipsum.privacy.spherical_curve import (
    ball_delta_upper,
    ball_epsilon_upper,
    certified_ratio,
)

DIMENSIONS = [1, 2, 3, 4, 8, 16, 32, 128, 1000, 4000]


# ---- The curve ----


def ball_delta(ratio: float, epsilon: float, d: int) -> float:
    return math.exp(spherical_curve._log_delta(ratio, epsilon, d))


def true_delta(ratio: float, epsilon: float, d: int) -> mpmath.mpf:
    """delta by mpmath's own Bessel functions and quadrature, the law's normalizer from the Bessel I function."""
    with mpmath.workdps(30):
        loss, z = mpmath.mpf(epsilon), mpmath.mpf(ratio) / 2
        if d == 1:
            return -mpmath.expm1(loss / 2 - z)
        order = mpmath.mpf(d) / 2
        rho = (d - 1) * mpmath.besselk(order, z) / (z * mpmath.besselk(order - 1, z))
        first = mpmath.hyp0f1(order, z * z / 4) * mpmath.gamma(order - 0.5) / mpmath.gamma(order)
        second = mpmath.hyp0f1(order + 1, z * z / 4) * mpmath.gamma(order + 0.5) / mpmath.gamma(order + 1)
        norm = mpmath.sqrt(mpmath.pi) * (rho * first + second)
        last = mpmath.acos(loss / (2 * z))

        def integrand(theta: mpmath.mpf) -> mpmath.mpf:
            sine, cosine = mpmath.sin(theta), mpmath.cos(theta)
            gain = mpmath.exp(z * cosine) - mpmath.exp(loss - z * cosine)
            return gain * sine ** (d - 2) * (rho + sine * sine) / norm

        width = 8 / mpmath.sqrt(d)
        low = max(mpmath.mpf(0), last - width)
        nodes = [0, low, last] if low > 0 else [0, last]
        return mpmath.quad(integrand, [*nodes[:-1], (nodes[-2] + last) / 2, last])


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_curve_is_that_of_the_oracle(d: int) -> None:
    for epsilon, delta in [(1.0, 1e-6), (0.1, 1e-3), (4.0, 1e-9)]:
        ratio = certified_ratio(epsilon, delta, d)
        exact = true_delta(ratio, epsilon, d)
        upper = ball_delta_upper(ratio, epsilon, d)
        assert exact <= upper * (1 + 1e-15)
        assert upper <= exact * (1 + 1e-8), (d, epsilon)
        assert abs(ball_delta(ratio, epsilon, d) / float(exact) - 1) < 1e-6 + 1e-15 / (ratio - epsilon)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_calibration_is_safe_and_within_1e_4_of_the_least_noise(d: int) -> None:
    for epsilon, delta in [(1.0, 1e-6), (0.1, 1e-9), (4.0, 1e-3), (0.01, 1e-4)]:
        ratio = certified_ratio(epsilon, delta, d)
        assert true_delta(ratio, epsilon, d) <= delta
        if ratio > epsilon:
            assert true_delta(ratio * (1 + 1e-8), epsilon, d) > delta


@pytest.mark.parametrize("d", [10**5, 10**6])
def test_calibration_in_very_many_dimensions(d: int) -> None:
    """The law tends to the Gaussian: scale sqrt(d + 1) mu / sensitivity is 1 up to a term of order 1/d."""
    for epsilon, delta in [(1.0, 1e-6), (0.1, 1e-9), (10.0, 1e-12)]:
        ratio, mu = certified_ratio(epsilon, delta, d), certified_mu(epsilon, delta)
        assert 1 < (ratio / mu) ** 2 / (d + 1) < 1 + 30 / d**0.99
        assert ball_delta_upper(ratio, epsilon, d) <= delta
        assert not spherical_curve._is_safe(ratio * (1 + 1e-7), epsilon, delta, d)


@pytest.mark.parametrize("epsilon", [1e-4, 0.03, 100.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-9, 0.5])
def test_the_corners_of_the_promised_range(epsilon: float, delta: float) -> None:
    for d in (1, 2, 3, 30, 1000, 10**5):
        ratio = certified_ratio(epsilon, delta, d)
        assert ratio >= epsilon
        assert spherical_curve._is_safe(ratio, epsilon, delta, d)
        assert not spherical_curve._is_safe(ratio * (1 + 1e-8), epsilon, delta, d), d


@pytest.mark.parametrize(
    ("epsilon", "gains"),
    [
        (1.0, [8.92, 5.95, 3.61, 2.21, 1.54, 1.25, 1.12, 1.06, 1.03]),
        (4.0, [11.4, 7.60, 4.58, 2.69, 1.76, 1.35, 1.16, 1.08, 1.04]),
        (0.1, [6.59, 4.40, 2.73, 1.79, 1.36, 1.17, 1.08, 1.04, 1.02]),
    ],
)
def test_squared_error_against_the_gaussian(epsilon: float, gains: list[float]) -> None:
    mu = certified_mu(epsilon, 1e-6)
    for d, gain in zip([1, 2, 4, 8, 16, 32, 64, 128, 256], gains, strict=True):
        measured = (certified_ratio(epsilon, 1e-6, d) / mu) ** 2 / (d + 1)
        assert measured == pytest.approx(gain, abs=0.051 if gain > 10 else 0.0051)


def test_pure_and_refused() -> None:
    assert certified_ratio(0.7, 0.0, 5) == 0.7
    assert ball_delta_upper(0.7, 0.7, 5) == 0.0
    assert ball_epsilon_upper(0.7, 0.0, 5) == 0.7
    assert ball_epsilon_upper(0.7, 1.0, 5) == ball_epsilon_upper(0.0, 0.0, 5) == 0.0
    for bad in [(0.0, 1e-6, 2), (1.0, 1.0, 2), (1.0, -1e-9, 2), (1.0, 1e-6, 0), (math.nan, 1e-6, 2)]:
        with pytest.raises(UsageError):
            certified_ratio(*bad)


def test_an_enclosure_that_is_not_finite_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spherical_curve, "_delta_ball", lambda *_: arb.nan())
    certified_ratio.cache_clear()
    assert not spherical_curve._is_safe(1e9, 1.0, 0.5, 4)
    assert certified_ratio(1.0, 1e-6, 8) == 1.0  # only the pure ratio is left
    assert ball_delta_upper(3.0, 1.0, 4) == 1.0
    certified_ratio.cache_clear()


@pytest.mark.parametrize("factor", [1.1, 1 + 1e-6, 0.9])
def test_a_wrong_root_finder_cannot_weaken_the_result(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    honest = spherical_curve._ratio_estimate
    monkeypatch.setattr(spherical_curve, "_ratio_estimate", lambda *args: factor * honest(*args))
    for d in (2, 9, 100):
        ratio = certified_ratio.__wrapped__(1.0, 1e-6, d)
        assert true_delta(ratio, 1.0, d) <= 1e-6


@pytest.mark.parametrize("d", [1, 2, 5, 40, 3000])
def test_epsilon_is_the_inverse(d: int) -> None:
    for epsilon, delta in [(1.0, 1e-6), (0.1, 1e-3), (5.0, 1e-10)]:
        ratio = certified_ratio(epsilon, delta, d)
        found = ball_epsilon_upper(ratio, delta, d)
        assert true_delta(ratio, found, d) <= delta
        assert abs(found - epsilon) < 1e-7 * ratio


def brute_force_delta(ratio: float, epsilon: float, d: int) -> float:
    """E[(1 - e^(epsilon - L))_+] over length and direction, without Bessel functions or hyperboloids."""
    log_norm = math.lgamma(d) + math.lgamma((d - 1) / 2) + math.log(math.pi) / 2 - math.lgamma(d / 2)

    def value(angle: float, r: float) -> float:
        loss = math.sqrt(r * r + 2 * r * ratio * math.cos(angle) + ratio * ratio) - r
        if loss <= epsilon:
            return 0.0
        density = (d - 1) * math.log(r) - r + (d - 2) * math.log(math.sin(angle)) - log_norm
        return -math.expm1(epsilon - loss) * math.exp(density)

    def limit(r: float) -> float:
        """Where the loss falls to epsilon: cos(angle) = ((epsilon + r)^2 - r^2 - ratio^2) / (2 r ratio)."""
        cosine = (epsilon * epsilon + 2 * epsilon * r - ratio * ratio) / (2 * r * ratio)
        return math.acos(min(max(cosine, -1.0), 1.0))

    least = max((ratio - epsilon) / 2, 1e-9)
    total = 0.0
    for low, high in [(1e-9, least), (least, d + 5.0), (d + 5.0, d + 80.0)]:
        part, _ = integrate.dblquad(value, low, high, 1e-12, limit, epsabs=1e-12, epsrel=1e-9)
        total += part
    return total


@pytest.mark.parametrize("d", [2, 3, 5])
def test_the_curve_is_the_expected_excess_loss(d: int) -> None:
    for ratio, epsilon in [(1.5, 1.0), (3.0, 0.5), (1.0, 0.0)]:
        assert brute_force_delta(ratio, epsilon, d) == pytest.approx(ball_delta(ratio, epsilon, d), rel=1e-6, abs=0)


def test_ten_percent_less_noise_is_not_private() -> None:
    for d in (1, 2, 8, 100, 10**4):
        ratio = certified_ratio(1.0, 1e-6, d)
        assert spherical_curve._is_safe(ratio, 1.0, 1e-6, d)
        assert not spherical_curve._is_safe(1.1 * ratio, 1.0, 1e-6, d)
        assert ball_delta_upper(1.1 * ratio, 1.0, d) > 1.5e-6


# ---- The law of a coordinate ----


@pytest.mark.parametrize("d", [1, 2, 3, 10, 77, 1000])
def test_the_tail_of_a_coordinate(d: int) -> None:
    """A coordinate is the difference of two Gamma((d+1)/2) variables: P[g - h > x], h integrated out."""
    shape = (d + 1) / 2
    low, high = special.gammaincinv(shape, 1e-14), special.gammainccinv(shape, 1e-14)

    def integrand(h: float, x: float) -> float:
        return float(special.gammaincc(shape, x + h) * stats.gamma.pdf(h, shape))

    for share in (0.1, 1.0, 3.0, 5.0):
        x = share * math.sqrt(d + 1)
        tail, _ = integrate.quad(integrand, max(low, 1e-14), high, args=(x,), epsabs=0, epsrel=1e-10, limit=400)
        assert ball_sf(x, d) == pytest.approx(tail, rel=1e-7, abs=0)


def test_quantiles_and_lengths_are_inverses() -> None:
    for d in (1, 2, 9, 300, 10**6):
        for p in (1e-12, 1e-3, 0.025, 0.4, 0.5, 0.9):
            assert ball_sf(ball_isf(p, d), d) == pytest.approx(p, rel=1e-8, abs=0)
            for rank in {1, (d + 1) // 2, d}:
                assert ball_square_sf(ball_square_isf(p, rank, d), rank, d) == pytest.approx(p, rel=1e-7, abs=0)
    assert ball_isf(0.025, 10**6) / ball_std(10**6) == pytest.approx(stats.norm.isf(0.025), rel=1e-5)
    assert ball_isf(0.025, 1) == pytest.approx(math.log(20), rel=1e-12)  # Laplace


@pytest.mark.parametrize("d", [1, 2, 5, 40, 1000, 10**6])
def test_the_law_of_several_coordinates(d: int) -> None:
    """All of them: the length is Gamma(d). One: twice the tail of a coordinate [B5]."""
    for p in (1e-12, 1e-3, 0.05, 0.5, 0.99):
        length = float(special.gammainccinv(d, p))
        assert ball_square_sf(length**2, d, d) == pytest.approx(p, rel=1e-8, abs=0)
        assert ball_square_isf(p, d, d) == pytest.approx(length**2, rel=1e-8)
        if p < 0.5:
            assert ball_square_isf(2 * p, 1, d) == pytest.approx(ball_isf(p, d) ** 2, rel=1e-8)


# ---- Drawing ----


def digits(stream: Stream, index: int, extra: int) -> tuple[int, int]:
    """(first 128 + 64 extra bits of a draw, how many)."""
    first, second = map(int, stream.words(index, 1)[0])
    value, further = (first << 64) | second, stream.more(index)
    for _ in range(extra):
        value = (value << 64) | next(further)
    return value, 128 + 64 * extra


def uniform(stream: Stream, index: int, extra: int) -> mpmath.mpf:
    value, length = digits(stream, index, extra)
    return mpmath.ldexp(2 * value + 1, -length - 1)


def normal(stream: Stream, index: int, extra: int) -> mpmath.mpf:
    value, length = digits(stream, index, extra)
    tail = value & ((1 << (length - 1)) - 1)
    with ctx.workprec(1000):
        text = (arb(2).sqrt() * (arb(2 * tail + 1) * arb(2) ** -length).erfcinv()).str(300, radius=False)
    return -mpmath.mpf(text) if value >> (length - 1) else mpmath.mpf(text)


def replayed(sums: list[list[int]], scale: float, stream: Stream, start: int, extra: int = 12) -> list[int]:
    """K from 900-bit reals: the draws of `add_ball_noise`, evaluated afresh."""
    d, count = len(sums[0]), len(sums)
    pairs, odd = (d + 1) // 2, d % 2 == 0
    directions = start + count * (pairs + odd)
    out = []
    with mpmath.workprec(900):
        for v, row in enumerate(sums):
            product = mpmath.mpf(1)
            for i in range(pairs):
                product *= uniform(stream, start + v * pairs + i, extra)
            square = -2 * mpmath.log(product)
            if odd:
                square += normal(stream, start + count * pairs + v, extra) ** 2
            factor = mpmath.sqrt(square)
            for j, total in enumerate(row):
                eta = scale * factor * normal(stream, directions + v * d + j, extra)
                out.append(int(mpmath.nint(mpmath.ldexp(total + eta, -ball_shift(scale, d)))))
    return out


@pytest.mark.parametrize(("d", "count"), [(1, 120), (2, 80), (3, 50), (8, 20), (25, 6), (60, 3)])
def test_draws_are_correctly_rounded(d: int, count: int) -> None:
    rng = np.random.default_rng(d)
    for scale in (3.7e8, 1.0, 5e19):
        sums = rng.integers(-(2**61), 2**61, (count, d)) >> (0 if scale > 1 else 20)
        stream = seeded(100 + d)
        noisy = add_ball_noise(Wide.from_int64(sums), scale, stream, start=7)
        assert noisy.high.shape == (count, d)
        flat = Wide(noisy.high.reshape(-1), noisy.low.reshape(-1))
        assert flat.to_ints() == replayed(sums.tolist(), scale, stream, 7)
        assert stream.next == 7 + ball_draws(d, count)


def open_everything(monkeypatch: pytest.MonkeyPatch, first_bits: int) -> list[int]:
    """Every coordinate is left to balls, the first with a factor known to a few bits only; returns bits asked for.

    first_bits: 0 leaves the factor's double with its proved error.
    """
    asked: list[int] = []
    honest = vectors.Factor.enclose

    def enclose(self: vectors.Factor, bits: int) -> arb:
        asked.append(bits)
        return honest(self, bits)

    def rounds(words, series, begin, ends, scales, shifts, factors, errors, block, out):  # type: ignore[no-untyped-def]
        out[2][: len(words)] = np.arange(len(words))
        errors[:] = np.inf if first_bits else errors
        return len(words)

    monkeypatch.setattr(vectors.Factor, "enclose", enclose)
    monkeypatch.setattr(vectors, "_round_runs", rounds)
    if first_bits:
        monkeypatch.setattr(vectors, "FIRST_BITS", first_bits)
        monkeypatch.setattr(vectors, "_OUTRUN", 127 - first_bits)
    return asked


@pytest.mark.parametrize("first_bits", [0, 6, 20, 100])
def test_both_ways_of_deciding_agree(monkeypatch: pytest.MonkeyPatch, first_bits: int) -> None:
    """[N6], [N7]: from a factor known to 6 bits up, balls give what doubles gave, and refine the factor when needed."""
    rng = np.random.default_rng(5)
    for d in (1, 2, 7):
        sums = Wide.from_int64(rng.integers(-(2**61), 2**61, (40, d)))
        plain = add_ball_noise(sums, 3e8, seeded(d))
        with monkeypatch.context() as patch:
            asked = open_everything(patch, first_bits)
            careful = add_ball_noise(sums, 3e8, seeded(d))
        assert careful.equals(plain)
        assert len(asked) >= 40 * d if first_bits else len(asked) <= 1
        assert not first_bits or (max(asked) > first_bits) == (first_bits < 25)


def scripted_halfway(d: int, further: int, below: int, scale: float, nudge: int) -> tuple[Scripted, int]:
    """A stream whose first coordinate is a half-integer to 128 + 64 further bits, and which side it is on."""
    rng = np.random.default_rng(further * 1000 + d)
    draws = ball_draws(d)
    script = {
        i: (int.from_bytes(rng.bytes(16), "big"), [int.from_bytes(rng.bytes(8), "big") for _ in range(12)])
        for i in range(draws)
    }
    stream, pairs, odd = Scripted(script), (d + 1) // 2, d % 2 == 0
    with mpmath.workprec(900):
        product = functools.reduce(lambda p, i: p * uniform(stream, i, 12), range(pairs), mpmath.mpf(1))
        square = -2 * mpmath.log(product) + (normal(stream, pairs, 12) ** 2 if odd else 0)
        z = mpmath.ldexp(mpmath.mpf(2 * below + 1) / 2, ball_shift(scale, d)) / (scale * mpmath.sqrt(square))
        length = 128 + 64 * further
        p = int(mpmath.floor(mpmath.ldexp(mpmath.erfc(z / mpmath.sqrt(2)) / 2, length))) + nudge
    words = [(p >> (length - 128 - 64 * i)) & (2**64 - 1) for i in range(1, further + 1)]
    script[pairs + odd] = (p >> (length - 128), [*words, *([0] * 12)])
    return Scripted(script), below if nudge > 0 else below + 1


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("further", [1, 2, 4])
def test_a_coordinate_at_a_half_integer_is_decided_by_later_bits_of_its_own_and_of_the_factor(
    d: int, further: int
) -> None:
    for below in (3, 700_123):
        for nudge in (-1, 1):
            stream, expected = scripted_halfway(d, further, below, 1.3e9, nudge)
            noisy = add_ball_noise(Wide.zeros(d), 1.3e9, stream)
            assert noisy[0] == expected
            assert stream.extra_words[(d + 1) // 2 + (d % 2 == 0)] >= further  # its own
            assert stream.extra_words[0] >= further  # the factor's


@pytest.mark.parametrize("zeros", [39, 41, 64, 130])
def test_rare_uniforms_and_tiny_factors(zeros: int) -> None:
    """A huge factor (a uniform near 0) and a tiny one (near 1) are both drawn exactly."""
    for d in (1, 2, 3):
        rng = np.random.default_rng(zeros)
        script = {
            i: (int.from_bytes(rng.bytes(16), "big"), [int.from_bytes(rng.bytes(8), "big") for _ in range(12)])
            for i in range(ball_draws(d))
        }
        for first in ((1 << 128) - 1 >> zeros, (1 << 128) - 1 - ((1 << 127) - 1 >> zeros)):
            script[0] = (first, script[0][1])
            stream = Scripted(script)
            noisy = add_ball_noise(Wide.from_ints([2**60 + 1] * d), 1.3e9, stream)
            assert noisy.to_ints() == replayed([[2**60 + 1] * d], 1.3e9, Scripted(script), 0)


def noise_of(d: int, count: int, scale: float, seed: int) -> np.ndarray:
    noisy = add_ball_noise(Wide(np.zeros((count, d), np.int64), np.zeros((count, d), np.int64)), scale, seeded(seed))
    return np.ldexp(noisy.to_float(), ball_shift(scale, d)) / scale


@pytest.mark.parametrize("d", [1, 2, 3, 12])
def test_the_law_is_the_stated_one_and_no_other(d: int) -> None:
    """Length Gamma(d), direction uniform, both at false alarm 1e-9; a length 10% too small is rejected."""
    eta = noise_of(d, 40_000, 1.7e9, seed=d)
    length = np.linalg.norm(eta, axis=1)
    assert stats.kstest(length, "gamma", args=(d,)).pvalue > FALSE_ALARM
    assert stats.kstest(0.9 * length, "gamma", args=(d,)).pvalue < FALSE_ALARM
    if d == 1:
        assert stats.binomtest(int((eta > 0).sum()), eta.size).pvalue > FALSE_ALARM
        return
    cosine = eta[:, 0] / length
    law = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    assert stats.kstest(cosine, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(0.9 * cosine, law.cdf).pvalue < FALSE_ALARM
    # length and direction are independent
    assert stats.spearmanr(length, np.abs(cosine)).pvalue > FALSE_ALARM
    # one coordinate too small by 10% changes the direction, and is seen
    squeezed = eta * np.where(np.arange(d) == 0, 0.9, 1.0)
    assert stats.kstest(squeezed[:, 0] / np.linalg.norm(squeezed, axis=1), law.cdf).pvalue < FALSE_ALARM


def test_the_marginal_law_is_that_of_the_noise() -> None:
    for d in (1, 4, 30):
        x = noise_of(d, 30_000, 1.0, seed=40 + d)[:, 0]
        p = [1e-3, 0.025, 0.2]
        for chance in p:
            beyond = int((np.abs(x) > ball_isf(chance / 2, d)).sum())
            assert stats.binomtest(beyond, x.size, chance).pvalue > FALSE_ALARM
            fewer = int((np.abs(0.9 * x) > ball_isf(chance / 2, d)).sum())
            assert fewer < beyond


def test_positions_do_not_depend_on_blocks_and_are_not_used_twice() -> None:
    stream = seeded(3)
    add_ball_noise(Wide.zeros(5), 1.0, stream, start=4)
    with pytest.raises(UsageError, match="must not repeat"):
        add_ball_noise(Wide.zeros(5), 1.0, stream, start=4 + ball_draws(5) - 1)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError):
            add_ball_noise(Wide.zeros(2), bad, seeded(1))
    empty = add_ball_noise(Wide(np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64)), 1.0, seeded(1))
    assert empty.high.shape == (0, 3)


def test_a_million_coordinates_with_their_own_length() -> None:
    d = 10**6
    eta = noise_of(d, 1, 2.5e3, seed=9)[0]
    length = float(np.linalg.norm(eta))
    assert ball_square_isf(1 - 1e-9, d, d) < length**2 < ball_square_isf(1e-9, d, d)
    z = eta * math.sqrt(d) / length
    assert stats.kstest(z, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("z", [1e-12, 1e-3, 0.5, 1.0, 7.3, 25.0, 80.0, 1e4])
def test_the_quotient_of_bessel_functions_is_that_of_scipy(z):
    assert spherical_curve._bessel_quotient(z) == pytest.approx(float(special.kve(1, z) / special.kve(0, z)), rel=1e-13)
