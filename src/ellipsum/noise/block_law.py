"""K-norm noise (L-infinity, per block of columns) for pure DP, and the distribution of one coordinate [K1], [K2].

Columns of a block share a radius, so a block of k columns pays (k+1)(k+2)/3 of its widths' squares instead of a share
of epsilon for each column. Public numbers alone decide the blocks and their shares of epsilon.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import MOST_COLUMNS, Floats, UsageError, open_unit, positive, vector, whole
from ..numerics.roots import gauss_legendre, root
from ..numerics.rounding import find_safe, is_proved_nonnegative, round_up
from ..numerics.wide_integers import Ints, Wide
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee
from ..util import json_codec
from .law import TOO_LITTLE, NoiseLaw, joined, normal_multiple
from .stream import Stream
from .vector_runs import Runs, box_runs

if TYPE_CHECKING:
    from flint import arb

_FIELDS = "Blocks have the fields epsilon, blocks and error, and no others."
_FINE = 512  # of the widest columns, between which blocks may be cut anywhere
_COARSENESS = 128  # beyond, at every 128th part of the position
_LEAST = 2.0**-400  # a column far below the widest still needs a share of its own or a place in a block


@dataclass(frozen=True)
class Block:
    """Columns that share a radius, and their share of epsilon."""

    columns: tuple[int, ...]
    epsilon: float

    @property
    def size(self) -> int:
        return len(self.columns)

    def scale(self, sensitivity: float | Fraction) -> float:
        """The least noise scale if no column of the block changes by more than `sensitivity`, rounded up [K1]."""
        return round_up(Fraction(sensitivity) / Fraction(self.epsilon))


@dataclass(frozen=True)
class Blocks:
    """Every column that is released, in blocks whose shares add up to at most epsilon exactly [K1]."""

    epsilon: float
    blocks: tuple[Block, ...]
    error: float
    """Expected squared error of the sum, weighted by importance, in the units of the widths."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        columns = self.columns
        if not (columns and all(self.sizes) and all(type(j) is int and j >= 0 for j in columns)):
            raise UsageError("Invalid plan file: every block must hold columns, by number. Create a new plan.")
        if len(set(columns)) < len(columns):
            raise UsageError("Invalid plan file: a column is in two blocks. Create a new plan.")
        shares = [Fraction(positive("epsilon of a block", block.epsilon)) for block in self.blocks]
        if sum(shares) > Fraction(self.epsilon):
            raise UsageError("Invalid plan file: the blocks' epsilons exceed the total epsilon. Create a new plan.")

    @property
    def columns(self) -> tuple[int, ...]:
        """The released columns, block by block: the order in which noise is added."""
        return tuple(column for block in self.blocks for column in block.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(block.size for block in self.blocks)

    def to_dict(self) -> dict[str, Any]:
        blocks = [{"columns": list(block.columns), "epsilon": block.epsilon} for block in self.blocks]
        return {"epsilon": self.epsilon, "blocks": blocks, "error": self.error}

    @classmethod
    def from_dict(cls, saved: object) -> Blocks:
        with json_codec.Fields(saved, _FIELDS) as fields:
            epsilon, error = fields.take("epsilon", json_codec.number), fields.take("error", json_codec.number)
            return cls(epsilon, fields.take("blocks", json_codec.list_of(_block)), error)


def _block(saved: object) -> Block:
    with json_codec.Fields(saved, _FIELDS) as fields:
        columns = fields.take("columns", json_codec.list_of(json_codec.integer(0, MOST_COLUMNS)))
        return Block(columns, fields.take("epsilon", json_codec.number))


def choose_blocks(
    widths: Sequence[float] | Floats,
    importances: Sequence[float] | Floats,
    epsilon: float,
    partners: Mapping[int, int] | None = None,
) -> Blocks:
    """The blocks of least expected squared error, and their shares of epsilon [K2].

    widths: the sensitivity of each column of a sum: the widths of the box under "replace", half of them under
        "add_remove". A column of width or importance 0 is left out. With up to 512 columns no partition is better;
        with more, cuts beyond the widest 512 columns are tried at every 128th part of their position.
    partners: for some columns another one of the same width and importance, which goes into the same block.
    """
    epsilon = positive("epsilon", epsilon)
    spans = vector("widths", widths)
    weights = vector("importances", importances, spans.size)
    if (spans < 0).any() or (weights < 0).any():
        raise UsageError("widths and importances must be >= 0.")
    released = np.flatnonzero((spans > 0) & (weights > 0))
    if released.size == 0:
        raise UsageError("At least one column must have both a width and an importance.")
    logs = np.log(weights[released]) / 2 + np.log(spans[released])
    order = np.argsort(-logs, kind="stable")
    squares = np.maximum(np.exp(logs[order] - logs[order[0]]), _LEAST) ** 2
    members = [_with_partner(j, partners or {}) for j in released[order].tolist()]
    sizes = np.array([len(part) for part in members])
    cuts = _best_cuts(squares * sizes, sizes)
    runs = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    roots = [float(_cost(sizes[run].sum(), (squares * sizes)[run].sum())) for run in runs]
    shares = _shares(roots, epsilon)
    blocks = tuple(
        Block(tuple(sorted(itertools.chain(*members[run]))), share) for run, share in zip(runs, shares, strict=True)
    )
    unit = math.exp(2 * min(logs[order[0]], 350.0))
    return Blocks(epsilon, blocks, unit * sum(root**3 / share**2 for root, share in zip(roots, shares, strict=True)))


def with_count(blocks: Blocks, column: int, share: float) -> Blocks:
    """The blocks with one more column whose own error has no weight: alone with a share of epsilon, or in the block
    where it has no more noise than that and costs the other columns least [K2].
    """
    roots = [block.epsilon / blocks.epsilon for block in blocks.blocks]  # shares are in proportion to roots of costs
    most, least = box_std(1) / share, (1 - share) ** -2.0
    chosen = [root * (1 - share) for root in roots], -1
    for i, size in enumerate(blocks.sizes):
        grown = [root * (float(np.cbrt((size + 3) / (size + 1))) if i == g else 1.0) for g, root in enumerate(roots)]
        total = math.fsum(grown)
        if box_std(size + 1) <= most * grown[i] / total and total**3 < least:
            least, chosen = total**3, (grown, i)
    grown, place = chosen
    members = [block.columns + ((column,) if i == place else ()) for i, block in enumerate(blocks.blocks)]
    if place < 0:
        members, grown = [*members, (column,)], [*grown, share]
    pairs = zip(members, _shares(grown, blocks.epsilon), strict=True)
    return Blocks(
        blocks.epsilon, tuple(Block(tuple(sorted(part)), share) for part, share in pairs), least * blocks.error
    )


def _cost(count: Any, squares: Any) -> Any:
    """The cube root of a block's cost: what is added up over blocks, least at shares in proportion to it [K2]."""
    return np.cbrt((count + 1) * (count + 2) / 3 * squares)


def _with_partner(column: int, partners: Mapping[int, int]) -> tuple[int, ...]:
    return (column, partners[column]) if column in partners else (column,)


def _best_cuts(squares: Floats, sizes: Ints) -> list[int]:
    """Where to cut columns sorted by size into runs: 0 = first cut < ... < last cut = number of columns.

    sizes: 2 for a column with a partner, whose square is added to its own.
    """
    totals, numbers = (np.concatenate([[0], np.cumsum(part)]) for part in (squares, sizes))
    places = _candidates(squares.size)
    best, before = np.zeros(places.size), np.zeros(places.size, np.int64)
    for i in range(1, places.size):
        counts = numbers[places[i]] - numbers[places[:i]]
        costs = best[:i] + _cost(counts, totals[places[i]] - totals[places[:i]])
        before[i] = int(np.argmin(costs))
        best[i] = costs[before[i]]
    cuts = [places.size - 1]
    while cuts[-1]:
        cuts.append(int(before[cuts[-1]]))
    return [int(places[i]) for i in reversed(cuts)]


def _candidates(columns: int) -> Ints:
    places = list(range(min(columns, _FINE) + 1))
    while places[-1] < columns:
        places.append(min(columns, places[-1] + max(1, places[-1] // _COARSENESS)))
    return np.array(places, np.int64)


def _shares(roots: Sequence[float], epsilon: float) -> list[float]:
    """Shares in proportion to the roots, as doubles whose exact sum is at most epsilon."""
    if len(roots) == 1:
        return [epsilon]
    total, whole_epsilon = math.fsum(roots), Fraction(epsilon)
    shares = [epsilon * (root / total) for root in roots]
    while sum(map(Fraction, shares)) > whole_epsilon:
        shares = [share * (1 - 2.0**-50) for share in shares]
    return shares


_RADII = 1 << 14  # equally likely radii that stand for all
_NODES, _DROP = 100, 45.0


def box_std(size: int) -> float:
    """Standard deviation of a coordinate of a block of this size, over the scale."""
    return math.sqrt((size + 1) * (size + 2) / 3)


def box_sf(x: float, size: int) -> float:
    """P[coordinate > x scale], in double precision [K3]."""
    from scipy.special import gammaincc

    if x < 0:
        return 1 - box_sf(-x, size)
    density = math.exp(size * math.log(x) - x - math.lgamma(size + 1)) if x > 0 else 0.0
    return max(0.0, ((1 - x / size) * float(gammaincc(size, x)) + density) / 2)


@lru_cache(maxsize=256)
def box_pair_multiple(level: float, size: int) -> float:
    """Half-width at a level, in stds, for the sum of two coordinates of a block [K3]."""
    radii, std = _radii(size), box_std(size)

    def two(multiple: float) -> float:
        beyond = np.maximum(1 - multiple * std / math.sqrt(2) / radii, 0.0)
        return 1 - float(np.mean(beyond**2)) - level

    return root(two, 0.0, _above(two), 1e-9)


def _radii(size: int) -> Floats:
    """Equally likely radii of a block, over its scale."""
    from scipy.special import gammaincinv

    radii: Floats = gammaincinv(size + 1, (np.arange(_RADII) + 0.5) / _RADII)
    return radii


def _above(excess: Callable[[float], float]) -> float:
    """A multiple at which `excess` is positive."""
    most = 4.0
    while excess(most) <= 0:
        most *= 2
    return most


@lru_cache(maxsize=256)
def box_sum_multiple(level: float, size: int) -> float:
    """Half-width at a level, in stds, for sums of a block's coordinates: the larger of those for two and for many.

    They share a radius, so a sum of many is normal given it, and its tails are longer than the normal law's [K3].
    """
    from scipy.special import erf

    radii, std = _radii(size), box_std(size)

    def many(multiple: float) -> float:
        return float(np.mean(erf(multiple * std * math.sqrt(1.5) / radii))) - level

    return max(root(many, 0.0, _above(many), 1e-9), box_pair_multiple(level, size))


@lru_cache(maxsize=256)
def box_isf(p: float, size: int) -> float:
    """The x with P[coordinate > x scale] = p, in double precision."""
    from scipy.special import gammainccinv

    p = open_unit("p", p)
    if p >= 0.5:
        return 0.0 if p == 0.5 else -box_isf(1 - p, size)
    most = float(gammainccinv(size + 1, 2 * p))  # the coordinate is at most the radius
    return root(lambda x: math.log(max(box_sf(x, size), 1e-320) / p), 0.0, most + 1e-9, 1e-13 * most)


def box_largest_sf(x: float, part: int, size: int) -> float:
    """P[max |x_j| > x scale] over `part` coordinates of a block that has `size` [K4]."""
    from scipy.special import gammaincc

    if x <= 0:
        return 1.0

    def log_value(s: Floats) -> Floats:
        value: Floats = np.log(np.maximum(gammaincc(size + 1, x * np.exp(s)), 1e-320)) - part * s
        return value

    top, end = float(log_value(np.zeros(1))[0]), 1 / part
    while float(log_value(np.array([end]))[0]) > top - _DROP:
        end *= 1.25
    nodes, weights = gauss_legendre(_NODES)
    values = np.exp(log_value(end / 2 * (1 + nodes)))
    return float(weights @ values) * part * end / 2


@lru_cache(maxsize=256)
def box_largest_isf(p: float, part: int, size: int) -> float:
    """The x that the largest of `part` coordinates of a block exceeds with probability p, over the scale."""
    from scipy.special import gammainccinv

    p = open_unit("p", p)
    most = float(gammainccinv(size + 1, p))  # no coordinate exceeds the radius
    return root(lambda x: math.log(max(box_largest_sf(x, part, size), 1e-320) / p), 0.0, most, 1e-13 * most)


def _sf_ball(x: float, size: int) -> arb:
    from flint import arb

    k, at = arb(size), arb(x)
    return (at.gamma_upper(k + 1, 1) - at / k * at.gamma_upper(k, 1)) / 2


def box_isf_upper(p: float, size: int) -> float:
    """An x with P[coordinate >= x scale] <= p proved, next to the least: what a private threshold rests on [K3]."""
    from flint import arb

    p, size = open_unit("p", p), whole("size", size)
    start = max(box_isf(min(p, 0.5), size), 0.0)
    x = find_safe(start, start + 1, lambda x: is_proved_nonnegative(lambda: arb(p) - _sf_ball(x, size)))
    if x is None:
        raise UsageError(f"p must be above 1e-300, got {p}.")
    return x


@dataclass(frozen=True)
class BlockLaw(NoiseLaw):
    """K-norm noise in blocks of columns that share a radius; a coordinate that never changes has none [K1]."""

    kind: ClassVar[str] = "knorm_linf"
    blocks: Blocks
    scales: tuple[float, ...]
    """One per block: scale * share of epsilon >= the largest change of its coordinates, in exact arithmetic."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Coordinates whose sum and difference get the noise, in their places; both are in one block [K5]."""

    def stds(self, width: int) -> Floats:
        stds = np.zeros(width)
        for block, scale in zip(self.blocks.blocks, self.scales, strict=True):
            stds[list(block.columns)] = scale * box_std(block.size)
        stds[self._paired] /= math.sqrt(2)
        return stds

    @cached_property
    def _paired(self) -> Ints:
        """Coordinates of all pairs: the first of every pair, then the second."""
        return np.array(self.pairs, np.int64).reshape(-1, 2).T.ravel()

    def multiples(self, width: int, level: float) -> Floats:
        multiples = np.ones(width)
        for block in self.blocks.blocks:
            columns = np.array(block.columns)
            multiples[columns] = box_isf((1 - level) / 2, block.size) / box_std(block.size)
            paired = columns[np.isin(columns, self._paired)]
            if paired.size:
                multiples[paired] = box_pair_multiple(level, block.size)
        return multiples

    def exceeded(self, width: int, place: int, probability: float) -> float:
        size = next((block.size for block in self.blocks.blocks if place in block.columns), 1)
        if size > 1 or probability >= 0.5:
            return super().exceeded(width, place, probability)
        return -math.log(2 * probability) / box_std(1)  # Laplace noise, without importing SciPy

    def joint_multiples(self, used: NDArray[np.bool_], level: float) -> Floats:
        """Half-widths in stds of a box that holds these coordinates all at once at a level; 0 of others [K4]."""
        used = used.copy()
        first, second = self._paired.reshape(2, -1)
        used[first] |= used[second]
        used[second] = used[first]
        multiples, total = np.zeros(used.size), int(used[list(self.blocks.columns)].sum())
        for block in self.blocks.blocks:
            columns = np.array(block.columns)
            mine = columns[used[columns]]
            if mine.size:
                tail = -math.expm1(math.log(level) * mine.size / total)
                multiples[mine] = box_largest_isf(tail, mine.size, block.size) / box_std(block.size)
        multiples[self._paired] *= math.sqrt(2)  # half of a sum of two is at most the larger of them
        return multiples

    def sum_multiple(self, level: float) -> float:
        """The half-width at a level for a sum of coordinates, in stds, where it is wider than each of theirs [K3]."""
        shared = [size for size in self.blocks.sizes if size > 1]
        return max(normal_multiple(level), box_sum_multiple(level, min(shared)) if shared else 0.0)

    def add(self, sums: Wide, last: list[int], stream: Stream, start: int = 0) -> Floats:
        from .vectors import add_block_noise  # compiles

        whole, (order, plain, runs, units) = joined(sums, last), self._drawing
        if self.pairs:
            whole = self._rotate(whole)
        if plain and whole.high.shape[-1] == runs.width:
            scaled = add_block_noise(whole, runs, stream, start).to_float()
            scaled *= units  # in place: groups may be millions
        else:
            noisy = add_block_noise(Wide(whole.high[..., order], whole.low[..., order]), runs, stream, start)
            scaled = whole.to_float()  # coordinates that never change are public
            scaled[..., order] = noisy.to_float() * units
        if self.pairs:
            first, second = self._paired.reshape(2, -1)
            plus, minus = scaled[..., first], scaled[..., second]
            scaled[..., first], scaled[..., second] = (plus + minus) / 2, (plus - minus) / 2
        return scaled

    def _rotate(self, sums: Wide) -> Wide:
        """[K5] The sums with the sum and the difference of each pair in its place, exactly."""
        first, second = self._paired.reshape(2, -1)
        high, low = sums.high.copy(), sums.low.copy()
        a, b = (Wide(sums.high[..., part], sums.low[..., part]) for part in (first, second))
        for place, part in ((first, a + b), (second, a + Wide(-b.high, -b.low))):
            high[..., place], low[..., place] = part.high, part.low
        return Wide(high, low)

    @cached_property
    def _drawing(self) -> tuple[Ints, bool, Runs, Floats]:
        """The blocks' coordinates, whether these are simply the first ones, the blocks, and 2^shift of the columns."""
        order, runs = np.array(self.blocks.columns, np.int64), box_runs(self.blocks.sizes, self.scales)
        units = np.ldexp(1.0, np.repeat(runs.shifts, runs.sizes))
        return order, bool((order == np.arange(order.size)).all()), runs, units

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        if not isinstance(privacy, Privacy) or privacy.mu or len(privacy.pure) != 1:
            raise UsageError(TOO_LITTLE)
        blocks = self.blocks.blocks
        if len(self.scales) != len(blocks) or not all(map(math.isfinite, self.scales)):
            raise UsageError(TOO_LITTLE)
        columns = list(self.blocks.columns)
        served = np.zeros(len(moves), bool)
        if max(columns) >= len(moves):
            raise UsageError(TOO_LITTLE)
        served[columns] = True
        if len(set(self._paired.tolist())) < self._paired.size or not self._are_together():
            raise UsageError(TOO_LITTLE)
        if (moves[~served] != 0).any():
            raise UsageError(TOO_LITTLE)
        if sum((Fraction(block.epsilon) for block in blocks), Fraction(0)) > Fraction(privacy.pure[0]):
            raise UsageError(TOO_LITTLE)
        for block, scale in zip(blocks, self.scales, strict=True):
            if Fraction(scale) * Fraction(block.epsilon) < int(moves[list(block.columns)].max()):
                raise UsageError(TOO_LITTLE)

    def _are_together(self) -> bool:
        """Whether both columns of every pair are in the same block, so that their noise is uncorrelated."""
        place = {j: i for i, block in enumerate(self.blocks.blocks) for j in block.columns}
        return all(place.get(first, -1) == place.get(second, -2) for first, second in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        pairs = {"pairs": [list(pair) for pair in self.pairs]} if self.pairs else {}
        return {"kind": self.kind, "blocks": self.blocks.to_dict(), "scales": list(self.scales), **pairs}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields) -> BlockLaw:
        return cls(
            fields.take("blocks", Blocks.from_dict),
            fields.take("scales", json_codec.list_of(json_codec.number)),
            fields.take("pairs", json_codec.list_of(_pair), ()),
        )

    @staticmethod
    def least(blocks: Blocks, moves: Ints, pairs: tuple[tuple[int, int], ...] = ()) -> BlockLaw:
        """The least noise for the largest changes of coordinates, or of sums and differences of pairs."""
        scales = tuple(block.scale(Fraction(int(moves[list(block.columns)].max()))) for block in blocks.blocks)
        return BlockLaw(blocks, scales, pairs)


def _pair(saved: object) -> tuple[int, int]:
    numbers = json_codec.list_of(json_codec.integer(0, MOST_COLUMNS))(saved)
    if len(numbers) != 2:
        raise UsageError(_FIELDS)
    return numbers[0], numbers[1]
