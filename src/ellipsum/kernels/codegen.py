"""Code generators: the few operations on vectors of eight doubles that the kernels are made of.

A numba type that holds eight doubles fixes which sums are formed in which order: the same bits on every processor
and for a row wherever it lies in a block ([S1]).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import llvmlite.ir  # type: ignore[import-untyped]
import numba
import numba.core.cgutils
import numba.extending
import numpy as np

from ..util.compile import inner
from .memory import LANES, PANEL, ROWS, first_cache

# compilers' parts whose types say nothing useful here
ir: Any = llvmlite.ir
types: Any = numba.types
cgutils: Any = numba.core.cgutils
extending: Any = numba.extending

_MAGIC = 1.5 * 2.0**52  # v + _MAGIC has the bits of _MAGIC plus rint(v) for |v| <= 2^50 ([S2])
_MAGIC_BITS = int(np.float64(_MAGIC).view(np.int64))
_ODD_BIT = 1 << 61  # set in a NaN and in an infinity, clear in what is near _MAGIC
_AHEAD = first_cache() // 4  # bytes asked for before they are read: what else is read on the way pushes more out again
_WIDE = 24  # columns: narrower rows lie so close that it does to ask once
GROUP = (0.0,) * LANES
FOUR = (0.0,) * ROWS
SINGLE = (0.0,)

_F64, _F32, _I64, _I32 = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(32)
_BYTE = ir.IntType(8).as_pointer()
_DOUBLES, _LONGS = ir.VectorType(_F64, LANES), ir.VectorType(_I64, LANES)


class _EightDoubles(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="eight_doubles")


@extending.register_model(_EightDoubles)  # type: ignore[misc]
class _EightDoublesModel(extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)


_EIGHT = _EightDoubles()


def _load(builder: Any, address: Any, index: Any, kind: Any = _F64) -> Any:
    pointer = builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])
    vector = builder.load(
        builder.bitcast(pointer, ir.VectorType(kind, LANES).as_pointer()), align=4 if kind is _F32 else 8
    )
    return builder.fpext(vector, _DOUBLES) if kind is _F32 else vector


def _store(builder: Any, vector: Any, address: Any, index: Any) -> None:
    pointer = builder.gep(builder.inttoptr(address, _F64.as_pointer()), [index])
    builder.store(vector, builder.bitcast(pointer, _DOUBLES.as_pointer()), align=8)


def _spread(builder: Any, vector: Any, lane: int) -> Any:
    """One lane in all eight."""
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_I32, LANES), [lane] * LANES))


def _splat(builder: Any, number: Any) -> Any:
    return _spread(builder, builder.insert_element(ir.Constant(_DOUBLES, ir.Undefined), number, _I32(0)), 0)


def _element_kind(like: Any) -> Any:
    return _F32 if like == types.float32 else _F64


def _starts(builder: Any, x: Any, stride: Any, rows: int) -> list[Any]:
    """Where the rows of a group begin."""
    return [builder.add(x, builder.mul(stride, _I64(i))) for i in range(rows)]


def _mapped(builder: Any, starts: list[Any], place: Any, like: Any) -> Iterator[Any]:
    """(x - center) * scale at eight columns of each row: the only spelling of the map ([S1])."""
    column, center, scale, scale_index = (builder.extract_value(place, i) for i in range(4))
    centers, scales = _load(builder, center, column), _load(builder, scale, scale_index)
    for start in starts:
        value = _load(builder, start, column, _element_kind(like))
        yield builder.fmul(builder.fsub(value, centers), scales)


@extending.intrinsic  # type: ignore[untyped-decorator]
def address(typing: Any, array: Any) -> Any:
    """Where an array begins (numba's own answer is unsigned, and unsigned + signed is a float)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(context.make_array(array)(context, builder, args[0]).data, _I64)

    return types.int64(array), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def element(typing: Any, address: Any, index: Any, like: Any) -> Any:
    """One entry as a double."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = _element_kind(like)
        value = builder.load(builder.gep(builder.inttoptr(args[0], kind.as_pointer()), [args[1]]))
        return builder.fpext(value, _F64) if kind is _F32 else value

    return types.float64(types.int64, types.int64, like), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def entry_size(typing: Any, like: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _I64(4 if like == types.float32 else 8)

    return types.int64(like), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def zero_lanes(typing: Any, group: Any) -> Any:
    """A zero vector for each row of the group."""
    result = types.UniTuple(_EIGHT, group.count)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(_DOUBLES, [0.0] * LANES)
        return ir.Constant(ir.ArrayType(_DOUBLES, group.count), [zero] * group.count)

    return result(group), generate


def _plus_squares(builder: Any, lanes: Any, values: Iterator[Any], rows: int) -> Any:
    """lanes + mapped^2, row by row."""
    for i in range(rows):
        value = next(values)
        sums = builder.fadd(builder.extract_value(lanes, i), builder.fmul(value, value))
        lanes = builder.insert_value(lanes, sums, i)
    return lanes


def _add_rounded(builder: Any, values: Iterator[Any], rows: int, factors: Any, total: Any, column: Any) -> None:
    """total[column:column+8] += rint(mapped * factor) over the rows ([S2])."""
    pointer = builder.gep(builder.inttoptr(total, _I64.as_pointer()), [column])
    pointer = builder.bitcast(pointer, _LONGS.as_pointer())
    magic = ir.Constant(_DOUBLES, [_MAGIC] * LANES)
    excess = ir.Constant(_LONGS, [rows * _MAGIC_BITS % 2**64] * LANES)
    sums = builder.sub(builder.load(pointer, align=8), excess)
    for i in range(rows):
        scaled = builder.fmul(next(values), _spread(builder, factors, i))
        sums = builder.add(sums, builder.bitcast(builder.fadd(scaled, magic), _LONGS))
    builder.store(sums, pointer, align=8)


@extending.intrinsic  # type: ignore[untyped-decorator]
def plus_squares(typing: Any, lanes: Any, x: Any, place: Any, like: Any) -> Any:
    """lanes + mapped^2 of the one row at x; place: (column, centers, scales, index of the scale)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes_now, x_now, place_now, _ = args
        return _plus_squares(builder, lanes_now, _mapped(builder, [x_now], place_now, like), 1)

    return lanes(lanes, types.int64, place, like), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def add_rounded(typing: Any, factors: Any, x: Any, place: Any, like: Any, total: Any) -> Any:
    """total[column:column+8] += rint(mapped * factor) of the one row at x."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        factors_now, x_now, place_now, _, total_now = args
        column = builder.extract_value(place_now, 0)
        _add_rounded(builder, _mapped(builder, [x_now], place_now, like), 1, factors_now, total_now, column)
        return context.get_dummy_value()

    return types.void(factors, types.int64, place, like, types.int64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def add_and_square(
    typing: Any, lanes: Any, factors: Any, groups: Any, place: Any, like: Any, total: Any, leads: Any
) -> Any:
    """As `add_rounded` for the rows of one group and `plus_squares` for those of the next, in one reading.

    groups: where the one and the other begin, and bytes from row to row; leads: see `_ask_ahead`.
    """
    rows = lanes.count

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes_now, factors_now, groups_now, place_now, _, total_now, leads_now = args
        first, second, stride = (builder.extract_value(groups_now, i) for i in range(3))
        old, new = _starts(builder, first, stride, rows), _starts(builder, second, stride, rows)
        column = builder.extract_value(place_now, 0)
        _ask_ahead(builder, new, column, like, leads_now)
        values = _mapped(builder, [*old, *new], place_now, like)
        _add_rounded(builder, values, rows, factors_now, total_now, column)
        return _plus_squares(builder, lanes_now, values, rows)

    return lanes(lanes, factors, groups, place, like, types.int64, leads), generate


def _halve(builder: Any, first: Any, second: Any, half: int) -> Any:
    """Adds the halves of each run of 2 half lanes; the runs of the second vector follow those of the first."""
    starts = [run + lane for run in range(0, 2 * LANES, 2 * half) for lane in range(half)]
    kind = ir.VectorType(_I32, LANES)
    low = builder.shuffle_vector(first, second, ir.Constant(kind, starts))
    high = builder.shuffle_vector(first, second, ir.Constant(kind, [start + half for start in starts]))
    return builder.fadd(low, high)


@extending.intrinsic  # type: ignore[untyped-decorator]
def lane_sums(typing: Any, lanes: Any) -> Any:
    """Each row's eight lanes added as ((0+4)+(2+6)) + ((1+5)+(3+7)): one vector for the group."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vectors = [builder.extract_value(args[0], i) for i in range(lanes.count)]
        vectors += [ir.Constant(_DOUBLES, [0.0] * LANES)] * (LANES - lanes.count)
        half = LANES // 2
        while half:
            vectors = [_halve(builder, vectors[i], vectors[i + 1], half) for i in range(0, 2 * half, 2)]
            half //= 2
        return vectors[0]

    return _EIGHT(lanes), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def all_below(typing: Any, squares: Any, limit: Any) -> Any:
    """Whether every lane is below the limit (a NaN is not)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        below = builder.fcmp_ordered("<", args[0], _splat(builder, args[1]))
        return builder.icmp_unsigned("==", builder.bitcast(below, ir.IntType(8)), ir.IntType(8)(255))

    return types.boolean(squares, types.float64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def everywhere(typing: Any, number: Any) -> Any:
    """A number in all eight lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, args[0])

    return _EIGHT(types.float64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def clipping_factors(typing: Any, squares: Any, grid: Any, pulled: Any) -> Any:
    """grid where the norm is at most 1, else pulled / norm: the clip ([S2], [S10])."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
        root = cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.v8f64")
        whole = _splat(builder, args[1])
        clipped = builder.fdiv(_splat(builder, args[2]), builder.call(root, [args[0]]))
        outside = builder.fcmp_ordered(">", args[0], ir.Constant(_DOUBLES, [1.0] * LANES))
        return builder.select(outside, clipped, whole)

    return squares(squares, types.float64, types.float64), generate


def _prefetch(builder: Any, address: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_BYTE, _I32, _I32, _I32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE], kind)
    builder.call(function, [builder.inttoptr(address, _BYTE), _I32(0), _I32(3), _I32(1)])


@extending.intrinsic  # type: ignore[untyped-decorator]
def fetch_ahead(typing: Any, address: Any) -> Any:
    """Ask for the cache line at an address, which need not be valid."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _prefetch(builder, values[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _ask_ahead(builder: Any, starts: list[Any], column: Any, like: Any, leads: Any) -> None:
    """Ask for what lies so many bytes ahead of a column of each row, by two leads unless they are the same.

    A processor with much to fetch forgets what it is asked for: a line is asked for twice. Eight singles are half a
    line, and the leads take turns. Addresses are made from those that are read next: the loop has few registers.
    """
    first, second = (builder.extract_value(leads, i) for i in range(2))
    size = 4 if like == types.float32 else 8
    offset = builder.mul(column, _I64(size))

    def ask(lead: Any) -> None:
        for start in starts:
            _prefetch(builder, builder.add(lead, builder.add(start, offset)))

    if size == 4:
        odd = builder.trunc(builder.udiv(column, _I64(LANES)), ir.IntType(1))
        ask(builder.select(odd, second, first))
    else:
        ask(first)
        with builder.if_then(builder.icmp_unsigned("!=", first, second)):
            ask(second)


@extending.intrinsic  # type: ignore[untyped-decorator]
def map_column(
    typing: Any, groups: Any, fresh: Any, x: Any, like: Any, center: Any, scale: Any, mapped: Any, lane: Any
) -> Any:
    """mapped = (x - center) * scale, for eight rows of each group: the operations of `_mapped`.

    lane += mapped^2; where `fresh` is a tuple of one the lane held nothing yet: lane = mapped^2.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, _, x_now, _, center_now, scale_now, mapped_now, lane_now = args
        centers, scales = _splat(builder, center_now), _splat(builder, scale_now)
        for g in range(groups.count):
            place = _I64(g * LANES)
            value = _load(builder, x_now, place, _element_kind(like))
            value = builder.fmul(builder.fsub(value, centers), scales)
            _store(builder, value, mapped_now, place)
            square = builder.fmul(value, value)
            sums = square if fresh.count == 1 else builder.fadd(_load(builder, lane_now, place), square)
            _store(builder, sums, lane_now, place)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(groups, fresh, whole, like, types.float64, types.float64, whole, whole), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def across_lanes(typing: Any, lanes: Any, group: Any) -> Any:
    """The eight lanes of eight rows added as `lane_sums` adds them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.mul(args[1], _I64(LANES))
        size = LANES * LANES  # a lane holds eight groups of eight rows
        vectors = [_load(builder, args[0], builder.add(place, _I64(k * size))) for k in range(LANES)]
        while len(vectors) > 1:
            half = len(vectors) // 2
            vectors = [builder.fadd(vectors[k], vectors[k + half]) for k in range(half)]
        return vectors[0]

    return _EIGHT(types.int64, types.int64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def keep_vector(typing: Any, vector: Any, place: Any) -> Any:
    """Eight lanes into memory."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _store(builder, args[0], args[1], _I64(0))
        return context.get_dummy_value()

    return types.void(vector, types.int64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def add_column(typing: Any, groups: Any, mapped: Any, factors: Any, sums: Any) -> Any:
    """sums += rint(mapped * factor): eight sums, of the first, second, ... rows of every group."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, mapped_now, factors_now, sums_now = args
        pointer = builder.bitcast(builder.inttoptr(sums_now, _I64.as_pointer()), _LONGS.as_pointer())
        magic = ir.Constant(_DOUBLES, [_MAGIC] * LANES)
        excess = ir.Constant(_LONGS, [groups.count * _MAGIC_BITS % 2**64] * LANES)
        total = builder.sub(builder.load(pointer, align=8), excess)
        for g in range(groups.count):
            place = _I64(g * LANES)
            scaled = builder.fmul(_load(builder, mapped_now, place), _load(builder, factors_now, place))
            total = builder.add(total, builder.bitcast(builder.fadd(scaled, magic), _LONGS))
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return types.void(groups, *[types.int64] * 3), generate


# How far ahead rows ask memory for what they read next -----------------------------------------------------


@inner
def _lead(ahead: int, group: int, length: int, size: int) -> tuple[int, int, int]:
    """How many bytes ahead a row asks for what follows it, and from which column on how many.

    Behind a row's end follows the row of the next group that is in its place: each is a stream of its own.
    """
    groups, rest = ahead // length, ahead % length
    near = groups * group + rest
    return near, (length - rest) // size, near + group - length


@inner
def leads(stride: int, rows: int, like: Any, width: int) -> Any:
    """How far ahead the rows of a group ask for what follows them: at first, and once more halfway; see `_lead`."""
    size, ahead = entry_size(like), _AHEAD // rows
    again = ahead // 2 if width >= _WIDE else ahead
    return _lead(ahead, rows * stride, size * width, size), _lead(again, rows * stride, size * width, size)


@inner
def leads_at(j: int, ahead: Any) -> tuple[int, int]:
    """How many bytes ahead is asked at a column: at first, and halfway; ahead: see `leads`."""
    (near, turn, far), (nearer, later, last) = ahead
    return near if j < turn else far, nearer if j < later else last


# The clamp: eight cells by the operations of one [S1] [S9] -------------------------------------------------


def _clamped(builder: Any, mapped: Any, limit: Any) -> Any:
    """clip(mapped, -limit, limit) + magic: the only spelling of the clamp in vectors ([S9])."""
    mapped = builder.select(builder.fcmp_ordered("<", mapped, limit), mapped, limit)  # of a NaN (inf * 0): limit
    least = builder.fneg(limit)
    mapped = builder.select(builder.fcmp_ordered(">", mapped, least), mapped, least)
    return builder.fadd(mapped, ir.Constant(_DOUBLES, [_MAGIC] * LANES))


def _added_within(builder: Any, values: Iterable[Any], near: Any, sums: Any) -> tuple[Any, Any]:
    """sums + rint(value) over mapped entries, and whether no clamp would change any of them ([S9]).

    near: a quarter above each limit, so that a value up to there rounds to the limit at most.
    """
    magic = ir.Constant(_DOUBLES, [_MAGIC] * LANES)
    most = least = seen = None
    for value in values:
        most = value if most is None else builder.select(builder.fcmp_ordered(">", value, most), value, most)
        least = value if least is None else builder.select(builder.fcmp_ordered("<", value, least), value, least)
        bits = builder.bitcast(builder.fadd(value, magic), _LONGS)
        sums = builder.add(sums, bits)
        seen = bits if seen is None else builder.or_(seen, bits)
    odd = builder.and_(seen, ir.Constant(_LONGS, [_ODD_BIT] * LANES))  # most and least skip what is no number
    within = builder.icmp_signed("==", odd, ir.Constant(_LONGS, [0] * LANES))
    within = builder.and_(within, builder.fcmp_ordered("<=", most, near))
    within = builder.and_(within, builder.fcmp_ordered(">=", least, builder.fneg(near)))
    return sums, builder.icmp_unsigned("==", builder.bitcast(within, ir.IntType(8)), ir.IntType(8)(255))


@extending.intrinsic  # type: ignore[untyped-decorator]
def clamp_rows(
    typing: Any, group: Any, x: Any, stride: Any, place: Any, like: Any, near: Any, total: Any, leads: Any
) -> Any:
    """total[column:column+8] += the entries of a group of rows, where all are within their limits: whether they are.

    near: where eight limits and a quarter lie; leads: see `_ask_ahead`.
    """
    rows = group.count

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, x_now, stride_now, place_now, _, near_now, total_now, leads_now = args
        starts, column = _starts(builder, x_now, stride_now, rows), builder.extract_value(place_now, 0)
        _ask_ahead(builder, starts, column, like, leads_now)
        pointer = builder.gep(builder.inttoptr(total_now, _I64.as_pointer()), [column])
        pointer = builder.bitcast(pointer, _LONGS.as_pointer())
        excess = ir.Constant(_LONGS, [rows * _MAGIC_BITS % 2**64] * LANES)
        sums = builder.sub(builder.load(pointer, align=8), excess)
        values = _mapped(builder, starts, place_now, like)
        sums, within = _added_within(builder, values, _load(builder, near_now, _I64(0)), sums)
        with builder.if_then(within, likely=True):
            builder.store(sums, pointer, align=8)
        return within

    return types.boolean(group, types.int64, types.int64, place, like, types.int64, types.int64, leads), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def clamp_column(typing: Any, groups: Any, x: Any, like: Any, center: Any, scale: Any, near: Any, sums: Any) -> Any:
    """As `clamp_rows`, for one column: eight sums, of the first, second, ... entries of every group."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, x_now, _, center_now, scale_now, near_now, sums_now = args
        centers, scales, nears = (_splat(builder, number) for number in (center_now, scale_now, near_now))
        pointer = builder.bitcast(builder.inttoptr(sums_now, _I64.as_pointer()), _LONGS.as_pointer())
        excess = ir.Constant(_LONGS, [groups.count * _MAGIC_BITS % 2**64] * LANES)
        loaded = (_load(builder, x_now, _I64(g * LANES), _element_kind(like)) for g in range(groups.count))
        values = (builder.fmul(builder.fsub(value, centers), scales) for value in loaded)
        before = builder.sub(builder.load(pointer, align=8), excess)
        total, within = _added_within(builder, values, nears, before)
        with builder.if_then(within, likely=True):
            builder.store(total, pointer, align=8)
        return within

    return types.boolean(groups, types.int64, like, *[types.float64] * 3, types.int64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def some_absent(typing: Any, group: Any, x: Any, stride: Any, column: Any, like: Any) -> Any:
    """Whether eight columns of a group of rows have an entry that is no finite number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, x_now, stride_now, column_now, _ = args
        sums = zero = ir.Constant(_DOUBLES, [0.0] * LANES)
        for start in _starts(builder, x_now, stride_now, group.count):  # 0 times what is no finite number is none
            value = _load(builder, start, column_now, _element_kind(like))
            sums = builder.fadd(sums, builder.fmul(value, zero))
        absent = builder.fcmp_unordered("uno", sums, sums)
        return builder.icmp_unsigned("!=", builder.bitcast(absent, ir.IntType(8)), ir.IntType(8)(0))

    return types.boolean(group, *[types.int64] * 3, like), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def add_unusual(typing: Any, x: Any, column: Any, like: Any, frame: Any, sums: Any) -> Any:
    """Eight entries of which some are outside or missing: sums += clamped entries, absences, and entries outside.

    frame: where eight centers, scales, limits, fills and edges lie; sums: where the three sums lie.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x_now, column_now, _, frame_now, sums_now = args
        zero = _I64(0)
        vectors = [_load(builder, builder.extract_value(frame_now, i), zero) for i in range(5)]
        center, scale, limit, fill, edge = vectors
        value = _load(builder, x_now, column_now, _element_kind(like))
        kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
        size = cgutils.get_or_insert_function(builder.module, kind, "llvm.fabs.v8f64")
        infinite = ir.Constant(_DOUBLES, [float("inf")] * LANES)
        missing = builder.fcmp_unordered(">=", builder.call(size, [value]), infinite)
        entry = builder.select(missing, fill, value)
        mapped = builder.fmul(builder.fsub(entry, center), scale)
        beyond = builder.fcmp_unordered(">", builder.call(size, [mapped]), edge)
        beyond = builder.and_(beyond, builder.not_(missing))
        bits = builder.bitcast(_clamped(builder, mapped, limit), _LONGS)
        whole = builder.sub(bits, ir.Constant(_LONGS, [_MAGIC_BITS] * LANES))
        ones = [whole, builder.zext(missing, _LONGS), builder.zext(beyond, _LONGS)]
        for i, addend in enumerate(ones):
            place = builder.inttoptr(builder.extract_value(sums_now, i), _LONGS.as_pointer())
            builder.store(builder.add(builder.load(place, align=8), addend), place, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, like, frame, sums), generate


# The matrix map: products of four rows with a panel, in a fixed order [S1] ---------------------------------


@extending.intrinsic  # type: ignore[untyped-decorator]
def load_quad(typing: Any, products: Any, stride: Any) -> Any:
    """The running products of four rows in one panel: two vectors a row."""
    result = types.UniTuple(_EIGHT, 8)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        quad = ir.Constant(ir.ArrayType(_DOUBLES, 8), ir.Undefined)
        for i in range(8):
            start = builder.add(args[0], builder.mul(args[1], _I64(i // 2)))
            quad = builder.insert_value(quad, _load(builder, start, _I64(i % 2 * LANES)), i)
        return quad

    return result(types.int64, types.int64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def store_quad(typing: Any, quad: Any, products: Any, stride: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for i in range(8):
            start = builder.add(args[1], builder.mul(args[2], _I64(i // 2)))
            _store(builder, builder.extract_value(args[0], i), start, _I64(i % 2 * LANES))
        return context.get_dummy_value()

    return types.void(quad, types.int64, types.int64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def plus_products(typing: Any, quad: Any, panel: Any, offsets: Any, stride: Any, column: Any) -> Any:
    """quad + panel[column] * offset[column], the product rounded before the sum."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        quad_now, panel_now, offsets_now, stride_now, column_now = args
        start = builder.mul(column_now, _I64(PANEL))
        halves = [_load(builder, panel_now, builder.add(start, _I64(LANES * h))) for h in range(2)]
        for i in range(8):
            if i % 2 == 0:
                row = builder.add(offsets_now, builder.mul(stride_now, _I64(i // 2)))
                entry = builder.gep(builder.inttoptr(row, _F64.as_pointer()), [column_now])
                offset = _splat(builder, builder.load(entry))
            product = builder.fmul(halves[i % 2], offset)
            sums = builder.fadd(builder.extract_value(quad_now, i), product)
            quad_now = builder.insert_value(quad_now, sums, i)
        return quad_now

    return quad(quad, *[types.int64] * 4), generate


# Squares beside clamped values: eight cells by the operations of one [S1] [S11] ----------------------------


def _constant(number: float) -> Any:
    return ir.Constant(_DOUBLES, [number] * LANES)


def _squares(builder: Any, value: Any, frame: Any) -> Any:
    """Q (1 - (q/L)^2), rounded, of eight cells, as integers; what an absent cell adds in its place."""
    center, scale, limit, units, absent = frame
    kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
    size = cgutils.get_or_insert_function(builder.module, kind, "llvm.fabs.v8f64")
    there = builder.fcmp_ordered("<", builder.call(size, [value]), _constant(float("inf")))
    mapped = builder.fmul(builder.fsub(value, center), scale)
    q = builder.fsub(_clamped(builder, mapped, limit), _constant(_MAGIC))
    above = builder.fcmp_ordered(">", limit, _constant(1.0))
    share = builder.fdiv(q, builder.select(above, limit, _constant(1.0)))
    left = builder.fsub(_constant(1.0), builder.fmul(share, share))
    square = builder.select(there, builder.fmul(units, left), absent)
    bits = builder.bitcast(builder.fadd(square, _constant(_MAGIC)), _LONGS)
    return builder.sub(bits, ir.Constant(_LONGS, [_MAGIC_BITS] * LANES))


@extending.intrinsic  # type: ignore[untyped-decorator]
def square_row(typing: Any, x: Any, column: Any, like: Any, frame: Any, sums: Any) -> Any:
    """sums[0:8] += the squares of eight entries of a row from a column on; frame: where eight of each line lie."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x_now, column_now, _, frame_now, sums_now = args
        vectors = [_load(builder, builder.extract_value(frame_now, i), _I64(0)) for i in range(5)]
        value = _load(builder, x_now, column_now, _element_kind(like))
        place = builder.inttoptr(sums_now, _LONGS.as_pointer())
        total = builder.add(builder.load(place, align=8), _squares(builder, value, vectors))
        builder.store(total, place, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, like, frame, types.int64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def square_column(typing: Any, x: Any, groups: Any, like: Any, numbers: Any, sums: Any) -> Any:
    """sums[0:8] += the squares of the first, second, ... entries of every group of eight in a column."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x_now, groups_now, _, numbers_now, sums_now = args
        frame = [_splat(builder, builder.extract_value(numbers_now, i)) for i in range(5)]
        place = builder.inttoptr(sums_now, _LONGS.as_pointer())
        with cgutils.for_range(builder, groups_now) as loop:
            value = _load(builder, x_now, builder.mul(loop.index, _I64(LANES)), _element_kind(like))
            total = builder.add(builder.load(place, align=8), _squares(builder, value, frame))
            builder.store(total, place, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, like, numbers, types.int64), generate
