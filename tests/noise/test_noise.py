"""Noise: every draw correctly rounded, the error bound proved in balls, the stated law and no other."""

from __future__ import annotations

import copy
import itertools
import math
import multiprocessing
import pickle
import types
from collections.abc import Iterator
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from flint import arb
from scipy import stats

from ellipsum import noise
from ellipsum.errors import UsageError
from ellipsum.noise import Stream, add_noise, add_noise_exact, gaussian, public_random, shift_for
from ellipsum.noise import quantile_table as _quantile
from ellipsum.noise.stream import Fill, keystream
from ellipsum.numerics.wide_integers import Wide

UNIT = 2.0**-53
SIGN = 1 << 63
FALSE_ALARM = 1e-9
STD = 1.37e9


def seeded(seed: int) -> Stream:
    return Stream.open(np.random.default_rng(seed))


class Scripted(Stream):
    """A stream whose draws are written out: {index: (128 bits, further words)}."""

    def __init__(self, draws: dict[int, tuple[int, list[int]]]) -> None:
        super().__init__(bytes(32), secure=False)
        self.draws = draws
        self.extra_words: dict[int, int] = {}

    def draws_from(self, start: int) -> Fill:
        places = itertools.count(start)

        def fill(out: np.ndarray) -> None:
            for row, place in zip(out, places, strict=False):
                row[:] = divmod(self.draws[place][0], 2**64)

        return fill

    def more(self, index: int) -> Iterator[int]:
        for count, word in enumerate(self.draws[index][1], start=1):
            self.extra_words[index] = count
            yield word


# ---- The reference: forward tail probabilities, never the inverse that the code uses ----


def is_correctly_rounded(k: int, value: Fraction | int, std: float, shift: int, bits: int, length: int) -> bool:
    """Whether |(value + std z) / 2^shift - K| < 1/2 for every z that the drawn bits allow."""
    negative, tail = bits >> (length - 1), bits & ((1 << (length - 1)) - 1)
    step = Fraction(2) ** shift
    ends = [(Fraction(2 * k + side, 2) * step - value) / Fraction(std) for side in (-1, 1)]
    inner, outer = (-ends[1], -ends[0]) if negative else (ends[0], ends[1])
    root, unit = arb(2).sqrt(), arb(2) ** (1 - length)

    def tail_above(x: Fraction) -> arb:
        return (arb(flint.fmpq(x.numerator, x.denominator)) / root).erfc()

    return bool(tail_above(outer) < tail * unit) and bool((tail + 1) * unit < tail_above(inner))


