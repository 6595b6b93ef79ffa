"""Code generators: the few operations on vectors of eight doubles that the kernels consist of.

A numba type of eight doubles fixes which sums are formed in which order, so the result has the same bits on every
processor, and for a row wherever it is in a block ([S1]).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import llvmlite.ir  # type: ignore[import-untyped]
import numba
import numba.core.cgutils
import numba.extending
import numpy as np

from ..util.compile import inner
from .blocks import LANES, PANEL, ROWS, first_cache

# The compiler's objects have no types of use here.
Value: TypeAlias = Any
"""A value, a vector or a pointer of LLVM's."""
Builder: TypeAlias = Any
Kind: TypeAlias = Any
"""A type of numba's or of LLVM's."""
Eight: TypeAlias = Any
"""Eight doubles, as compiled functions pass them on."""
ir: Any = llvmlite.ir
types: Any = numba.types
cgutils: Any = numba.core.cgutils
extending: Any = numba.extending

_MAGIC = 1.5 * 2.0**52  # v + _MAGIC has the bits of _MAGIC plus rint(v) if |v| <= 2^50 ([S2])
_MAGIC_BITS = int(np.float64(_MAGIC).view(np.int64))
_ODD_BIT = 1 << 61  # is 1 in a NaN and in an infinity, 0 in numbers near _MAGIC
_AHEAD = first_cache() // 4  # bytes requested before they are read: more would be evicted before they are used
GROUP = (0.0,) * LANES
FOUR = (0.0,) * ROWS
SINGLE = (0.0,)

_F64, _F32, _I64, _I32 = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(32)
_BYTE, _ZERO = ir.IntType(8).as_pointer(), _I64(0)
_DOUBLES, _LONGS = ir.VectorType(_F64, LANES), ir.VectorType(_I64, LANES)


class _EightDoubles(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="eight_doubles")


@extending.register_model(_EightDoubles)  # type: ignore[untyped-decorator]
class _EightDoublesModel(extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: object, kind: Kind) -> None:
        super().__init__(manager, kind, _DOUBLES)


_EIGHT = _EightDoubles()


def operation(result: Kind) -> Callable[[Callable[..., Value]], Callable[..., Any]]:
    """Make a function generate the code of an operation, which compiled functions call by the function's name.

    The function takes a builder, numba's types of the arguments, and the arguments. result: the type of what it
    returns, or a function of the types of the arguments.
    """

    def decorate(generate: Callable[..., Value]) -> Callable[..., Any]:
        def define(typing_context: object, *kinds: Kind) -> tuple[Kind, Callable[..., Value]]:
            arguments = [types.int64 if isinstance(kind, types.Integer) else kind for kind in kinds]

            def lower(context: Any, builder: Builder, signature: object, values: list[Value]) -> Value:
                value = generate(builder, kinds, *values)
                return context.get_dummy_value() if value is None else value

            return (result(*kinds) if inspect.isfunction(result) else result)(*arguments), lower

        parameters = list(inspect.signature(generate).parameters.values())
        define.__name__ = define.__qualname__ = generate.__name__
        define.__doc__ = generate.__doc__
        define.__signature__ = inspect.Signature(parameters[1:])  # type: ignore[attr-defined]
        intrinsic: Callable[..., Any] = extending.intrinsic(define)
        return intrinsic

    return decorate


@extending.intrinsic  # type: ignore[untyped-decorator]
def address(typing_context: object, array: Kind) -> Value:
    """Where an array begins. (numba's own answer is unsigned, and unsigned + signed is a float.)"""

    def generate(context: Any, builder: Builder, signature: object, args: list[Value]) -> Value:
        return builder.ptrtoint(context.make_array(array)(context, builder, args[0]).data, _I64)

    return types.int64(array), generate


def _load(builder: Builder, address: Value, index: Value, kind: Kind = _F64) -> Value:
    pointer = builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])
    vector = builder.load(
        builder.bitcast(pointer, ir.VectorType(kind, LANES).as_pointer()), align=4 if kind is _F32 else 8
    )
    return builder.fpext(vector, _DOUBLES) if kind is _F32 else vector


def _store(builder: Builder, vector: Value, address: Value, index: Value) -> None:
    pointer = builder.gep(builder.inttoptr(address, _F64.as_pointer()), [index])
    builder.store(vector, builder.bitcast(pointer, _DOUBLES.as_pointer()), align=8)


