"""Releases of groups in JSON; what comes from a file is checked as if it were made anew."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError
from ..numerics.wide_integers import Ints
from ..privacy.guarantee import Privacy
from ..request.groups import CELL, spelled_date
from ..request.request import STATISTICS
from ..sources.group_labels import canonical_labels, known_kind, label_listed, published_type, read_dates
from ..util import json_codec
from ..version import VERSION
from .release import DOCTORED, WRONG
from .release import FORMAT as RELEASE_FORMAT

_NEAR = 1e-6  # what rounding may change; the displayed digits are fewer
_LEVEL = 0.95
_BESIDE = ("count", "std")
"""What a description says of every column beside its mean."""


def release_to_dict(release: Any) -> dict[str, Any]:
    bounds = release.confidence_interval(_LEVEL)
    return {
        "format": RELEASE_FORMAT,
        "version": VERSION,
        "statistic": release.statistic,
        "by": list(release.by),
        "kinds": list(release.kinds),
        "columns": list(release.names()),
        "keys": [[_shown(cell) for cell in key] for key in release.keys],
        "count": release.counts.tolist(),
        "value": [[None if math.isnan(cell) else cell for cell in line] for line in release.value.tolist()],
        "noise_std": release.noise_std.tolist(),
        "interval": {"level": _LEVEL, "low": bounds[:, :, 0].tolist(), "high": bounds[:, :, 1].tolist()},
        "privacy": release.privacy.to_dict(),
        "secure": release.secure,
        "shrunk": release.shrinks,
        "warnings": list(release.warnings),
        "noisy": release.noisy.tolist(),
        "plan": release.plan.to_dict(),
        **({} if release.learned is None else {"learned": release.learned.to_dict()}),
    }


def _shown(cell: Any) -> Any:
    return spelled_date(cell) if isinstance(cell, date) else cell


def release_from_dict(saved: Mapping[str, Any], plan_from_dict: Any, make_release: Any) -> Any:
    """Inverse of `release_to_dict`: keys and noisy sums are taken, all else must follow from them."""
    with json_codec.Fields(saved, WRONG) as fields:
        fields.check_format(RELEASE_FORMAT, f"not a release of format {RELEASE_FORMAT}.")
        plan = fields.take("plan", plan_from_dict)
        kinds = fields.take("kinds", json_codec.names)
        keys = fields.take("keys", json_codec.list_of(json_codec.list_of(CELL)))
        noisy = fields.take("noisy", _table)
        if len(kinds) != len(plan.grouping.by) or not all(map(known_kind, kinds)):
            raise UsageError(DOCTORED)
        if noisy.shape != (len(keys), plan.width) and (len(noisy) or keys):
            raise UsageError(DOCTORED)
        release = make_release(
            plan,
            _keys(keys, kinds),
            kinds,
            noisy.reshape(-1, plan.width),
            fields.take("secure", json_codec.flag),
            fields.take("shrunk", json_codec.flag),
        )
        spent = fields.take("privacy", Privacy.from_dict)
        if "learned" in saved:
            from .learning_record import Learning

            learned = fields.take("learned", Learning.from_dict)
            learned.check(spent, plan.privacy, plan.d)
            release = replace(release, privacy_spent=spent, learned=learned)
        if release.shrinks and release.statistic != "mean":
            raise UsageError(DOCTORED)
        shown = {
            "count": np.array(fields.take("count", json_codec.list_of(json_codec.number))),
            "value": fields.take("value", _values),
            "noise_std": fields.take("noise_std", _table),
        }
        if release.statistic == "describe":
            shown |= fields.take("describe", _described)
        shown["low"], shown["high"] = fields.take("interval", _interval)
        fields.take("warnings", json_codec.names)  # worked out anew
        statistic, by = fields.take("statistic", json_codec.word(*STATISTICS)), fields.take("by", json_codec.names)
        columns = fields.take("columns", json_codec.names)
    same = (statistic, by, columns, spent) == (release.statistic, release.by, release.names(), release.privacy)
    if not same or not _follows(release, shown):
        raise UsageError(DOCTORED)
    _check_groups(release)
    return release


def _table(value: Any) -> Floats:
    """Lists of numbers, all of one length; there may be none."""
    lines = json_codec.list_of(json_codec.list_of(json_codec.number))(value)
    if len({len(line) for line in lines}) > 1:
        raise json_codec.Wrong
    return np.array(lines, np.float64)


def _values(saved: Any) -> Floats:
    """A table in which numbers may be left out: those of columns that were not found."""
    lines = json_codec.list_of(json_codec.list_of(lambda one: math.nan if one is None else json_codec.number(one)))(
        saved
    )
    if len({len(line) for line in lines}) > 1:
        raise json_codec.Wrong
    return np.array(lines, np.float64)


def _described(saved: Any) -> dict[str, Floats]:
    """What a description says beside its means, by name."""
    with json_codec.Fields(saved, WRONG) as fields:
        found = {name: fields.take(name, _table) for name in ("std_error", *_BESIDE)}
        for name in _BESIDE:
            found[f"{name}_low"], found[f"{name}_high"] = fields.take(f"{name}_interval", _interval)
    found["rows"] = found.pop("count")  # the count of a whole group has that name
    return found


def _interval(saved: Any) -> tuple[Floats, Floats]:
    with json_codec.Fields(saved, WRONG) as fields:
        if fields.take("level", json_codec.number) != _LEVEL:
            raise json_codec.Wrong
        return fields.take("low", _table), fields.take("high", _table)


def _keys(keys: Any, kinds: tuple[str, ...]) -> Any:
    """The keys of a file, each a value of its kind."""
    if any(len(key) != len(kinds) for key in keys):
        raise UsageError(DOCTORED)
    return keys_of([_column([key[i] for key in keys], kind) for i, kind in enumerate(kinds)])


def _column(cells: list[Any], kind: str) -> Any:
    import pyarrow as pa

    target = published_type(kind)
    try:
        if pa.types.is_temporal(target):
            return read_dates(cells, kind)
        return pa.array(cells, target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise UsageError(DOCTORED) from None


def _follows(release: Any, shown: Mapping[str, Any]) -> bool:
    """Whether what a file shows is what its noisy sums give."""
    bounds = release.confidence_interval(_LEVEL)
    wanted = {"count": release.counts, "value": release.value, "noise_std": release.noise_std}
    wanted |= {"low": bounds[:, :, 0], "high": bounds[:, :, 1]}
    if release.statistic == "describe":
        wanted |= {"rows": release.count, "std": release.std, "std_error": release.std_error}
        for name in _BESIDE:
            bounds = release.confidence_interval(_LEVEL, name)
            wanted |= {f"{name}_low": bounds[:, :, 0], f"{name}_high": bounds[:, :, 1]}
    near = _NEAR * float(np.abs(release.noise_std).max(initial=0.0))
    empty = len(release.keys) == 0
    return all(
        shown[name].size == right.size
        and (empty or shown[name].shape == right.shape)
        and (empty or np.allclose(shown[name], right, rtol=_NEAR, atol=near, equal_nan=True))
        for name, right in wanted.items()
    )


def _check_groups(release: Any) -> None:
    """Sorted, each once; those that are listed, or those whose noisy counts reach the threshold [G3]."""
    plan, arrays = release.plan, release.key_arrays()
    order = order_of(arrays)
    given = [canonical_labels(array, kind) for array, kind in zip(arrays, release.kinds, strict=True)]
    distinct = len(set(zip(*[cells.to_pylist() for cells in given], strict=True))) == len(release.keys)
    if not distinct or not np.array_equal(order, np.arange(len(order))):
        raise UsageError(DOCTORED)
    listed = plan.grouping.keys
    if listed is None:
        if (release.counts < plan.threshold * (1 - 1e-12)).any():
            raise UsageError(DOCTORED)
        return
    labels = label_listed(listed, release.kinds)
    wanted = sorted(zip(*[map(repr, cells.to_pylist()) for cells in labels], strict=True))
    if wanted != sorted(zip(*[map(repr, cells.to_pylist()) for cells in given], strict=True)):
        raise UsageError(DOCTORED)


# Keys as they are published: Python values, sorted ------------------------------------------------------


def keys_of(columns: list[Any]) -> NDArray[np.object_]:
    """Arrow arrays as Python values, (groups, columns)."""
    size = len(columns[0])
    keys = np.empty((size, len(columns)), object)
    for i, column in enumerate(columns):
        keys[:, i] = np.fromiter(column.to_pylist(), object, size)
    return keys


def order_of(columns: list[Any]) -> Ints:
    """The places of groups, sorted by key; a missing cell comes last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [str(i) for i in range(len(columns))]
    table = pa.table(columns, names=names)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    places: Ints = order.to_numpy().astype(np.int64)
    return places
