"""Blocks of columns for pure-epsilon noise on a box, and the law of one coordinate [K1], [K2].

Columns of a block share a radius, so a block of k columns pays (k+1)(k+2)/3 of its widths' squares instead of one
share of epsilon a column. Which columns go together, and how epsilon is shared out, is decided by public numbers alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import (
    MOST_COLUMNS,
    Floats,
    UsageError,
    open_unit,
    positive,
    vector,
    whole,
)
from ..numerics.roots import gauss_legendre, root
from ..numerics.rounding import enclose_ever_tighter, find_safe, is_proved_nonnegative, round_ball_up, round_up
from ..numerics.wide_integers import Ints, Wide
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee
from ..util import json_codec
from .law import TOO_LITTLE, Law, joined, normal_multiple
from .stream import Stream
from .vector_runs import Runs, box_runs

if TYPE_CHECKING:
    from flint import arb

_FIELDS = "Blocks have the fields epsilon, blocks and error, and no others."
_FINE = 512  # so many of the widest columns may be cut anywhere
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
        """The least noise scale where no column of the block moves by more than `sensitivity`, rounded up [K1]."""
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
            raise UsageError("every block must hold columns, by their numbers. Make the plan anew.")
        if len(set(columns)) < len(columns):
            raise UsageError("a column must not be in two blocks. Make the plan anew.")
        shares = [Fraction(positive("epsilon of a block", block.epsilon)) for block in self.blocks]
        if sum(shares) > Fraction(self.epsilon):
            raise UsageError("the blocks' shares of epsilon add up to more than epsilon. Make the plan anew.")

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
    def from_dict(cls, saved: Any) -> Blocks:
        with json_codec.Fields(saved, _FIELDS) as fields:
            epsilon, error = fields.take("epsilon", json_codec.number), fields.take("error", json_codec.number)
            return cls(epsilon, fields.take("blocks", json_codec.list_of(_block)), error)


def _block(saved: Any) -> Block:
    with json_codec.Fields(saved, _FIELDS) as fields:
        columns = fields.take("columns", json_codec.list_of(json_codec.integer(0, MOST_COLUMNS)))
        return Block(columns, fields.take("epsilon", json_codec.number))


def choose_blocks(widths: Sequence[float] | Floats, importances: Sequence[float] | Floats, epsilon: float) -> Blocks:
    """The blocks of least expected squared error, and their shares of epsilon [K2].

    `widths` say how far each column of a sum moves between neighbors: the widths of the box under "replace", half of
    them under "add_remove". A column of width or importance 0 is left out. With up to 512 columns no partition is
    better; with more, cuts beyond the widest 512 columns are tried at every 128th part of their position.
    """
    epsilon = positive("epsilon", epsilon)
    spans = vector("widths", widths)
    weights = vector("importances", importances, spans.size)
    if (spans < 0).any() or (weights < 0).any():
        raise UsageError("widths and importances must be zero or above. Check their signs.")
    released = np.flatnonzero((spans > 0) & (weights > 0))
    if released.size == 0:
        raise UsageError("no column has both a width and an importance. Leave nothing out of the release.")
    logs = np.log(weights[released]) / 2 + np.log(spans[released])
    order = np.argsort(-logs, kind="stable")
    squares = np.maximum(np.exp(logs[order] - logs[order[0]]), _LEAST) ** 2
    cuts = _best_cuts(squares)
    runs = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    roots = [float(_cost(run.stop - run.start, squares[run].sum())) for run in runs]
    shares = _shares(roots, epsilon)
    blocks = tuple(
        Block(tuple(sorted(released[order[run]].tolist())), share) for run, share in zip(runs, shares, strict=True)
    )
    unit = math.exp(2 * min(logs[order[0]], 350.0))
    return Blocks(epsilon, blocks, unit * sum(root**3 / share**2 for root, share in zip(roots, shares, strict=True)))


def _cost(count: Any, squares: Any) -> Any:
    """The cube root of a block's cost: what is added up over blocks, least at shares in proportion to it [K2]."""
    return np.cbrt((count + 1) * (count + 2) / 3 * squares)


def _best_cuts(squares: Floats) -> list[int]:
    """Where to cut columns sorted by size into runs: 0 = first cut < ... < last cut = number of columns."""
    totals = np.concatenate([[0.0], np.cumsum(squares)])
    places = _candidates(squares.size)
    best, before = np.zeros(places.size), np.zeros(places.size, np.int64)
    for i in range(1, places.size):
        counts = places[i] - places[:i]
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


# The law of one coordinate, in units of its scale -------------------------------------------------------

_RADII = 1 << 14  # equally likely radii that stand for all
_NODES, _DROP = 100, 45.0


def box_std(size: int) -> float:
    """Standard deviation of a coordinate of a block of so many columns, over the scale."""
    return math.sqrt((size + 1) * (size + 2) / 3)


def box_sf(x: float, size: int) -> float:
    """P[coordinate > x scale], in double precision [K3]."""
    from scipy.special import gammaincc

    if x < 0:
        return 1 - box_sf(-x, size)
    density = math.exp(size * math.log(x) - x - math.lgamma(size + 1)) if x > 0 else 0.0
    return max(0.0, ((1 - x / size) * float(gammaincc(size, x)) + density) / 2)