def _longs_at(builder: Builder, address: Value, index: Value = _ZERO) -> Value:
    """A pointer to eight whole numbers."""
    pointer = builder.gep(builder.inttoptr(address, _I64.as_pointer()), [index])
    return builder.bitcast(pointer, _LONGS.as_pointer())


def _spread(builder: Builder, vector: Value, lane: int) -> Value:
    """One lane in all eight."""
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_I32, LANES), [lane] * LANES))


def _splat(builder: Builder, number: Value) -> Value:
    return _spread(builder, builder.insert_element(ir.Constant(_DOUBLES, ir.Undefined), number, _I32(0)), 0)


def _constant(number: float) -> Value:
    return ir.Constant(_DOUBLES, [number] * LANES)


def _whole(number: int) -> Value:
    return ir.Constant(_LONGS, [number % 2**64] * LANES)


def _round_bits(builder: Builder, value: Value) -> Value:
    """The bits of _MAGIC plus rint(value) ([S2])."""
    return builder.bitcast(builder.fadd(value, _constant(_MAGIC)), _LONGS)


def _absolute(builder: Builder, value: Value) -> Value:
    kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.fabs.v8f64"), [value])


def _is_all(builder: Builder, flags: Value) -> Value:
    """Whether all eight flags are set."""
    return builder.icmp_unsigned("==", builder.bitcast(flags, ir.IntType(8)), ir.IntType(8)(255))


def _element_kind(like: Kind) -> Kind:
    return _F32 if like == types.float32 else _F64


def _starts(builder: Builder, x: Value, stride: Value, rows: int) -> list[Value]:
    """Where the rows of a group begin."""
    return [builder.add(x, builder.mul(stride, _I64(i))) for i in range(rows)]


def _mapped(builder: Builder, starts: list[Value], place: Value, like: Kind) -> Iterator[Value]:
    """(x - center) * scale at eight columns of each row: the only code of the map ([S1])."""
    column, center, scale, scale_index = (builder.extract_value(place, i) for i in range(4))
    centers, scales = _load(builder, center, column), _load(builder, scale, scale_index)
    for start in starts:
        value = _load(builder, start, column, _element_kind(like))
        yield builder.fmul(builder.fsub(value, centers), scales)


@operation(types.float64)
def element(builder: Builder, kinds: Kind, address: Value, index: Value, like: Value) -> Value:
    """One value as a double."""
    kind = _element_kind(kinds[2])
    value = builder.load(builder.gep(builder.inttoptr(address, kind.as_pointer()), [index]))
    return builder.fpext(value, _F64) if kind is _F32 else value


@operation(types.int64)
def entry_size(builder: Builder, kinds: Kind, like: Value) -> Value:
    """The number of bytes of a value."""
    return _I64(4 if kinds[0] == types.float32 else 8)


@operation(lambda group: types.UniTuple(_EIGHT, group.count))
def zero_lanes(builder: Builder, kinds: Kind, group: Value) -> Value:
    """A zero vector for each row of the group."""
    count = kinds[0].count
    return ir.Constant(ir.ArrayType(_DOUBLES, count), [_constant(0.0)] * count)


def _plus_squares(builder: Builder, lanes: Value, values: Iterator[Value], rows: int) -> Value:
    """lanes + mapped^2, row by row."""
    for i in range(rows):
        value = next(values)
        sums = builder.fadd(builder.extract_value(lanes, i), builder.fmul(value, value))
        lanes = builder.insert_value(lanes, sums, i)
    return lanes


def _add_rounded(
    builder: Builder, values: Iterator[Value], rows: int, factors: Value, total: Value, column: Value
) -> None:
    """total[column:column+8] += rint(mapped * factor) over the rows ([S2])."""
    pointer = _longs_at(builder, total, column)
    sums = builder.sub(builder.load(pointer, align=8), _whole(rows * _MAGIC_BITS))
    for i in range(rows):
        scaled = builder.fmul(next(values), _spread(builder, factors, i))
        sums = builder.add(sums, _round_bits(builder, scaled))
    builder.store(sums, pointer, align=8)


@operation(lambda lanes, *_: lanes)
def plus_squares(builder: Builder, kinds: Kind, lanes: Value, x: Value, place: Value, like: Value) -> Value:
    """lanes + mapped^2 of the one row at x; place: (column, centers, scales, index of the scale)."""
    return _plus_squares(builder, lanes, _mapped(builder, [x], place, kinds[3]), 1)


