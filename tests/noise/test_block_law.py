"""Pure noise for boxes: the best blocks, exact shares, every draw correctly rounded, the stated law and no other."""

from __future__ import annotations

import functools
import itertools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import ctx
from scipy import stats
from test_noise import FALSE_ALARM, Scripted, seeded
from test_spherical_law import digits, open_everything, uniform

from ellipsum.errors import UsageError
from ellipsum.noise import Stream, block_law, shared_factor
from ellipsum.noise.block_law import (
    Block,
    BlockLaw,
    Blocks,
    box_isf,
    box_isf_upper,
    box_sf,
    box_std,
    choose_blocks,
)
from ellipsum.noise.vector_runs import box_draws, box_runs, box_shifts
from ellipsum.noise.vectors import add_block_noise
from ellipsum.numerics.wide_integers import Wide
from ellipsum.privacy.gaussian_curve import certified_mu
from ellipsum.privacy.guarantee import Privacy


def add_box_noise(sums: Wide, sizes: list[int], scales: list[float], stream: Stream, start: int = 0) -> Wide:
    """K-norm noise of blocks of these sizes."""
    return add_block_noise(sums, box_runs(sizes, scales), stream, start)


DEMO = [110, 250000, 84, 150, 16, 170, 40000, 50]


# ---- Blocks ----


def partitions(items: list[int]) -> list[list[list[int]]]:
    if not items:
        return [[]]
    head, rest = items[0], items[1:]
    out = []
    for smaller in partitions(rest):
        out.append([[head], *smaller])
        out += [[*smaller[:i], [head, *smaller[i]], *smaller[i + 1 :]] for i in range(len(smaller))]
    return out


def least_error(groups: list[list[int]], widths: np.ndarray, importances: np.ndarray, epsilon: float) -> float:
    costs = [(len(g) + 1) * (len(g) + 2) / 3 * sum(float(importances[j] * widths[j] ** 2) for j in g) for g in groups]
    return sum(cost ** (1 / 3) for cost in costs) ** 3 / epsilon**2


def test_no_partition_is_better() -> None:
    rng = np.random.default_rng(1)
    for columns, spread in itertools.product((1, 2, 3, 5, 7), (0.1, 1.0, 3.0)):
        widths, importances = np.exp(spread * rng.normal(size=columns)), np.exp(spread * rng.normal(size=columns))
        chosen = choose_blocks(widths, importances, 0.7)
        best = min(least_error(p, widths, importances, 0.7) for p in partitions(list(range(columns))))
        assert chosen.error == pytest.approx(best, rel=1e-12)


def test_squared_error_against_the_elliptical_gaussian() -> None:
    """Equal widths, epsilon 1, delta 1e-6; and the eight columns of the demo."""
    mu = certified_mu(1.0, 1e-6)
    for d, gain in [(1, 8.92), (2, 8.92), (4, 7.14), (8, 4.76), (16, 2.80), (32, 1.53), (64, 0.80)]:
        error = choose_blocks(np.ones(d), np.ones(d), 1.0).error
        assert (d / mu) ** 2 / error == pytest.approx(gain, abs=0.0051)
    demo = choose_blocks(DEMO, np.ones(8), 1.0)
    assert demo.sizes == (2, 5, 1)
    assert [set(block.columns) for block in demo.blocks] == [{1, 6}, {0, 2, 3, 5, 7}, {4}]
    assert (sum(DEMO) / mu) ** 2 / demo.error == pytest.approx(5.59, abs=0.0051)
    assert math.sqrt(demo.error) / 20000 == pytest.approx(26.0, abs=0.05)


def test_shares_never_exceed_epsilon_and_lose_next_to_nothing() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        epsilon = float(np.exp(rng.normal() * 3))
        chosen = choose_blocks(np.exp(3 * rng.normal(size=9)), np.ones(9), epsilon)
        total = sum(Fraction(block.epsilon) for block in chosen.blocks)
        assert total <= Fraction(epsilon)
        assert total >= Fraction(epsilon) * (1 - Fraction(1, 2**46))
        for block in chosen.blocks:
            assert Fraction(block.scale(2**21)) * Fraction(block.epsilon) >= 2**21
    assert choose_blocks([3.0], [1.0], 0.1).blocks == (Block((0,), 0.1),)


def test_columns_without_width_or_importance_are_left_out() -> None:
    chosen = choose_blocks([1.0, 0.0, 2.0, 3.0], [1.0, 1.0, 0.0, 1.0], 1.0)
    assert sorted(chosen.columns) == [0, 3]
    for widths, importances in [([0.0, 1.0], [1.0, 0.0]), ([-1.0], [1.0]), ([1.0], [-1.0]), ([math.nan], [1.0])]:
        with pytest.raises(UsageError):
            choose_blocks(widths, importances, 1.0)