@lru_cache(maxsize=256)
def box_sum_multiple(level: float, size: int) -> float:
    """Half-width at a level, in stds, for sums of a block's coordinates: the larger of those for two and for many.

    They share a radius, so a sum of many is normal given it, and its tails are longer than the normal law's [K3].
    """
    from scipy.special import erf, gammaincinv

    radii = gammaincinv(size + 1, (np.arange(_RADII) + 0.5) / _RADII)
    std = box_std(size)

    def many(multiple: float) -> float:
        return float(np.mean(erf(multiple * std * math.sqrt(1.5) / radii))) - level

    def two(multiple: float) -> float:
        beyond = np.maximum(1 - multiple * std / math.sqrt(2) / radii, 0.0)
        return 1 - float(np.mean(beyond**2)) - level

    most = 4.0
    while min(many(most), two(most)) <= 0:
        most *= 2
    return max(root(many, 0.0, most, 1e-9), root(two, 0.0, most, 1e-9))


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
    """P[the largest of `part` coordinates of a block of `size`, signs aside, > x scale] [K4]."""
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


def box_sf_upper(x: float, size: int) -> float:
    """P[coordinate > x scale], rounded up and proved to be no less [K3]."""
    if x <= 0:
        return 1.0 if x < 0 else 0.5
    upper = 0.5
    for ball in enclose_ever_tighter(lambda: _sf_ball(x, whole("size", size))):
        upper = min(upper, round_ball_up(ball))
        if ball.rel_accuracy_bits() >= 64:
            break
    return upper


def box_isf_upper(p: float, size: int) -> float:
    """An x with P[coordinate >= x scale] <= p proved, next to the least: what a private threshold rests on [K3]."""
    from flint import arb

    p, size = open_unit("p", p), whole("size", size)
    start = max(box_isf(min(p, 0.5), size), 0.0)
    x = find_safe(start, start + 1, lambda x: is_proved_nonnegative(lambda: arb(p) - _sf_ball(x, size)))
    if x is None:
        raise UsageError(f"p={p} is out of reach of certified arithmetic. State a probability above 1e-300.")
    return x


@dataclass(frozen=True)
class BoxLaw(Law):
    """Pure noise in blocks that share a radius; a coordinate that never moves has none [K1]."""

    kind: ClassVar[str] = "box"
    blocks: Blocks
    scales: tuple[float, ...]
    """One per block: scale * share of epsilon >= how far its coordinates move, in exact arithmetic."""

    def stds(self, width: int) -> Floats:
        stds = np.zeros(width)
        for block, scale in zip(self.blocks.blocks, self.scales, strict=True):
            stds[list(block.columns)] = scale * box_std(block.size)
        return stds

    def multiples(self, width: int, level: float) -> Floats:
        multiples = np.ones(width)
        for block in self.blocks.blocks:
            multiples[list(block.columns)] = box_isf((1 - level) / 2, block.size) / box_std(block.size)
        return multiples

    def joint_multiples(self, wanted: NDArray[np.bool_], level: float) -> Floats:
        """Half-widths in stds of a box that holds the wanted coordinates all at once at a level; 0 of others [K4]."""
        multiples, total = np.zeros(wanted.size), int(wanted[list(self.blocks.columns)].sum())
        for block in self.blocks.blocks:
            columns = np.array(block.columns)
            mine = columns[wanted[columns]]
            if mine.size:
                tail = -math.expm1(math.log(level) * mine.size / total)
                multiples[mine] = box_largest_isf(tail, mine.size, block.size) / box_std(block.size)
        return multiples

    def sum_multiple(self, level: float) -> float:
        """The half-width at a level for a sum of coordinates, in stds, where it is wider than each of theirs [K3]."""
        shared = [size for size in self.blocks.sizes if size > 1]
        return max(normal_multiple(level), box_sum_multiple(level, min(shared)) if shared else 0.0)

    def add(self, sums: Wide, last: list[int], stream: Stream) -> Floats:
        from .vectors import add_block_noise  # compiles

        whole, (order, plain, runs, units) = joined(sums, last), self._drawing
        if plain and whole.high.shape[-1] == runs.width:
            return add_block_noise(whole, runs, stream).to_float() * units
        noisy = add_block_noise(Wide(whole.high[..., order], whole.low[..., order]), runs, stream)
        scaled = whole.to_float()  # coordinates that never move are public
        scaled[..., order] = noisy.to_float() * units
        return scaled

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
        if (moves[~served] != 0).any():
            raise UsageError(TOO_LITTLE)
        if sum((Fraction(block.epsilon) for block in blocks), Fraction(0)) > Fraction(privacy.pure[0]):
            raise UsageError(TOO_LITTLE)
        for block, scale in zip(blocks, self.scales, strict=True):
            if Fraction(scale) * Fraction(block.epsilon) < int(moves[list(block.columns)].max()):
                raise UsageError(TOO_LITTLE)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "blocks": self.blocks.to_dict(), "scales": list(self.scales)}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields) -> BoxLaw:
        return cls(
            fields.take("blocks", Blocks.from_dict), fields.take("scales", json_codec.list_of(json_codec.number))
        )

    @staticmethod
    def least(blocks: Blocks, moves: Ints) -> BoxLaw:
        scales = tuple(block.scale(Fraction(int(moves[list(block.columns)].max()))) for block in blocks.blocks)
        return BoxLaw(blocks, scales)
