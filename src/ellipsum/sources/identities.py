"""Identities of people: cells of any ordinary type as values that are equal if and only if the cells are. [T6]"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from hashlib import sha512
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ..errors import UsageError, named, shown
from ..kernels.blocks import floats

_LONGEST = 64
_NAMES = (date, time, timedelta, UUID, Decimal, Fraction)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves, beneath dictionaries and extensions."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def convert_plain(array: pa.Array | pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply `convert` to the values beneath chunks, extensions and dictionaries."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return convert_plain(array.storage, convert)
    if types.is_dictionary(array.type):
        return convert_plain(array.dictionary, convert).take(array.indices)
    return convert(array)


def is_text_type(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def key_kind(kind: pa.DataType, name: str, where: str) -> str:
    """Find how identities of this type are compared. It is a usage error if the type cannot identify people [T1].

    Sources of different kinds are never combined, because one person could then count as two.
    """
    plain = plain_type(kind)
    if types.is_integer(plain):
        return "uint64" if types.is_uint64(plain) else "integer"
    if is_text_type(plain):
        return "text"
    binary = types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary
    if any(test(plain) for test in binary):
        return "binary"
    if types.is_floating(plain):
        return "real"
    temporal = types.is_temporal(plain) and not types.is_interval(plain)
    if temporal or types.is_boolean(plain) or types.is_null(plain) or types.is_decimal128(plain):
        return str(plain)
    raise no_identity(name, str(kind), where)


def no_identity(name: str, kind: str, where: str) -> UsageError:
    """The error of a type that cannot identify people."""
    return UsageError(
        f"privacy_id names {named(name)} of {where}, which is of type {shown(kind)}. Use a column of whole numbers, "
        "text, dates or times."
    )


def storage(kind: str) -> pa.DataType:
    """The Arrow type in which identities of a kind are kept."""
    if kind in ("text", "binary") or kind.startswith("decimal"):
        return pa.large_binary()
    return {"uint64": pa.uint64(), "real": pa.float64()}.get(kind, pa.int64())


def canonicalize(array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array:
    """Convert identities to their storage type, where they are equal if and only if the cells are equal.

    Text is compared byte by byte. A NaN, like a null, is no identity and becomes null. The two zeros are one number.
    """
    target = storage(kind)

    def convert(array: pa.Array) -> pa.Array:
        if kind == "real":
            return _canonical_reals(array)
        if types.is_null(array.type):
            return pa.nulls(len(array), target)
        if types.is_decimal(array.type):
            return array.view(pa.binary(array.type.byte_width)).cast(target)
        if types.is_temporal(array.type):
            return array.view(pa.int32()).cast(target) if array.type.bit_width == 32 else array.view(target)
        return shorten_identities(array.cast(target)) if target == pa.large_binary() else array.cast(target)

    return convert_plain(array, convert)


def shorten_identities(array: pa.Array) -> pa.Array:
    """Replace identities of more than 64 bytes by a digest of 65 bytes [T6].

    No shorter identity equals a digest, and the memory for an identity is bounded.
    """
    long = pc.fill_null(pc.greater(pc.binary_length(array), _LONGEST), False)
    if not pc.any(long, min_count=0).as_py():
        return array
    digests = [b"#" + sha512(cell.as_buffer()).digest() for cell in array.filter(long)]
    return pc.replace_with_mask(array, long, pa.array(digests, pa.large_binary()))


def _canonical_reals(array: pa.Array) -> pa.Array:
    if types.is_float16(array.type):
        array = array.cast(pa.float32())
    numbers = floats(array.cast(pa.float64()).to_numpy(zero_copy_only=False), copy=True)
    numbers[numbers == 0.0] = 0.0  # the two zeros are one number
    return pa.array(numbers, from_pandas=True)  # NaN becomes null


def encode_identity(value: object) -> bytes | None:
    """Encode a Python value as an identity. Equal numbers are one, other values are compared by type and text [T6]."""
    try:
        return _encode(value)
    except Exception:  # the value cannot be compared
        return None


def _encode(value: object) -> bytes | None:
    if isinstance(value, str):
        return b"t" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, (int, np.integer, np.bool_)):
        return b"n%x" % int(value)
    if isinstance(value, (float, np.floating)):
        real = float(value)
        if real != value:  # a long double may lie between two doubles
            return None
        return b"n%x" % int(real) if real.is_integer() else b"n" + real.hex().encode()
    if isinstance(value, _NAMES) and value == value:
        return f"o{type(value).__name__} {value}".encode("utf-8", "surrogatepass")
    return None


def encode_identities(values: Iterable[object]) -> pa.Array:
    """Encode the identities in a list as an Arrow array."""
    return pa.array([encode_identity(value) for value in values], pa.large_binary())