def test_extreme_widths_keep_a_positive_share() -> None:
    chosen = choose_blocks([1e300, 1.0, 1e-300, 5e-324], [1.0, 1e-200, 1.0, 1e-300], 1.0)
    assert sorted(chosen.columns) == [0, 1, 2, 3]
    assert all(0 < block.epsilon < 1.0000001 for block in chosen.blocks)
    assert all(math.isfinite(block.scale(2**45)) for block in chosen.blocks)


def test_very_many_columns() -> None:
    d = 200_000
    widths = 1 / np.arange(1, d + 1.0)
    chosen = choose_blocks(widths, np.ones(d), 1.0)
    assert len(chosen.columns) == d
    assert choose_blocks(np.ones(d), np.ones(d), 1.0).sizes == (d,)
    # coarse cuts lose next to nothing: the same problem with every cut allowed
    few = widths[:3000]
    coarse = choose_blocks(few, np.ones(3000), 1.0).error
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_law, "_FINE", 10**6)
        fine = choose_blocks(few, np.ones(3000), 1.0).error
    assert fine <= coarse < fine * (1 + 1e-4)


def test_blocks_travel_as_json_and_are_checked_on_arrival() -> None:
    chosen = choose_blocks(DEMO, np.ones(8), 0.3)
    fields = json.loads(json.dumps(chosen.to_dict()))
    assert Blocks.from_dict(fields) == chosen
    greedy = {**fields, "blocks": [*fields["blocks"], {"columns": [9], "epsilon": 1e-12}]}
    with pytest.raises(UsageError, match="exceed the total epsilon"):
        Blocks.from_dict(greedy)
    for blocks in (
        [{"columns": [0, 0], "epsilon": 0.1}],
        [{"columns": [0], "epsilon": 0.1}, {"columns": [0], "epsilon": 0.1}],
        [{"columns": [], "epsilon": 0.1}],
        [{"columns": [-1], "epsilon": 0.1}],
        [{"columns": [1.5], "epsilon": 0.1}],
        [{"columns": [1], "epsilon": 0.0}],
        [],
    ):
        with pytest.raises(UsageError):
            Blocks.from_dict({**fields, "blocks": blocks})
    with pytest.raises(UsageError):
        Blocks.from_dict({**fields, "more": 1})


# ---- Privacy ----


def test_a_law_proves_its_epsilon_for_its_moves_and_no_less() -> None:
    shares = Block((0, 2), 0.25), Block((1,), 0.5)
    law, moves = BlockLaw(Blocks(0.75, shares, 0.0), (400.0, 100.0)), np.array([90, 50, 100, 0])
    law.prove(Privacy.of_pure(0.75), Fraction(0), moves)
    with pytest.raises(UsageError, match="below what the guarantee needs"):
        law.prove(Privacy.of_pure(math.nextafter(0.75, 0)), Fraction(0), moves)
    for place in range(4):  # what moves by one more; the last has no noise
        further = np.array([100, 50, 100, 0])
        further[place] += 1
        with pytest.raises(UsageError, match="below what the guarantee needs"):
            law.prove(Privacy.of_pure(0.75), Fraction(0), further)


def norm(eta: np.ndarray, chosen: Blocks, scales: list[float]) -> np.ndarray:
    """-log density of the noise but for a constant, columns in the order of the blocks."""
    ends = np.cumsum(chosen.sizes)
    parts = np.split(eta, ends[:-1], axis=-1)
    return sum(np.abs(part).max(axis=-1) / scale for part, scale in zip(parts, scales, strict=True))


def worst_ratio(chosen: Blocks, scales: list[float], sensitivity: float) -> float:
    """The largest privacy loss seen over random outputs and the corners of the box of differences."""
    rng = np.random.default_rng(3)
    d = len(chosen.columns)
    outputs = rng.normal(size=(4000, d)) * np.repeat(scales, chosen.sizes) * 3
    # ties of a block's largest coordinates are where the loss is worst
    tied = np.repeat(rng.normal(size=(2000, len(scales))), chosen.sizes, axis=1) * 10 * np.repeat(scales, chosen.sizes)
    corners = [sensitivity * np.array(s) for s in itertools.product((-1.0, 1.0), repeat=d)]
    points = np.concatenate([outputs, tied])
    return max(float((norm(points - c, chosen, scales) - norm(points, chosen, scales)).max()) for c in corners)


