"""Identities of people: a column of any ordinary type as values that are equal exactly where cells are. [T6]"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from hashlib import sha512
from typing import Any
from uuid import UUID

import numpy as np

from ..errors import UsageError, named, shown
from ..kernels.blocks import floats

Keys = Any
"""An Arrow array of one of the types in `storage`; null where a row names nobody."""
_LONGEST = 64
_NAMES = (date, time, timedelta, UUID, Decimal, Fraction)


def plain_type(kind: Any) -> Any:
    """The type of the values themselves: beneath dictionaries and extensions."""
    import pyarrow as pa

    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def key_kind(kind: Any, name: str, where: str) -> str:
    """How identities of this type are compared; a usage error for types that cannot name people.

    Sources of different kinds never mix: one person would be two. Depends on the type alone [T1].
    """
    from pyarrow import types

    plain = plain_type(kind)
    if types.is_integer(plain):
        return "uint64" if types.is_uint64(plain) else "integer"
    if types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain):
        return "text"
    if types.is_binary(plain) or types.is_large_binary(plain) or types.is_binary_view(plain):
        return "binary"
    if types.is_fixed_size_binary(plain):
        return "binary"
    if types.is_floating(plain):
        return "real"
    if types.is_boolean(plain) or types.is_null(plain):
        return str(plain)
    if types.is_temporal(plain) and not types.is_interval(plain):
        return str(plain)
    if types.is_decimal128(plain):
        return str(plain)
    raise no_identity(name, str(kind), where)


def no_identity(name: str, kind: str, where: str) -> UsageError:
    """The error of a type that cannot name people."""
    return UsageError(
        f"privacy_id names {named(name)} of {where}, which is of type {shown(kind)}. People are told apart by "
        "whole numbers, text, dates or times."
    )


def storage(kind: str) -> Any:
    """The Arrow type in which identities of a kind are kept."""
    import pyarrow as pa

    if kind == "uint64":
        return pa.uint64()
    if kind == "real":
        return pa.float64()
    if kind in ("text", "binary") or kind.startswith("decimal"):
        return pa.large_binary()
    return pa.int64()


def canonical(array: Any, kind: str) -> Keys:
    """The identities in their storage type: equal if and only if the cells are, whatever else is in the array.

    Text is compared byte by byte. A NaN names nobody, like a null; the two zeros are one number.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return canonical(array.storage, kind)
    if pa.types.is_dictionary(array.type):
        return canonical(array.dictionary, kind).take(array.indices)
    target = storage(kind)
    if kind == "real":
        return _reals(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_decimal(array.type):
        return array.view(pa.binary(array.type.byte_width)).cast(target)
    if pa.types.is_temporal(array.type) and array.type.bit_width == 32:
        return array.view(pa.int32()).cast(target)
    if pa.types.is_temporal(array.type):
        return array.view(target)
    return bounded(array.cast(target)) if target == pa.large_binary() else array.cast(target)


def bounded(array: Keys) -> Keys:
    """Binary identities, those of more than 64 bytes by their digest: 65 bytes, so that it is no shorter one's [T6].

    What follows then needs no more memory for one cell than for another.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    long = pc.fill_null(pc.greater(pc.binary_length(array), _LONGEST), False)
    if not pc.any(long, min_count=0).as_py():
        return array
    digests = [b"#" + sha512(cell.as_buffer()).digest() for cell in array.filter(long)]
    return pc.replace_with_mask(array, long, pa.array(digests, pa.large_binary()))


def _reals(array: Any) -> Keys:
    import pyarrow as pa

    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    numbers = floats(array.cast(pa.float64()).to_numpy(zero_copy_only=False), copy=True)
    numbers[numbers == 0.0] = 0.0  # the two zeros are one number
    return pa.array(numbers, from_pandas=True)  # NaN becomes null


def identity(value: Any) -> bytes | None:
    """The person that a value names: equal numbers are one, other values go by type and text; None is nobody [T6]."""
    try:
        return _identity(value)
    except Exception:  # nothing that can be compared
        return None


def _identity(value: Any) -> bytes | None:
    if isinstance(value, str):
        return b"t" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, (int, np.integer, np.bool_)):
        return b"n%x" % int(value)
    if isinstance(value, (float, np.floating)):
        return _real(float(value)) if float(value) == value else None  # a long double may be between the doubles
    if isinstance(value, _NAMES) and value == value:
        return f"o{type(value).__name__} {value}".encode("utf-8", "surrogatepass")
    return None


def _real(value: float) -> bytes:
    return b"n%x" % int(value) if value.is_integer() else b"n" + value.hex().encode()


def identities(values: Iterable[Any]) -> Any:
    """The identities in a list, as Arrow has them."""
    import pyarrow as pa

    return pa.array([identity(value) for value in values], pa.large_binary())