@operation(types.void)
def add_rounded(
    builder: Builder, kinds: Kind, factors: Value, x: Value, place: Value, like: Value, total: Value
) -> None:
    """total[column:column+8] += rint(mapped * factor) of the one row at x."""
    column = builder.extract_value(place, 0)
    _add_rounded(builder, _mapped(builder, [x], place, kinds[3]), 1, factors, total, column)


@operation(lambda lanes, *_: lanes)
def add_and_square(
    builder: Builder,
    kinds: Kind,
    lanes: Value,
    factors: Value,
    groups: Value,
    place: Value,
    like: Value,
    total: Value,
    lead: Value,
) -> Value:
    """As `add_rounded` for the rows of one group and `plus_squares` for those of the next, in one reading.

    groups: where the one and the other begin, and bytes from row to row; lead: see `_request_ahead`.
    """
    rows = kinds[0].count
    first, second, stride = (builder.extract_value(groups, i) for i in range(3))
    old, new = _starts(builder, first, stride, rows), _starts(builder, second, stride, rows)
    column = builder.extract_value(place, 0)
    _request_ahead(builder, new, column, kinds[4], lead)
    values = _mapped(builder, [*old, *new], place, kinds[4])
    _add_rounded(builder, values, rows, factors, total, column)
    return _plus_squares(builder, lanes, values, rows)


def _halve(builder: Builder, first: Value, second: Value, half: int) -> Value:
    """Adds the halves of each run of 2 half lanes; the runs of the second vector follow those of the first."""
    starts = [run + lane for run in range(0, 2 * LANES, 2 * half) for lane in range(half)]
    kind = ir.VectorType(_I32, LANES)
    low = builder.shuffle_vector(first, second, ir.Constant(kind, starts))
    high = builder.shuffle_vector(first, second, ir.Constant(kind, [start + half for start in starts]))
    return builder.fadd(low, high)


@operation(_EIGHT)
def lane_sums(builder: Builder, kinds: Kind, lanes: Value) -> Value:
    """Each row's eight lanes added as ((0+4)+(2+6)) + ((1+5)+(3+7)): one vector for the group."""
    count = kinds[0].count
    vectors = [builder.extract_value(lanes, i) for i in range(count)] + [_constant(0.0)] * (LANES - count)
    half = LANES // 2
    while half:
        vectors = [_halve(builder, vectors[i], vectors[i + 1], half) for i in range(0, 2 * half, 2)]
        half //= 2
    return vectors[0]


@operation(types.boolean)
def all_below(builder: Builder, kinds: Kind, squares: Value, limit: Value) -> Value:
    """Whether every lane is below the limit (a NaN is not)."""
    return _is_all(builder, builder.fcmp_ordered("<", squares, _splat(builder, limit)))


@operation(_EIGHT)
def everywhere(builder: Builder, kinds: Kind, number: Value) -> Value:
    """A number in all eight lanes."""
    return _splat(builder, number)


@operation(_EIGHT)
def clipping_factors(builder: Builder, kinds: Kind, squares: Value, grid: Value, pulled: Value) -> Value:
    """grid where the norm is at most 1, else pulled / norm: the clip ([S2], [S10])."""
    kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
    root = cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.v8f64")
    clipped = builder.fdiv(_splat(builder, pulled), builder.call(root, [squares]))
    return builder.select(builder.fcmp_ordered(">", squares, _constant(1.0)), clipped, _splat(builder, grid))


def _prefetch(builder: Builder, address: Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_BYTE, _I32, _I32, _I32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE], kind)
    builder.call(function, [builder.inttoptr(address, _BYTE), _I32(0), _I32(3), _I32(1)])


@operation(types.void)
def fetch_ahead(builder: Builder, kinds: Kind, address: Value) -> None:
    """Request the cache line at an address, which need not be valid."""
    _prefetch(builder, address)


def _request_ahead(builder: Builder, starts: list[Value], column: Value, like: Kind, lead: Value) -> None:
    """Request what is some bytes ahead of a column of each row.

    Addresses are computed from those that are read next, since the loop has few registers.
    """
    offset = builder.mul(column, _I64(4 if like == types.float32 else 8))
    for start in starts:
        _prefetch(builder, builder.add(lead, builder.add(start, offset)))


