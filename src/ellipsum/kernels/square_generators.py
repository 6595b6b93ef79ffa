"""Code generators of squares beside clamped values: eight cells by the operations of one ([S1], [S11])."""

from __future__ import annotations

from typing import Any

from .clamp_generators import _clamped
from .generators import (
    _DOUBLES,
    _I64,
    _LONGS,
    _MAGIC,
    _MAGIC_BITS,
    _element_kind,
    _load,
    _splat,
    cgutils,
    extending,
    ir,
    types,
)
from .layout import LANES


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
