"""The Arrow types in which Spark hands columns over: numbers, lists of them, and identities of people."""

from __future__ import annotations

from typing import Any

from ..arrow import not_a_number
from ..identities import key_kind, no_identity


def number_type(field: Any) -> Any:
    """The Arrow type of a column of numbers, or of arrays of numbers; a usage error for any other."""
    import pyarrow as pa

    kind = field.dataType
    if kind.typeName() == "array":
        item = _number(kind.elementType)
        arrow_type = None if item is None else pa.list_(item)
    else:
        arrow_type = _number(kind)
    if arrow_type is None:
        raise not_a_number(field.name, str(kind.simpleString()), "data")
    return arrow_type


def key_of(field: Any) -> str:
    """How the identities of a column are compared (`keys.key_kind`); a usage error for types that name nobody."""
    return key_kind(label_type(field), field.name, "data")


def label_type(field: Any) -> Any:
    """The Arrow type of a column that names people or groups; a usage error for types that cannot."""
    import pyarrow as pa

    kind = field.dataType
    others = {
        "string": pa.string(),
        "varchar": pa.string(),
        "char": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "time": pa.time64("ns"),
        "daytimeinterval": pa.duration("us"),
    }
    arrow_type = _number(kind) or others.get(str(kind.typeName()))
    if arrow_type is None:
        raise no_identity(field.name, str(kind.simpleString()), "data")
    return arrow_type


def _number(kind: Any) -> Any:
    import pyarrow as pa

    name = str(kind.typeName())
    if name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    plain = {
        "byte": pa.int8,
        "short": pa.int16,
        "integer": pa.int32,
        "long": pa.int64,
        "float": pa.float32,
        "double": pa.float64,
        "boolean": pa.bool_,
        "void": pa.null,
    }
    return plain[name]() if name in plain else None