def test_no_output_tells_more_than_epsilon() -> None:
    for epsilon in (0.3, 1.0, 5.0):
        chosen = choose_blocks(DEMO, np.ones(8), epsilon)
        scales = [block.scale(2**21) for block in chosen.blocks]
        assert epsilon * 0.999 < worst_ratio(chosen, scales, 2.0**21) <= epsilon * (1 + 1e-9)
        assert worst_ratio(chosen, [0.9 * scale for scale in scales], 2.0**21) > 1.1 * epsilon


@pytest.mark.slow
def test_published_integers_obey_epsilon() -> None:
    """Two neighbors' outputs of the real program, in cells: frequencies within e^epsilon, at false alarm 1e-9."""
    epsilon, count, top = 1.0, 400_000, 2**21
    scale = Block((0, 1), epsilon).scale(top)
    shift = int(box_shifts([scale], [2])[0])

    def cells(sums: list[int], seed: int, factor: float) -> np.ndarray:
        start = Wide.from_int64(np.tile(np.array(sums, np.int64), (count, 1)))
        values = np.ldexp(add_box_noise(start, [2], [factor * scale], seeded(seed)).to_float(), shift) / scale
        edges = [-2.0, 0.0, 1.0, 1.0 + 1e-9, 3.0]
        return np.bincount(6 * np.searchsorted(edges, values[:, 0]) + np.searchsorted(edges, values[:, 1]))

    for factor, private in ((1.0, True), (0.6, False)):
        here, there = cells([0, 0], 1, factor), cells([top, top], 2, factor)
        size = max(here.size, there.size)
        here, there = np.pad(here, (0, size - here.size)), np.pad(there, (0, size - there.size))
        # under epsilon, of the outputs in a cell the first data set's share is at most e^eps / (1 + e^eps)
        odds = math.exp(epsilon) / (1 + math.exp(epsilon))
        p = [stats.binomtest(int(a), int(a + b), odds, "greater").pvalue for a, b in zip(here, there, strict=True) if a]
        assert (min(p) > FALSE_ALARM / 36) == private


# ---- The law of a coordinate ----


def box_tail(x: float, size: int) -> mpmath.mpf:
    """P[coordinate > x scale]."""
    with mpmath.workdps(60):
        k = mpmath.mpf(size)
        first = mpmath.gammainc(k + 1, x, regularized=True)
        return (first - x / k * mpmath.gammainc(k, x, regularized=True)) / 2


@pytest.mark.parametrize("size", [1, 2, 5, 40, 1000])
def test_the_tail_of_a_coordinate(size: int) -> None:
    for share in (0.0, 0.2, 1.0, 3.0, 10.0):
        x = share * box_std(size)
        exact = box_tail(x, size)
        assert box_sf(x, size) == pytest.approx(float(exact), rel=1e-9, abs=0)
    for p in (1e-200, 1e-12, 1e-3, 0.025, 0.4):
        x = box_isf_upper(p, size)
        assert box_tail(x, size) <= p
        assert box_tail(x * (1 - 1e-6), size) > p
        assert box_isf(p, size) == pytest.approx(x, rel=1e-6)
    assert box_isf(0.5, size) == 0.0
    assert box_isf(0.975, size) == pytest.approx(-box_isf(0.025, size), rel=1e-12)


def test_one_column_is_laplace() -> None:
    assert box_std(1) == pytest.approx(math.sqrt(2))
    assert box_sf(2.5, 1) == pytest.approx(math.exp(-2.5) / 2, rel=1e-14)
    assert box_isf(0.025, 1) == pytest.approx(math.log(20), rel=1e-12)


# ---- Drawing ----


def signed_uniform(stream: Stream, index: int, extra: int) -> mpmath.mpf:
    value, length = digits(stream, index, extra)
    magnitude = mpmath.ldexp(2 * (value & ((1 << (length - 1)) - 1)) + 1, -length)
    return -magnitude if value >> (length - 1) else magnitude


def replayed(rows: list[list[int]], sizes: list[int], scales: list[float], stream: Stream, start: int) -> list[int]:
    """K from 900-bit reals: the draws of `add_box_noise`, evaluated afresh."""
    shifts, out, place = box_shifts(scales, sizes).tolist(), [], start
    directions = start + len(rows) * (sum(sizes) + len(sizes))
    with mpmath.workprec(900):
        for row in rows:
            columns = iter(row)
            for size, scale, shift in zip(sizes, scales, shifts, strict=True):
                product = functools.reduce(lambda p, i: p * uniform(stream, i, 12), range(place, place + size + 1), 1)
                radius, place = -mpmath.log(product), place + size + 1
                for total in itertools.islice(columns, size):
                    eta = scale * radius * signed_uniform(stream, directions, 12)
                    directions += 1
                    out.append(int(mpmath.nint(mpmath.ldexp(total + eta, -shift))))
    return out


