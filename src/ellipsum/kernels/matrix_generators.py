"""Code generators of the matrix map: products of four rows with a panel, in a fixed order ([S1])."""

from __future__ import annotations

from typing import Any

from .generators import (
    _DOUBLES,
    _EIGHT,
    _F64,
    _I64,
    _load,
    _splat,
    _store,
    extending,
    ir,
    types,
)
from .layout import LANES, PANEL


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
