"""Code generators of the clamp: eight cells by the operations of one ([S1], [S9])."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .generators import (
    _DOUBLES,
    _I64,
    _LONGS,
    _MAGIC,
    _MAGIC_BITS,
    _ask_ahead,
    _element_kind,
    _load,
    _mapped,
    _splat,
    _starts,
    cgutils,
    extending,
    ir,
    types,
)
from .layout import LANES

_ODD_BIT = 1 << 61  # set in a NaN and in an infinity, clear in what is near _MAGIC


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
