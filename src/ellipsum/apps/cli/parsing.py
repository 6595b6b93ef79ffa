"""Parse the texts of options: bounds, columns, groups and numbers."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from ... import Ball, Box, Learned, Normal, Unknown, UsageError, from_json
from ...errors import choice, named, shown
from ...request.bins import Bins
from ...request.quantiles import QUARTILES, Quantiles
from ...rows import Rows, rows_from_dict
from ...util import json_codec
from ...util.atomic_files import read_text

Names = tuple[str, ...]
Pairs = dict[str | None, tuple[float, float]]
_PAIR = json_codec.list_of(json_codec.number)


def parse_names(text: str | None, option: str) -> Names | None:
    """Parse `a,b`, with the quoting of CSV for names with commas."""
    if text is None:
        return None
    names = tuple(name.strip() for name in next(csv.reader([text]), []))
    if not names or not all(names):
        raise UsageError(f"{option} {text!r} has an empty name. Write {option} a,b.")
    if len(set(names)) != len(names):
        raise UsageError(f"{option} names a column twice. Name each once.")
    return names


# Bounds -------------------------------------------------------------------------------------------------


def parse_bounds(texts: Sequence[str], columns: Names | None) -> tuple[Rows, Names | None]:
    """Parse bounds, and find their columns: typed bounds, a file of bounds, or learned bounds."""
    for text in texts:
        if text.endswith(".json") and _is_saved_result(Path(text)):
            if len(texts) > 1:
                raise UsageError(f"--bounds {text} holds learned bounds of all columns. Give no other --bounds.")
            return _learned_bounds(text, columns)
    return _named_rows(Box, parse_pairs(texts, "--bounds", "NAME=LO:HI"), "--bounds", columns)


def _is_saved_result(path: Path) -> bool:
    """Whether ellipsum wrote the file, so that it holds no pairs of bounds."""
    try:
        return "format" in json_codec.parse(read_text(path, "--bounds"))
    except UsageError:  # `parse_pairs` reads the file again, with an error that names the option.
        return False


def _learned_bounds(path: str, columns: Names | None) -> tuple[Rows, Names | None]:
    learned = from_json(read_text(Path(path), "--bounds"))
    if not isinstance(learned, Learned):
        raise UsageError(f"--bounds {path} does not hold bounds. Use a file that ellipsum learn wrote.")
    bounds = learned.bounds
    if columns is not None and bounds.columns is not None and columns != bounds.columns:
        raise UsageError(f"--columns differs from the columns that {path} has bounds for. Leave --columns out.")
    return bounds, columns or bounds.columns


def parse_normal(
    texts: Sequence[str], columns: Names | None, options: Mapping[str, object]
) -> tuple[Rows, Names | None]:
    """Parse approximate means and standard deviations with options of Normal, and find their columns."""
    bounds, names = _named_rows(Normal, parse_pairs(texts, "--normal", "NAME=MEAN:STD"), "--normal", columns)
    return rows_from_dict({**bounds.to_dict(), **options}) if options else bounds, names


def parse_ball(radius: float, center: str | None) -> Ball:
    """Parse the largest distance from a center, which is one number or one per column."""
    numbers = [0.0] if center is None else parse_numbers(center, "--center")
    return Ball(radius, numbers[0] if len(numbers) == 1 else numbers)


def parse_magnitudes(texts: Sequence[str], columns: Names | None, method: str = "auto") -> tuple[Rows, Names | None]:
    """Parse magnitudes, `M` for all columns or `NAME=M` for each, and find their columns."""
    sizes: dict[str, float] = {}
    for text in texts:
        name, separator, size = text.rpartition("=")
        try:
            if not separator and len(texts) == 1:
                return Unknown(float(size), method=method), columns
            if not name or name in sizes:
                raise ValueError
            sizes[name] = float(size)
        except ValueError:
            raise UsageError(
                f"--magnitude {text!r} is not understood. Write --magnitude M for every column, or --magnitude NAME=M "
                "once for each."
            ) from None
    chosen = _check_columns(tuple(sizes), "--magnitude", columns)
    return Unknown({name: sizes[name] for name in chosen}, method=method), chosen


def shape_bounds(bounds: Rows, shape: str, clip: str) -> Rows:
    """Add the shape of the noise and the clipping rule to the bounds, if they are not the default."""
    options: dict[str, object] = {} if shape == "optimal" else {"shape": shape}
    if clip != "optimal":
        options["clip"] = float(clip) if _are_numbers([clip]) else clip
    allowed = {"normal": ("shape", "clip"), "box": ("shape",)}.get(bounds.kind, ())
    for name in options:
        if name not in allowed:
            raise UsageError(f"--{name} cannot be chosen for these bounds. Leave it out.")
    if "shape" in options:
        choice("--shape", shape, ("optimal", "ball", *(("closed_form",) if bounds.kind == "normal" else ())))
    if isinstance(options.get("clip"), str):
        choice("--clip", clip, ("optimal", "quantile"))
    return rows_from_dict({**bounds.to_dict(), **options}) if options else bounds


def _named_rows(
    kind: type[Box] | type[Normal], pairs: Pairs, option: str, columns: Names | None
) -> tuple[Rows, Names | None]:
    """Box or Normal from pairs, and their columns."""
    if None in pairs:
        return kind(*pairs[None]), columns
    typed = {str(name): pair for name, pair in pairs.items()}
    chosen = _check_columns(tuple(typed), option, columns)
    return kind({name: typed[name] for name in chosen}), chosen


def _check_columns(typed: Names, option: str, columns: Names | None) -> Names:
    """The chosen columns, all of which need a value; without a choice, the columns with values."""
    chosen = columns or typed
    for name in typed:
        if name not in chosen:
            raise UsageError(f"{option} names {named(name)}, which is not among --columns. Add it there, or drop it.")
    for name in chosen:
        if name not in typed:
            raise UsageError(f"{option} is missing for column {named(name)}. Add {option} {shown(name)}=...")
    return chosen


def parse_pairs(texts: Sequence[str], option: str, form: str) -> Pairs:
    """Parse `NAME=LO:HI` repeated, `LO:HI` for every column, or the path of a JSON or CSV file with pairs."""
    pairs: Pairs = {}
    for text in texts:
        entries = _pairs_of_file(text, option) if is_file(text) else [_pair(text, option, form)]
        for name, pair in entries:
            if name in pairs:
                raise UsageError(f"{option} is given twice for {shown(name or 'every column')}. Give it once.")
            pairs[name] = pair
    if None in pairs and len(pairs) > 1:
        raise UsageError(f"{option} mixes a pair for every column with named ones. Name each column.")
    return pairs


def is_file(text: str) -> bool:
    """Whether the value of an option is a file."""
    return text.endswith((".json", ".csv"))


def _pair(text: str, option: str, form: str) -> tuple[str | None, tuple[float, float]]:
    name, separator, rest = text.rpartition("=")
    first, colon, second = rest.partition(":")
    try:
        if not colon or (separator and not name):
            raise ValueError
        return (name if separator else None), (float(first), float(second))
    except ValueError:
        raise UsageError(f"{option} {text!r} is not understood. Write {option} {form}.") from None


def _pairs_of_file(path: str, option: str) -> list[tuple[str | None, tuple[float, float]]]:
    text = read_text(Path(path), option)
    try:
        if path.endswith(".json"):
            return [(name, _two_numbers(_PAIR(pair))) for name, pair in json_codec.parse(text).items()]
        lines = [line for line in csv.reader(text.splitlines()) if line]
        lines = lines[1:] if lines and not _are_numbers(lines[0][1:]) else lines
        return [(name, _two_numbers(list(map(float, pair)))) for name, *pair in lines]
    except (ValueError, json_codec.Wrong, csv.Error):
        raise UsageError(
            f"The {option} file {path} is not understood. "
            'Write {"name": [first, second]} in JSON, or name,first,second lines in CSV.'
        ) from None


def _two_numbers(pair: Sequence[float]) -> tuple[float, float]:
    first, second = pair
    return first, second


# Bins, groups and numbers -------------------------------------------------------------------------------


def parse_bins(edges: Sequence[str], categories: Sequence[str]) -> Bins:
    """Parse the edges and the categories of columns."""
    if not edges and not categories:
        raise UsageError("--bins is missing. Write --bins NAME=EDGES, for example --bins age=0,18,65, or --categories.")
    return Bins(
        {name: parse_numbers(text, "--bins") for name, text in _lists(edges, "--bins").items()},
        {name: next(csv.reader([text])) for name, text in _lists(categories, "--categories").items()},
    )


def parse_quantiles(q: str | None, bins: str | None = None, method: str = "cdf", option: str = "--q") -> Quantiles:
    """Parse probabilities and bins; bins: "integer", their number, or edges."""
    probabilities = QUARTILES if q is None else tuple(parse_numbers(q, option))
    if bins is None or bins == "integer":
        return Quantiles(probabilities, bins, method)
    numbers = parse_numbers(bins, "--bins")
    return Quantiles(probabilities, int(numbers[0]) if len(numbers) == 1 else numbers, method)


def parse_keys(texts: Sequence[str], by: Names) -> list[str] | list[tuple[str | None, ...]] | dict[str, list[str]]:
    """Parse public groups: a list, a list for each column of --by, or a CSV file."""
    if len(texts) == 1 and texts[0].endswith(".csv"):
        return _keys_of_file(texts[0], by)
    if len(by) == 1 and len(texts) == 1:
        return next(csv.reader([texts[0].removeprefix(f"{by[0]}=")]))
    lists = _lists(texts, "--keys")
    if set(lists) != set(by):
        raise UsageError(f"--keys must list the groups of each column of --by. Write --keys {by[0]}=a,b,c for each.")
    return {name: next(csv.reader([text])) for name, text in lists.items()}


def _keys_of_file(path: str, by: Names) -> list[tuple[str | None, ...]]:
    lines = [line for line in csv.reader(read_text(Path(path), "--keys").splitlines()) if line]
    if not lines or not set(by) <= set(lines[0]) or any(len(line) != len(lines[0]) for line in lines):
        raise UsageError(
            f"The --keys file {path} must have a header with the columns of --by, and a line for each group."
        )
    places = [lines[0].index(name) for name in by]
    return [tuple(line[place] or None for place in places) for line in lines[1:]]


def _lists(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parse `NAME=a,b,c` repeated."""
    lists: dict[str, str] = {}
    for text in texts:
        name, separator, rest = text.partition("=")
        if not separator or not name or name in lists:
            raise UsageError(f"{option} {text!r} is not understood. Write {option} NAME=a,b,c once for each column.")
        lists[name] = rest
    return lists


def parse_numbers(text: str, option: str) -> list[float]:
    """Parse numbers with commas between them."""
    if not _are_numbers(text.split(",")):
        raise UsageError(f"{option} {text!r} is not understood. Write a number, or several: {option} 1,2,3.")
    return [float(word) for word in text.split(",")]


def parse_rule(text: str | None) -> str | float | list[float] | None:
    """Parse a word, a number, or a number per column."""
    if text is None or not _are_numbers(text.split(",")):
        return text
    numbers = parse_numbers(text, "")
    return numbers[0] if len(numbers) == 1 else numbers


def _are_numbers(texts: Sequence[str]) -> bool:
    return all(map(_is_number, texts)) and bool(texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
