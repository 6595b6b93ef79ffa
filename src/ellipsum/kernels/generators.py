"""Code generators: the few operations on vectors of eight doubles that the kernels are made of.

A numba type that holds eight doubles fixes which sums are formed in which order: the same bits on every processor
and for a row wherever it lies in a block ([S1]).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llvmlite.ir  # type: ignore[import-untyped]
import numba
import numba.core.cgutils
import numba.extending
import numpy as np

from .layout import LANES, ROWS

# compilers' parts whose types say nothing useful here
ir: Any = llvmlite.ir
types: Any = numba.types
cgutils: Any = numba.core.cgutils
extending: Any = numba.extending

_MAGIC = 1.5 * 2.0**52  # v + _MAGIC has the bits of _MAGIC plus rint(v) for |v| <= 2^50 ([S2])
_MAGIC_BITS = int(np.float64(_MAGIC).view(np.int64))
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