@operation(types.void)
def map_column(
    builder: Builder,
    kinds: Kind,
    groups: Value,
    fresh: Value,
    x: Value,
    like: Value,
    line: Value,
    mapped: Value,
    lane: Value,
) -> None:
    """mapped = (x - center) * scale, for eight rows of each group: the operations of `_mapped`; line: center, scale.

    lane += mapped^2; if `fresh` is a tuple of one, the lane was empty: lane = mapped^2.
    """
    centers, scales = (_splat(builder, builder.extract_value(line, i)) for i in range(2))
    for g in range(kinds[0].count):
        place = _I64(g * LANES)
        value = _load(builder, x, place, _element_kind(kinds[3]))
        value = builder.fmul(builder.fsub(value, centers), scales)
        _store(builder, value, mapped, place)
        square = builder.fmul(value, value)
        sums = square if kinds[1].count == 1 else builder.fadd(_load(builder, lane, place), square)
        _store(builder, sums, lane, place)


@operation(_EIGHT)
def across_lanes(builder: Builder, kinds: Kind, lanes: Value, group: Value) -> Value:
    """The eight lanes of eight rows added as `lane_sums` adds them."""
    place = builder.mul(group, _I64(LANES))
    size = LANES * LANES  # a lane has eight groups of eight rows
    vectors = [_load(builder, lanes, builder.add(place, _I64(k * size))) for k in range(LANES)]
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [builder.fadd(vectors[k], vectors[k + half]) for k in range(half)]
    return vectors[0]


@operation(types.void)
def store_vector(builder: Builder, kinds: Kind, vector: Value, place: Value) -> None:
    """Eight lanes into memory."""
    _store(builder, vector, place, _ZERO)


@operation(types.void)
def add_column(builder: Builder, kinds: Kind, groups: Value, mapped: Value, factors: Value, sums: Value) -> None:
    """sums += rint(mapped * factor): eight sums, of the first, second, ... rows of every group."""
    count, pointer = kinds[0].count, _longs_at(builder, sums)
    total = builder.sub(builder.load(pointer, align=8), _whole(count * _MAGIC_BITS))
    for g in range(count):
        place = _I64(g * LANES)
        scaled = builder.fmul(_load(builder, mapped, place), _load(builder, factors, place))
        total = builder.add(total, _round_bits(builder, scaled))
    builder.store(total, pointer, align=8)


# How far ahead rows request the memory that they read next -------------------------------------------------


Lead: TypeAlias = tuple[int, int, int]