@pytest.mark.parametrize(("sizes", "count"), [([1], 150), ([2, 1], 80), ([2, 5, 1], 30), ([40], 5), ([1, 1, 1], 40)])
def test_draws_are_correctly_rounded(sizes: list[int], count: int) -> None:
    rng = np.random.default_rng(sum(sizes))
    for level in (7.3e8, 2.0, 4e19):
        scales = [level * (1 + i) ** 3 for i in range(len(sizes))]
        rows = rng.integers(-(2**61), 2**61, (count, sum(sizes))) >> (0 if level > 2 else 20)
        stream = seeded(11)
        noisy = add_box_noise(Wide.from_int64(rows), sizes, scales, stream, start=3)
        flat = Wide(noisy.high.reshape(-1), noisy.low.reshape(-1))
        assert flat.to_ints() == replayed(rows.tolist(), sizes, scales, stream, 3)
        assert stream.next == 3 + box_draws(sizes, count)


@pytest.mark.parametrize("first_bits", [0, 6, 20, 100])
def test_both_ways_of_deciding_agree(monkeypatch: pytest.MonkeyPatch, first_bits: int) -> None:
    rng = np.random.default_rng(6)
    rows = Wide.from_int64(rng.integers(-(2**61), 2**61, (30, 8)))
    scales = [3e8, 7e9, 1e6]
    plain = add_box_noise(rows, [2, 5, 1], scales, seeded(4))
    asked = open_everything(monkeypatch, first_bits)
    assert add_box_noise(rows, [2, 5, 1], scales, seeded(4)).equals(plain)
    assert len(asked) >= 240 if first_bits else len(asked) <= 1
    assert not first_bits or (max(asked) > first_bits) == (first_bits < 25)


def scripted(draws: int, seed: int) -> dict[int, tuple[int, list[int]]]:
    rng = np.random.default_rng(seed)
    words = lambda: [int.from_bytes(rng.bytes(8), "big") for _ in range(12)]  # noqa: E731
    return {i: (int.from_bytes(rng.bytes(16), "big"), words()) for i in range(draws)}


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("further", [1, 2, 5])
def test_a_coordinate_at_a_half_integer_is_decided_by_later_bits_of_its_own_and_of_the_radius(
    size: int, further: int
) -> None:
    scale = 1.3e9
    shift = int(box_shifts([scale], [size])[0])
    for below, nudge in itertools.product((3, 400_123), (-1, 1)):
        script = scripted(box_draws([size]), 10 * size + further)
        stream = Scripted(script)
        length = 128 + 64 * further
        with mpmath.workprec(900):
            product = functools.reduce(lambda p, i: p * uniform(stream, i, 12), range(size + 1), mpmath.mpf(1))
            u = mpmath.ldexp(mpmath.mpf(2 * below + 1) / 2, shift) / (-scale * mpmath.log(product))
            p = int(mpmath.floor(mpmath.ldexp(u, length - 1))) + nudge
        assert p < 1 << (length - 1)
        words = [(p >> (length - 128 - 64 * i)) & (2**64 - 1) for i in range(1, further + 1)]
        script[size + 1] = (p >> (length - 128), [*words, *([0] * 12)])
        stream = Scripted(script)
        noisy = add_box_noise(Wide.zeros(size), [size], [scale], stream)
        assert noisy[0] == (below + 1 if nudge > 0 else below)
        assert stream.extra_words[size + 1] >= further  # the direction's own bits
        assert stream.extra_words[0] >= further  # the radius's


@pytest.mark.parametrize("zeros", [39, 40, 41, 64, 128, 200])
def test_rare_uniforms_make_large_radii_exactly(zeros: int) -> None:
    script = scripted(box_draws([2]), zeros)
    value = ((1 << 320) - 1) >> zeros
    script[1] = (value >> 192, [(value >> s) & (2**64 - 1) for s in (128, 64, 0)] + script[1][1])
    noisy = add_box_noise(Wide.from_ints([5, -(2**60)]), [2], [1.3e9], Scripted(script))
    assert noisy.to_ints() == replayed([[5, -(2**60)]], [2], [1.3e9], Scripted(script), 0)