def check_replay(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift = shift_for(STD)
    sums = Wide.from_int64(rng.integers(-(2**62), 2**62, count))
    stream = seeded(seed)
    noisy, words = add_noise(sums, STD, shift, stream), stream.words(0, count)
    numerator, denominator = STD.as_integer_ratio()
    with flint.ctx.workprec(128):
        # (K ± 1/2) 2^shift - S over std sqrt(2): integers over one constant, for speed.
        factor = arb(denominator) / (numerator * arb(2).sqrt() * 2)
        unit = arb(2) ** -127
        for j in range(count):
            first, second = int(words[j, 0]), int(words[j, 1])
            tail = ((first & (SIGN - 1)) << 64) | second
            middle = (noisy[j] << (shift + 1)) - (sums[j] << 1)
            if first & SIGN:
                middle = -middle
            outer = (factor * (middle + (1 << shift))).erfc()
            inner = (factor * (middle - (1 << shift))).erfc()
            assert outer < tail * unit, j
            assert (tail + 1) * unit < inner, j


def test_fifty_thousand_draws_are_correctly_rounded() -> None:
    check_replay(50_000, seed=1)


@pytest.mark.slow
def test_a_million_draws_are_correctly_rounded() -> None:
    check_replay(1_000_000, seed=2)


@pytest.mark.parametrize("shift", [*range(-40, 121, 8), -1, 1, 15, 47, 49, 95, 96, 120])
def test_every_shift_with_large_and_negative_sums(shift: int) -> None:
    rng = np.random.default_rng(shift + 1000)
    std = math.ldexp(1.0 + rng.random(), shift + 20)
    assert shift_for(std) == shift
    top = min(90, 105 + shift)  # K must fit: |K| < 2^110
    sums = [int.from_bytes(rng.bytes(16), "big") % 2 ** (top + 1) - 2**top for _ in range(40)]
    sums += [0, 1, -1, 2**top, -(2**top), 2**top - 1]
    stream = seeded(shift + 2000)
    noisy, words = add_noise(Wide.from_ints(sums), std, shift, stream), stream.words(0, len(sums))
    with flint.ctx.workprec(256):
        for j, value in enumerate(sums):
            bits = int(words[j, 0]) << 64 | int(words[j, 1])
            assert is_correctly_rounded(noisy[j], value, std, shift, bits, 128)


@pytest.mark.parametrize("std", [5e-324, 1e-300, 1.7e308])
def test_extreme_stds_scale_exactly(std: float) -> None:
    mantissa = math.frexp(std)[0]
    noisy = add_noise(Wide.zeros(20), std, shift_for(std), seeded(3))
    assert noisy.equals(add_noise(Wide.zeros(20), mantissa, shift_for(mantissa), seeded(3)))


def test_the_scale_stays_within_its_octave() -> None:
    for std in (1.0, math.nextafter(1.0, 0), math.nextafter(1.0, 2), 3.0, 1e300, 5e-324):
        assert 2**20 <= math.ldexp(std, -shift_for(std)) < 2**21


# ---- Rationals ----


def test_rationals_are_correctly_rounded() -> None:
    rng = np.random.default_rng(5)
    values = [Fraction(int(p), int(q)) for p, q in rng.integers(1, 2**62, (200, 2))]
    values = [value * (-1) ** j * 2 ** (j % 70) for j, value in enumerate(values)]
    for std in (0.37, 11.0, 1e30):
        shift, stream = shift_for(std), seeded(6)
        noisy, words = add_noise_exact(values, std, shift, stream, start=9), stream.words(9, len(values))
        with flint.ctx.workprec(256):
            for j, value in enumerate(values):
                bits = int(words[j, 0]) << 64 | int(words[j, 1])
                assert is_correctly_rounded(noisy[j], value, std, shift, bits, 128)


def test_integers_give_the_same_result_through_both_doors() -> None:
    values = np.random.default_rng(7).integers(-(2**60), 2**60, 300)
    for std in (3e-5, 1.0, STD, 1e20):
        wide = add_noise(Wide.from_int64(values // 2**20), std, shift_for(std), seeded(8))
        exact = add_noise_exact([int(v) // 2**20 for v in values], std, shift_for(std), seeded(8))
        assert wide.equals(exact)


# ---- Draws that doubles cannot decide ----


def halfway_bits(value: Fraction, std: float, shift: int, half: Fraction, digits: int) -> tuple[bool, int]:
    """(sign, first `digits` bits of p) of the draw for which (value + std z) / 2^shift is exactly half."""
    with mpmath.workprec(digits + 200):
        exact = (half * Fraction(2) ** shift - value) / Fraction(std)
        z = mpmath.mpf(exact.numerator) / exact.denominator
        return z < 0, int(mpmath.floor(mpmath.ldexp(mpmath.erfc(abs(z) / mpmath.sqrt(2)) / 2, digits)))


@pytest.mark.parametrize("further", [1, 2, 5])
@pytest.mark.parametrize("exactly", [False, True])
def test_a_draw_at_a_half_integer_is_decided_by_its_later_bits(further: int, exactly: bool) -> None:
    shift, digits = shift_for(STD), 128 + 64 * further
    for below, value in itertools.product((-2_000_000, -3, 0, 1, 700_123), (0, 5, -(2**61) - 1)):
        floor = value >> shift
        half = Fraction(2 * (floor + below) + 1, 2)
        negative, p = halfway_bits(Fraction(value), STD, shift, half, digits)
        results = []
        for nudge in (-1, 1):
            bits = (p + nudge) | (negative << (digits - 1))
            words = [(bits >> (digits - 128 - 64 * i)) & (2**64 - 1) for i in range(1, further + 1)]
            stream = Scripted({4: (bits >> (digits - 128), words)})
            if exactly:
                noisy = add_noise_exact([Fraction(value)], STD, shift, stream, start=4)
            else:
                noisy = add_noise(Wide.from_ints([value]), STD, shift, stream, start=4)
            assert stream.extra_words == {4: further}
            results.append(noisy[0] - floor)
        # A larger tail probability is a smaller |z|: just below the half integer if z > 0, just above if not.
        assert results == ([below, below + 1] if negative else [below + 1, below])


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("zeros", [24, 25, 60, 64, 100, 126, 127, 128, 150, 300])
def test_tiny_tail_probabilities_draw_as_many_bits_as_they_need(zeros: int, negative: bool) -> None:
    length = 64 * (zeros // 64 + 3)
    tail = 0b1011 << (length - zeros - 4)
    tail |= int.from_bytes(np.random.default_rng(zeros).bytes(length // 8), "big") >> (zeros + 8)
    bits = tail | negative << (length - 1)
    words = [(bits >> shift) & (2**64 - 1) for shift in range(length - 192, -1, -64)]
    shift, value = shift_for(STD), -(2**61) + 12345
    stream = Scripted({0: (bits >> (length - 128), words)})
    noisy = add_noise(Wide.from_ints([value]), STD, shift, stream)
    with flint.ctx.workprec(length + 128):
        assert is_correctly_rounded(noisy[0], value, STD, shift, bits, length)
    if zeros > 100:
        assert stream.extra_words[0] >= 1


def test_both_ways_of_deciding_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """[N3]: with a margin so wide that every draw is left open, balls give what doubles gave."""
    taken = []
    decide = gaussian._decide

    def counted(fraction: Fraction, scale: float, stream: Stream, index: int) -> int:
        taken.append(index)
        return decide(fraction, scale, stream, index)

    monkeypatch.setattr(gaussian, "_decide", counted)
    count, shift = 5000, shift_for(STD)
    sums = Wide.from_int64(np.random.default_rng(9).integers(-(2**62), 2**62, count))
    plain = add_noise(sums, STD, shift, seeded(10))
    assert taken == []  # the generator is fixed; expected 0.002 of them
    kernel = _quantile.round_noisy.py_func
    all_open = types.FunctionType(kernel.__code__, {**kernel.__globals__, "MARGIN": 2.0**-20})
    monkeypatch.setattr(_quantile, "round_noisy", all_open)
    careful = add_noise(sums, STD, shift, seeded(10))
    assert taken == list(range(count))
    assert careful.equals(plain)


# ---- The table's error [N4] ----

# Roundings on the way of coefficient k through the kernel's expression, counted in docs/proofs/noise.md.
ROUNDINGS = (2, 3, 5, 6, 8, 9, 11, 12, 12, 13)


def series_balls(z: arb, half_width: arb, degree: int) -> list[arb]:
    """Taylor coefficients of z(p) in x, p = middle + half_width x, for every z in a ball."""
    series = [z, -half_width * (2 * arb.pi()).sqrt() * (z * z / 2).exp()]
    for k in range(degree - 1):
        slope = [(i + 1) * series[i + 1] for i in range(k + 1)]
        squares = [sum((slope[i] * slope[m - i] for i in range(m + 1)), arb(0)) for m in range(k + 1)]
        product = sum((series[i] * squares[k - i] for i in range(k + 1)), arb(0))
        series.append(product / ((k + 1) * (k + 2)))
    return series


def proved_row_error(row: int, line: np.ndarray) -> tuple[float, float]:
    """Upper bounds over a row, in units of 2^-53 (1 + z): on |kernel z - true z|, and on all of [N3]."""
    octave, step = divmod(row, _quantile.ROWS_PER_OCTAVE)
    half_width = arb(2) ** -(octave + 8)

    def quantile(position: int) -> arb:
        return arb(2).sqrt() * (2 * half_width * (64 + 2 * step + position)).erfcinv()

    top, bottom = quantile(0), quantile(2)
    exact = series_balls(quantile(1), half_width, _quantile.DEGREE)
    whole_row = series_balls(top.union(bottom), half_width, _quantile.DEGREE + 1)
    coefficients = sum((abs(arb(float(c)) - e) for c, e in zip(line, exact, strict=True)), arb(0))
    truncation = abs(whole_row[-1])
    rounding = sum((abs(arb(float(c))) * n for c, n in zip(line, ROUNDINGS, strict=True)), arb(0))
    argument = abs(whole_row[1]) * (arb(2) ** -53 + arb(2) ** -57)
    total = coefficients + truncation + rounding * UNIT * (1 + 1e-9) + argument
    alone = total / (UNIT * (1 + bottom))
    # The product and the sum round once each, UNIT z apiece; all else is below 2^-68 [N3].
    later = 2 * top / (1 + top) + arb(2) ** -68 / UNIT
    return float(alone.abs_upper()), float((alone + later).abs_upper())


def test_the_margin_is_proved_for_every_row() -> None:
    """[N4]: table, truncation, evaluation and argument together, then the later roundings of [N3]."""
    series = _quantile.table()
    assert series.shape == (_quantile.OCTAVES * _quantile.ROWS_PER_OCTAVE, len(ROUNDINGS))
    with flint.ctx.workprec(160):
        proved = np.array([proved_row_error(row, line) for row, line in enumerate(series)])
    alone, together = proved.max(axis=0)
    assert alone < 2.4
    assert together < 4.1
    assert together * UNIT * 120 < _quantile.MARGIN


def grid_words() -> tuple[np.ndarray, list[int]]:
    """Tail probabilities over every row: both ends, and points between; as words and as 127-bit integers."""
    rng = np.random.default_rng(11)
    tails = []
    for octave, step in itertools.product(range(_quantile.OCTAVES), range(_quantile.ROWS_PER_OCTAVE)):
        low, width = (32 + step) << (121 - octave), 1 << (121 - octave)
        inside = [low + int(rng.integers(0, 2**62)) * width // 2**62 for _ in range(14)]
        tails += [low, low + width - 1, *inside]
    return np.array([(t >> 64, t & (2**64 - 1)) for t in tails], np.uint64), tails


def test_kernel_error_on_a_dense_grid() -> None:
    """Measured against balls over every row; the proof allows 2.4, the margin 512 of these units."""
    words, tails = grid_words()
    z = np.empty(len(tails))
    _quantile.normals(words, _quantile.table(), z)
    with flint.ctx.workprec(160):
        exact = [arb(2).sqrt() * (arb(t) * arb(2) ** -127).erfcinv() for t in tails]
        errors = np.array([abs(float(e - arb(float(v)))) for e, v in zip(exact, z, strict=True)])
    assert np.max(errors / (1 + z)) < 2.4 * UNIT  # what is proved above; 2.08 measured
    words[:, 0] |= np.uint64(SIGN)
    mirrored = np.empty(len(tails))
    _quantile.normals(words, _quantile.table(), mirrored)
    assert np.array_equal(mirrored, -z)


# ---- The law ----


def standardized(stream: Stream, std: float, count: int) -> np.ndarray:
    shift = shift_for(std)
    sums = np.random.default_rng(12).integers(-(2**50), 2**50, count)
    noisy = add_noise(Wide.from_int64(sums), std, shift, stream)
    offsets = [(k << shift) - int(s) for k, s in zip(noisy.to_ints(), sums, strict=True)]
    return np.array(offsets, np.float64) / std


def law_p_values(z: np.ndarray) -> tuple[float, float]:
    squares = float(np.sum(z * z))
    spread = 2 * min(stats.chi2.cdf(squares, z.size), stats.chi2.sf(squares, z.size))
    return float(stats.kstest(z, "norm").pvalue), float(spread)


@pytest.mark.parametrize("secure", [False, True])
def test_the_law_is_the_stated_normal_and_no_other(secure: bool) -> None:
    """False alarm 5e-10 (two tests at 2.5e-10); noise 10% smaller or larger is rejected."""
    stream = Stream.open() if secure else seeded(13)
    z = standardized(stream, STD, 100_000)
    assert min(law_p_values(z)) > FALSE_ALARM / 4
    assert max(law_p_values(0.9 * z)) < FALSE_ALARM / 4
    assert max(law_p_values(1.1 * z)) < FALSE_ALARM / 4


@pytest.mark.parametrize("secure", [False, True])
def test_draws_at_different_positions_are_independent(secure: bool) -> None:
    """Lagged products of centered functions in [-1, 1] are martingale differences: Azuma, 8 means."""
    z = standardized(Stream.open() if secure else seeded(14), STD, 100_000)
    uniform = 2 * stats.norm.cdf(z) - 1
    limit = math.sqrt(2 * math.log(2 * 8 / FALSE_ALARM) / (z.size - 1000))
    for f, lag in itertools.product((uniform, 2 * np.abs(uniform) - 1), (1, 2, 3, 1000)):
        assert abs(np.mean(f[lag:] * f[:-lag])) < limit
    assert abs(np.mean(uniform * uniform)) > limit  # the test sees a repeated draw


# ---- The stream ----


def test_noise_depends_on_key_and_position_alone() -> None:
    count, shift = 40_000, shift_for(STD)  # over several blocks
    rng = np.random.default_rng(15)
    sums = Wide.from_int64(rng.integers(-(2**62), 2**62, count))
    together = add_noise(sums, STD, shift, seeded(16), start=7)
    stream = seeded(16)
    for begin, stop in ((30_000, count), (0, 1), (1, 16_390), (16_390, 30_000)):
        part = add_noise(Wide(sums.high[begin:stop], sums.low[begin:stop]), STD, shift, stream, 7 + begin)
        assert part.equals(Wide(together.high[begin:stop], together.low[begin:stop]))
    moved = add_noise(sums + Wide.from_ints([3 << shift] * count), STD, shift, seeded(16), start=7)
    assert moved.equals(together + Wide.from_ints([3] * count))
    assert not together.equals(add_noise(sums, STD, shift, seeded(17), start=7))
    assert not together.equals(add_noise(sums, STD, shift, seeded(16), start=8))


def test_blocks_of_rows_keep_their_shape() -> None:
    values = np.random.default_rng(18).integers(-(2**60), 2**60, (30, 7))
    shift = shift_for(STD)
    flat = add_noise(Wide.from_int64(values.reshape(-1)), STD, shift, seeded(19))
    block = add_noise(Wide.from_int64(values), STD, shift, seeded(19))
    assert block.high.shape == block.low.shape == (30, 7)
    assert flat.equals(Wide(block.high.reshape(-1), block.low.reshape(-1)))
    before = values.copy()
    add_noise(Wide.from_int64(np.asfortranarray(values)), STD, shift, seeded(19))
    assert np.array_equal(values, before)
    assert len(add_noise(Wide.zeros(0), STD, shift, seeded(19))) == 0


def test_stream_is_aes_256_in_counter_mode() -> None:
    """NIST SP 800-38A, F.5.5: first counter block and its output block."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    words = np.empty((1, 2), np.uint64)
    keystream(key, 0xF0F1F2F3F4F5F6F7, 0xF8F9FAFBFCFDFEFF, words)
    assert words.astype("<u8").tobytes().hex() == "0bdf7df1591716335e9a8b15c860c502"


def test_lanes_do_not_meet() -> None:
    stream = seeded(20)
    draws = set(stream.words(0, 1000).reshape(-1).tolist())
    for index in range(5):
        more = list(itertools.islice(stream.more(index), 200))
        assert not draws.intersection(more)
        draws.update(more)
    assert len(draws) == 3000
    assert np.array_equal(stream.words(500, 7), stream.words(0, 507)[500:])
    assert list(itertools.islice(stream.more(3), 5)) == list(itertools.islice(stream.more(3), 5))


def test_a_position_is_never_used_twice() -> None:
    stream, shift = seeded(21), shift_for(STD)
    add_noise(Wide.zeros(10), STD, shift, stream)
    for start in (0, 9):
        with pytest.raises(UsageError, match="start must not repeat"):
            add_noise(Wide.zeros(10), STD, shift, stream, start)
    assert stream.next == 10
    add_noise(Wide.zeros(5), STD, shift, stream, 50)
    add_noise(Wide.zeros(40), STD, shift, stream, 10)
    with pytest.raises(UsageError, match="start must not repeat"):
        add_noise(Wide.zeros(1), STD, shift, stream, 54)
    assert stream.next == 55


def test_a_stream_cannot_be_copied_pickled_or_shown() -> None:
    stream = Stream.open()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            pickle.dumps(stream, protocol)
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            duplicate(stream)
    assert repr(stream) == "Stream(secure=True)"
    assert not hasattr(stream, "__dict__")


def _claim(stream: Stream, answers: multiprocessing.Queue[str]) -> None:
    try:
        stream.claim(0, 1)
        answers.put("drawn")
    except UsageError as error:
        answers.put(str(error))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_is_refused() -> None:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_claim, args=(Stream.open(), answers))
    process.start()
    answer = answers.get(timeout=30)
    process.join()
    assert "another process" in answer


def test_every_secure_stream_has_its_own_key_and_a_generator_is_marked() -> None:
    first, second = Stream.open(), Stream.open()
    assert first.secure
    assert second.secure
    assert not np.array_equal(first.words(0, 4), second.words(0, 4))
    rng = np.random.default_rng(22)
    third, fourth = Stream.open(rng), Stream.open(rng)
    assert not third.secure
    assert not np.array_equal(third.words(0, 4), fourth.words(0, 4))
    assert np.array_equal(third.words(0, 4), seeded(22).words(0, 4))


def test_a_secure_stream_repeats_no_word_and_reads_the_same_twice() -> None:
    stream = Stream.open()
    whole = stream.words(0, 5000)
    assert np.array_equal(stream.words(40, 100), whole[40:140])
    assert len({*whole.reshape(-1).tolist(), *itertools.islice(stream.more(7), 6)}) == whole.size + 6
    assert list(itertools.islice(stream.more(3), 5)) == list(itertools.islice(stream.more(3), 5))


@pytest.mark.parametrize("count", [1, 1000])
def test_noise_of_a_secure_stream_is_correctly_rounded(count: int) -> None:
    stream, shift = Stream.open(), shift_for(STD)
    noisy, words = add_noise(Wide.zeros(count), STD, shift, stream), stream.words(0, count)
    for j in range(count):
        bits = (int(words[j, 0]) << 64) | int(words[j, 1])
        assert is_correctly_rounded(noisy[j], 0, STD, shift, bits, 128)


@pytest.mark.parametrize("rng", [0, 42, "seed", np.random.RandomState(0), np.random])
def test_only_a_generator_will_do(rng: object) -> None:
    with pytest.raises(UsageError, match="rng must be a numpy Generator"):
        Stream.open(rng)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("std", "shift", "start", "message"),
    [
        (0.0, 0, 0, "std must be > 0"),
        (-1.0, -20, 0, "std must be > 0"),
        (math.nan, 0, 0, "std must be > 0"),
        (math.inf, 0, 0, "std must be > 0"),
        (1.0, 0, 0, "shift must be -20"),
        (1.0, -21, 0, "shift must be -20"),
        (1.0, -20, -1, "start must be a whole number >= 0"),
        (1.0, -20, 2**64 - 4, "start must allow"),
    ],
)
def test_wrong_arguments_are_named(std: float, shift: int, start: int, message: str) -> None:
    for add in (
        lambda s: add_noise(Wide.zeros(3), std, shift, s, start),
        lambda s: add_noise_exact([0] * 3, std, shift, s, start),
    ):
        with pytest.raises(UsageError, match=message):
            add(seeded(23))


# ---- Public randomness ----


def test_public_normals_have_the_normal_law_and_random_access() -> None:
    seed = noise.public_seed(np.random.default_rng(24))
    z = noise.public_normals(seed, 100_000)
    assert min(law_p_values(z)) > FALSE_ALARM / 4
    assert max(law_p_values(0.9 * z)) < FALSE_ALARM / 4
    assert np.array_equal(z[20_001:60_000], noise.public_normals(seed, 39_999, start=20_001))
    assert not np.array_equal(z[:10], noise.public_normals(noise.public_seed(), 10))
    assert noise.public_normals(seed, 0).size == 0


@pytest.mark.parametrize("tail", [0, 1, 2**60, 2**102, 2**103 - 1])
def test_public_normals_beyond_the_table(tail: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def rare(key: bytes, lane: int, start: int, out: np.ndarray) -> None:
        out[:] = [((i % 2) * SIGN | tail >> 64, tail & (2**64 - 1)) for i in range(len(out))]

    monkeypatch.setattr(public_random, "keystream", rare)
    z = noise.public_normals(bytes(32), 2)
    assert z[0] == -z[1] > 5
    with mpmath.workprec(200):
        p = mpmath.ldexp(2 * tail + 1, -129)
        back = mpmath.erfc(mpmath.mpf(float(z[0])) / mpmath.sqrt(2)) / 2
        # dp/p = -z dz (1 + 1/z^2 at most), and z is a double
        assert abs(back / p - 1) < float(z[0]) ** 2 * 1.1 * UNIT


def test_public_permutations_are_uniform_and_public_subsets_sorted() -> None:
    rng = np.random.default_rng(25)
    seen = [tuple(noise.public_permutation(noise.public_seed(rng), 4).tolist()) for _ in range(4800)]
    counts = [seen.count(order) for order in itertools.permutations(range(4))]
    assert sum(counts) == 4800
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    seed = noise.public_seed(rng)
    subset = noise.public_subset(seed, 1000, 100)
    assert subset.tolist() == sorted(set(subset.tolist()))
    assert set(subset.tolist()) == set(noise.public_permutation(seed, 1000)[:100].tolist())
    assert np.array_equal(np.sort(noise.public_permutation(seed, 1000)), np.arange(1000))