@inner
def lead(stride: int, rows: int, like: float, width: int) -> Lead:
    """How far ahead the rows of a group request what follows them; see `_lead`."""
    size = entry_size(like)
    return _lead(_AHEAD // rows, rows * stride, size * width, size)


@inner
def _lead(ahead: int, group: int, length: int, size: int) -> Lead:
    """How many bytes ahead a row requests what follows it; from which column on another number; and that number.

    What follows the end of a row is the row of the next group at the same place: each is a stream of its own.
    """
    groups, rest = ahead // length, ahead % length
    near = groups * group + rest
    return near, (length - rest) // size, near + group - length


@inner
def lead_at(j: int, ahead: Lead) -> int:
    """How many bytes ahead of a column is requested; ahead: see `lead`."""
    near, turn, far = ahead
    return near if j < turn else far


# The clamp: eight values by the operations of one [S1] [S9] ------------------------------------------------


def _clamp(builder: Builder, mapped: Value, limit: Value) -> Value:
    """clip(mapped, -limit, limit): the only code of the clamp in vectors ([S9])."""
    mapped = builder.select(builder.fcmp_ordered("<", mapped, limit), mapped, limit)  # of a NaN (inf * 0): limit
    least = builder.fneg(limit)
    return builder.select(builder.fcmp_ordered(">", mapped, least), mapped, least)


def _add_if_within(builder: Builder, values: Iterable[Value], near: Value, sums: Value, rows: int) -> Value:
    """sums[0:8] += rint(value) over mapped values, if no clamp would change any of them ([S9]). Returns whether it did.

    near: a quarter above each limit, so that a value up to there rounds to the limit at most. sums: a pointer.
    """
    total = builder.sub(builder.load(sums, align=8), _whole(rows * _MAGIC_BITS))
    most = least = seen = None
    for value in values:
        most = value if most is None else builder.select(builder.fcmp_ordered(">", value, most), value, most)
        least = value if least is None else builder.select(builder.fcmp_ordered("<", value, least), value, least)
        bits = _round_bits(builder, value)
        total = builder.add(total, bits)
        seen = bits if seen is None else builder.or_(seen, bits)
    odd = builder.and_(seen, _whole(_ODD_BIT))  # `most` and `least` skip what is not a number
    within = builder.icmp_signed("==", odd, _whole(0))
    within = builder.and_(within, builder.fcmp_ordered("<=", most, near))
    within = _is_all(builder, builder.and_(within, builder.fcmp_ordered(">=", least, builder.fneg(near))))
    with builder.if_then(within, likely=True):
        builder.store(total, sums, align=8)
    return within


@operation(types.boolean)
def clamp_rows(
    builder: Builder,
    kinds: Kind,
    group: Value,
    x: Value,
    stride: Value,
    place: Value,
    like: Value,
    near: Value,
    total: Value,
    lead: Value,
) -> Value:
    """Add a group of rows to total[column:column+8] if all values are within their limits. Returns whether they are.

    near: the address of eight limits plus a quarter; lead: see `_request_ahead`.
    """
    rows = kinds[0].count
    starts, column = _starts(builder, x, stride, rows), builder.extract_value(place, 0)
    _request_ahead(builder, starts, column, kinds[4], lead)
    values = _mapped(builder, starts, place, kinds[4])
    sums = _longs_at(builder, total, column)
    return _add_if_within(builder, values, _load(builder, near, _ZERO), sums, rows)


@operation(types.boolean)
def clamp_column(
    builder: Builder, kinds: Kind, groups: Value, x: Value, like: Value, line: Value, sums: Value
) -> Value:
    """Like `clamp_rows`, for one column. line: its center, its scale, and its limit plus a quarter.

    sums: eight sums, of the first, second, ... values of every group.
    """
    centers, scales, nears = (_splat(builder, builder.extract_value(line, i)) for i in range(3))
    count = kinds[0].count
    loaded = (_load(builder, x, _I64(g * LANES), _element_kind(kinds[2])) for g in range(count))
    values = (builder.fmul(builder.fsub(value, centers), scales) for value in loaded)
    return _add_if_within(builder, values, nears, _longs_at(builder, sums), count)


@operation(types.uint64)
def add_unusual(
    builder: Builder,
    kinds: Kind,
    rows: Value,
    x: Value,
    stride: Value,
    column: Value,
    like: Value,
    frame: Value,
    sums: Value,
) -> Value:
    """Eight columns of up to eight rows of which some values are outside or missing.

    sums += clamped values, missing values, and values outside. frame: where eight centers, scales, limits, fills and
    edges are; sums: where the three sums are. Returns which values are outside, a bit each, row by row from the lowest.
    """
    center, scale, limit, fill, edge = (_load(builder, builder.extract_value(frame, i), _ZERO) for i in range(5))
    places = [_longs_at(builder, builder.extract_value(sums, i)) for i in range(3)]
    totals = [cgutils.alloca_once_value(builder, builder.load(place, align=8)) for place in places]
    outside = cgutils.alloca_once_value(builder, _ZERO)
    with cgutils.for_range(builder, rows) as loop:
        start = builder.add(x, builder.mul(stride, loop.index))
        value = _load(builder, start, column, _element_kind(kinds[4]))
        missing = builder.fcmp_unordered(">=", _absolute(builder, value), _constant(float("inf")))
        mapped = builder.fmul(builder.fsub(builder.select(missing, fill, value), center), scale)
        beyond = builder.fcmp_unordered(">", _absolute(builder, mapped), edge)
        beyond = builder.and_(beyond, builder.not_(missing))
        whole = builder.sub(_round_bits(builder, _clamp(builder, mapped, limit)), _whole(_MAGIC_BITS))
        added = whole, builder.zext(missing, _LONGS), builder.zext(beyond, _LONGS)
        for total, one in zip(totals, added, strict=True):
            builder.store(builder.add(builder.load(total), one), total)
        row = builder.zext(builder.bitcast(beyond, ir.IntType(LANES)), _I64)
        row = builder.shl(row, builder.mul(loop.index, _I64(LANES)))
        builder.store(builder.or_(builder.load(outside), row), outside)
    for place, total in zip(places, totals, strict=True):
        builder.store(builder.load(total), place, align=8)
    return builder.load(outside)


@operation(types.int64)
def lowest_bit(builder: Builder, kinds: Kind, bits: Value) -> Value:
    """The position of the lowest bit that is set."""
    return builder.cttz(bits, ir.Constant(ir.IntType(1), 0))


# The matrix map: products of four rows with a panel, in a fixed order [S1] ---------------------------------


@operation(types.UniTuple(_EIGHT, 8))
def load_quad(builder: Builder, kinds: Kind, products: Value, stride: Value) -> Value:
    """The running products of four rows in one panel: two vectors a row."""
    quad = ir.Constant(ir.ArrayType(_DOUBLES, 8), ir.Undefined)
    for i, start in enumerate(_starts(builder, products, stride, 4)):
        for h in range(2):
            quad = builder.insert_value(quad, _load(builder, start, _I64(h * LANES)), 2 * i + h)
    return quad


@operation(types.void)
def store_quad(builder: Builder, kinds: Kind, quad: Value, products: Value, stride: Value) -> None:
    """The inverse of `load_quad`."""
    for i, start in enumerate(_starts(builder, products, stride, 4)):
        for h in range(2):
            _store(builder, builder.extract_value(quad, 2 * i + h), start, _I64(h * LANES))


@operation(lambda quad, *_: quad)
def plus_products(
    builder: Builder, kinds: Kind, quad: Value, panel: Value, offsets: Value, stride: Value, column: Value
) -> Value:
    """quad + panel[column] * offset[column], the product rounded before the sum."""
    start = builder.mul(column, _I64(PANEL))
    halves = [_load(builder, panel, builder.add(start, _I64(LANES * h))) for h in range(2)]
    for i, row in enumerate(_starts(builder, offsets, stride, 4)):
        entry = builder.gep(builder.inttoptr(row, _F64.as_pointer()), [column])
        offset = _splat(builder, builder.load(entry))
        for h in range(2):
            product = builder.fmul(halves[h], offset)
            sums = builder.fadd(builder.extract_value(quad, 2 * i + h), product)
            quad = builder.insert_value(quad, sums, 2 * i + h)
    return quad


# Squares beside clamped values: eight values by the operations of one [S1] [S11] ---------------------------


def _squares(builder: Builder, value: Value, frame: list[Value]) -> Value:
    """Q (1 - (q/L)^2), rounded, of eight values, as integers; what a missing value adds instead."""
    center, scale, limit, units, missing = frame
    is_finite = builder.fcmp_ordered("<", _absolute(builder, value), _constant(float("inf")))
    mapped = _clamp(builder, builder.fmul(builder.fsub(value, center), scale), limit)
    q = builder.fsub(builder.fadd(mapped, _constant(_MAGIC)), _constant(_MAGIC))
    above = builder.fcmp_ordered(">", limit, _constant(1.0))
    share = builder.fdiv(q, builder.select(above, limit, _constant(1.0)))
    left = builder.fsub(_constant(1.0), builder.fmul(share, share))
    square = builder.select(is_finite, builder.fmul(units, left), missing)
    return builder.sub(_round_bits(builder, square), _whole(_MAGIC_BITS))


@operation(types.void)
def square_row(builder: Builder, kinds: Kind, x: Value, column: Value, like: Value, frame: Value, sums: Value) -> None:
    """sums[0:8] += the squares of eight values of a row from a column on; frame: where eight of each line are."""
    vectors = [_load(builder, builder.extract_value(frame, i), _ZERO) for i in range(5)]
    value = _load(builder, x, column, _element_kind(kinds[2]))
    place = _longs_at(builder, sums)
    builder.store(builder.add(builder.load(place, align=8), _squares(builder, value, vectors)), place, align=8)


@operation(types.void)
def square_column(
    builder: Builder, kinds: Kind, x: Value, groups: Value, like: Value, numbers: Value, sums: Value
) -> None:
    """sums[0:8] += the squares of the first, second, ... values of every group of eight in a column."""
    frame = [_splat(builder, builder.extract_value(numbers, i)) for i in range(5)]
    place = _longs_at(builder, sums)
    with cgutils.for_range(builder, groups) as loop:
        value = _load(builder, x, builder.mul(loop.index, _I64(LANES)), _element_kind(kinds[2]))
        builder.store(builder.add(builder.load(place, align=8), _squares(builder, value, frame)), place, align=8)