def test_radii_in_doubles_are_within_their_error() -> None:
    """[N7]: against balls, for few and many uniforms; and the bound is not idle."""
    worst = 0.0
    for uniforms, count in ((1, 400), (2, 300), (9, 100), (300, 10), (40_000, 1)):
        stream = seeded(uniforms)
        sums, errors = shared_factor.exponential_sums(stream, 5, np.full(count, uniforms, np.int64))
        for i in range(count):
            ball = shared_factor.Factor(stream, 5 + i * uniforms, uniforms).enclose(100)
            with ctx.workprec(200):
                off = abs(float((ball - float(sums[i])).mid()))
            assert off <= errors[i] < 2.0**-49 * (uniforms + 2 + sums[i])
            worst = max(worst, off / errors[i])
    assert worst > 0.05


def test_positions_blocks_and_refusals() -> None:
    rows = Wide.from_int64(np.arange(40_000, dtype=np.int64) * 2**30)
    whole = add_box_noise(rows, [30_000, 10_000], [1e9, 1e9], seeded(8))
    # a chunk boundary inside a block changes nothing: the last coordinates replayed alone agree
    factor = shared_factor.Factor(seeded(8), 30_001, 10_001).enclose(100)
    last = seeded(8)
    shift = int(box_shifts([1e9], [10_000])[0])
    with mpmath.workprec(400):
        radius = mpmath.mpf(factor.mid().str(40, radius=False))
        for j in (39_998, 39_999):
            eta = 1e9 * radius * signed_uniform(last, 40_002 + j, 0)
            assert whole[j] == int(mpmath.nint(mpmath.ldexp(j * 2**30 + eta, -shift)))
    stream = seeded(1)
    add_box_noise(Wide.zeros(3), [2, 1], [1.0, 1.0], stream)
    with pytest.raises(UsageError, match="must not repeat"):
        add_box_noise(Wide.zeros(3), [2, 1], [1.0, 1.0], stream)
    for sizes, scales in [([2], [1.0]), ([2, 1], [1.0]), ([3, 0], [1.0, 1.0]), ([3], [0.0]), ([3], [math.inf])]:
        with pytest.raises(UsageError):
            add_box_noise(Wide.zeros(3), sizes, scales, seeded(1))
    empty = Wide(np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64))
    assert add_box_noise(empty, [3], [1.0], seeded(1)).high.shape == (0, 3)


def noise_of(size: int, count: int, scale: float, seed: int) -> np.ndarray:
    zeros = Wide(np.zeros((count, size), np.int64), np.zeros((count, size), np.int64))
    noisy = add_box_noise(zeros, [size], [scale], seeded(seed))
    return np.ldexp(noisy.to_float(), int(box_shifts([scale], [size])[0])) / scale


@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_law_is_the_stated_one_and_no_other(size: int) -> None:
    """The largest coordinate is Gamma(k), the others uniform below it; 10% less radius or direction is rejected."""
    eta = noise_of(size, 40_000, 1.7e9, seed=size)
    largest = np.abs(eta).max(axis=1)
    assert stats.kstest(largest, "gamma", args=(size,)).pvalue > FALSE_ALARM
    assert stats.kstest(0.9 * largest, "gamma", args=(size,)).pvalue < FALSE_ALARM
    assert stats.binomtest(int((eta > 0).sum()), eta.size).pvalue > FALSE_ALARM
    if size == 1:
        return
    at = np.abs(eta).argmax(axis=1)
    assert stats.chisquare(np.bincount(at, minlength=size)).pvalue > FALSE_ALARM
    others = np.delete(eta.reshape(-1), np.arange(eta.shape[0]) * size + at) / np.repeat(largest, size - 1)
    assert stats.kstest(others, "uniform", args=(-1, 2)).pvalue > FALSE_ALARM
    assert stats.kstest(0.9 * others, "uniform", args=(-1, 2)).pvalue < FALSE_ALARM
    squeezed = eta * np.where(np.arange(size) == 0, 0.9, 1.0)
    at = np.abs(squeezed).argmax(axis=1)
    assert stats.chisquare(np.bincount(at, minlength=size)).pvalue < FALSE_ALARM


def test_the_marginal_law_is_that_of_the_noise() -> None:
    for size in (1, 4, 20):
        x = noise_of(size, 30_000, 1.0, seed=50 + size)[:, 0]
        assert np.var(x) / box_std(size) ** 2 == pytest.approx(1.0, abs=6 * math.sqrt(5 / x.size))
        for chance in (1e-3, 0.025, 0.2):
            beyond = int((np.abs(x) > box_isf(chance / 2, size)).sum())
            assert stats.binomtest(beyond, x.size, chance).pvalue > FALSE_ALARM
