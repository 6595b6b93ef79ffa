"""From command-line words to rows, columns and budgets."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...display.wording import describe_neighbors
from ...errors import UsageError, named, non_negative, shown, whole
from ...formats import from_json
from ...plans.base import Runnable
from ...privacy.budget import Budget
from ...privacy.guarantee import Privacy
from ...rows import (
    Ball,
    Box,
    Normal,
    Rows,
    Unknown,
    rows_from_dict,
)
from ...util import json_codec
from ...util.atomic_files import check_writable, read_text

Names = tuple[str, ...]
_TARGETS = ("output", "save_plan", "plot", "report")
_PAIR = json_codec.list_of(json_codec.number)


def check_targets(given: Mapping[str, Any]) -> None:
    """Refuse outputs that cannot be written, that are files to be read, or that are the same; nothing is read yet."""
    from ...sources.paths import check_apart

    targets = {name: given[name] for name in _TARGETS if given.get(name) is not None}
    _check_different(targets)
    check_picture(given.get("plot"))
    for target in targets.values():
        check_writable(target)
        check_apart(target, _inputs_of(given))


def check_picture(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn."""
    if path is None:
        return
    from ...display.plots.rendering import check_format
    from ...display.plots.style import check_available

    check_format(path)
    check_available()


def _check_different(targets: Mapping[str, Path]) -> None:
    """Refuse two outputs of one name."""
    first: dict[str, str] = {}
    for name, path in targets.items():
        option = f"--{name.replace('_', '-')}"
        other = first.setdefault(os.path.realpath(path), option)
        if other != option:
            raise UsageError(f"{other} and {option} name the same file, and one would be lost. Name two.")


def _inputs_of(given: Mapping[str, Any]) -> list[Any]:
    """Every file that the options name."""
    from .engine import source_of

    files: list[Any] = list(given.get("files") or ())
    if given.get("sql") is not None:
        files = [source_of(files, given["sql"])]
    words = [*(given.get("bounds") or ()), *(given.get("normal") or ()), *(given.get("keys") or ())]
    alone = [given[name] for name in ("rows", "plan") if given.get(name) is not None]
    return [*files, *filter(_is_file, words), *alone]


def split_columns(text: str | None, option: str = "--columns") -> Names | None:
    """`a,b` with the quoting of CSV, for names that hold commas."""
    if text is None:
        return None
    names = tuple(name.strip() for name in next(csv.reader([text])))
    if not all(names):
        raise UsageError(f"{option} has an empty name in {text!r}. Write {option} a,b.")
    if len(set(names)) != len(names):
        raise UsageError(f"{option} names a column twice.")
    return names


def parse_pairs(words: Sequence[str], option: str, form: str) -> dict[str | None, tuple[float, float]]:
    """`name=lo:hi` repeated, `lo:hi` for every column, or the path of a JSON or CSV file of them."""
    pairs: dict[str | None, tuple[float, float]] = {}
    for word in words:
        found = _pairs_of_file(word, option, form) if _is_file(word) else [_pair_of_word(word, option, form)]
        for name, pair in found:
            if name in pairs:
                raise UsageError(f"{option} is given twice for {shown(name or 'every column')}.")
            pairs[name] = pair
    if None in pairs and len(pairs) > 1:
        raise UsageError(f"{option} mixes a pair for every column with named ones. Name each column.")
    return pairs


def _is_file(word: str) -> bool:
    return word.endswith((".json", ".csv"))


def _pair_of_word(word: str, option: str, form: str) -> tuple[str | None, tuple[float, float]]:
    name, separator, rest = word.rpartition("=")
    first, colon, second = rest.partition(":")
    try:
        if not colon or (separator and not name):
            raise ValueError
        return (name if separator else None), (float(first), float(second))
    except ValueError:
        raise UsageError(f"{option} {word!r} is not understood. Write {option} {form}.") from None


def _pairs_of_file(path: str, option: str, form: str) -> list[tuple[str | None, tuple[float, float]]]:
    text = read_text(Path(path), option)
    try:
        if path.endswith(".json"):
            entries: list[Any] = [(name, *_PAIR(pair)) for name, pair in json_codec.parse(text).items()]
        else:
            entries = [tuple(line) for line in csv.reader(text.splitlines()) if line]
            if entries and not _numeric(entries[0][1:]):
                entries = entries[1:]
        return [(json_codec.text(name), (float(first), float(second))) for name, first, second in entries]
    except (ValueError, json_codec.Wrong, csv.Error):
        raise UsageError(
            f"the {option} file {path} is not understood. "
            'Write {"name": [first, second]} in JSON, or name,first,second lines in CSV.'
        ) from None


def _numeric(words: Sequence[Any]) -> bool:
    try:
        [float(word) for word in words]
    except ValueError:
        return False
    return True


def named_rows(
    kind: type[Box] | type[Normal], words: Sequence[str], option: str, form: str, columns: Names | None
) -> tuple[Rows, Names | None]:
    """Box or Normal rows from pairs, and the columns they are for."""
    pairs = parse_pairs(words, option, form)
    if None in pairs:
        return kind(*pairs[None]), columns
    stated = {str(name): pair for name, pair in pairs.items()}
    chosen = _all_stated(tuple(stated), option, columns)
    return kind({name: stated[name] for name in chosen}), chosen


def groups_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of groups, as the library calls them."""
    by = split_columns(given["by"], "--by")
    words = given["keys"] or ()
    if words and by is None:
        raise UsageError("--keys needs --by, the columns that name a row's group.")
    return {"by": by, "keys": _keys_of(words, by or ()) if words else None, "max_groups": given["max_groups"]}


def _keys_of(words: Sequence[str], by: Names) -> Any:
    """Public groups: a list, a list for each column of --by, or a CSV file of them."""
    if len(words) == 1 and words[0].endswith(".csv"):
        return _keys_of_file(words[0], by)
    if len(by) == 1 and len(words) == 1:
        return next(csv.reader([words[0].removeprefix(f"{by[0]}=")]))
    lists = {}
    for word in words:
        name, separator, rest = word.partition("=")
        if not separator or name not in by or name in lists:
            raise UsageError(
                f"--keys {word!r} is not understood. Write --keys name=a,b,c once for each column of --by."
            )
        lists[name] = next(csv.reader([rest]))
    return lists


def _keys_of_file(path: str, by: Names) -> Any:
    lines = [line for line in csv.reader(read_text(Path(path), "--keys").splitlines()) if line]
    if not lines or not set(by) <= set(lines[0]) or any(len(line) != len(lines[0]) for line in lines):
        raise UsageError(
            f"the --keys file {path} must have a header with the columns of --by, and a line for each group."
        )
    places = [lines[0].index(name) for name in by]
    return [tuple(line[place] or None for place in places) for line in lines[1:]]


def ball_of(radius: float, center: str | None) -> Ball:
    """Ball rows from --radius and --center (a number or a comma-separated list)."""
    if center is None:
        return Ball(radius)
    try:
        numbers = [float(word) for word in center.split(",")]
    except ValueError:
        raise UsageError(f"--center {center!r} is not understood. Write a number, or one per column: 1,2,3.") from None
    return Ball(radius, numbers[0] if len(numbers) == 1 else numbers)


def unknown_rows(words: Sequence[str], columns: Names | None) -> tuple[Unknown, Names | None]:
    """Rows within `M` in every column, or within `name=M` for each, and the columns they are for."""
    sizes: dict[str, float] = {}
    for word in words:
        name, separator, size = word.rpartition("=")
        try:
            if not separator and len(words) == 1:
                return Unknown(float(size)), columns
            if not name or name in sizes:
                raise ValueError
            sizes[name] = float(size)
        except ValueError:
            raise UsageError(
                f"--magnitude {word!r} is not understood. Write --magnitude M for every column, "
                "or --magnitude name=M once for each."
            ) from None
    chosen = _all_stated(tuple(sizes), "--magnitude", columns)
    return Unknown({name: sizes[name] for name in chosen}), chosen


def _all_stated(stated: Names, option: str, columns: Names | None) -> Names:
    """The columns that were chosen, each of which must have been stated; else those that were."""
    chosen = columns or stated
    for name in stated:
        if name not in chosen:
            raise UsageError(f"{option} names {named(name)}, which is not among --columns. Add it there, or drop it.")
    for name in chosen:
        if name not in stated:
            raise UsageError(f"{option} is missing for column {named(name)}. Add {option} {shown(name)}=...")
    return chosen


def rows_of(given: Mapping[str, Any], columns: Names | None) -> tuple[Rows, Names | None]:
    """What is known about the rows: exactly one way of saying it."""
    known = ("bounds", "radius", "normal", "zipf", "magnitude", "rows")
    ways = [f"--{name}" for name in known if given.get(name) not in (None, [])]
    if not ways:
        raise UsageError(
            "say what is known about the rows: --bounds name=lo:hi a column, --radius R, --normal name=mean:std, "
            "or --magnitude M (or name=M) if that is all."
        )
    if len(ways) > 1:
        raise UsageError(f"give one of {', '.join(ways)}, not both.")
    if given.get("center") is not None and ways != ["--radius"]:
        raise UsageError("--center goes with --radius. The other ways of describing rows have their own center.")
    if given.get("center_error") is not None and ways not in (["--normal"], ["--zipf"]):
        raise UsageError("--center-error goes with --normal.")
    if given.get("method") is not None and ways != ["--magnitude"]:
        raise UsageError("--method goes with --magnitude.")
    if ways == ["--magnitude"]:
        return unknown_rows(given["magnitude"], columns)
    if ways == ["--rows"]:
        return learned_rows(given["rows"], columns)
    if ways == ["--bounds"]:
        return named_rows(Box, given["bounds"], "--bounds", "name=lo:hi", columns)
    if ways == ["--radius"]:
        return ball_of(given["radius"], given.get("center")), columns
    if ways == ["--zipf"]:
        rows, chosen = _zipf_rows(given["zipf"], given.get("d")), columns
    else:
        rows, chosen = named_rows(Normal, given["normal"], "--normal", "name=mean:std", columns)
    if given.get("center_error") is None:
        return rows, chosen
    return rows_from_dict({**rows.to_dict(), "center_error": given["center_error"]}), chosen


def learned_rows(path: str, columns: Names | None) -> tuple[Rows, Names | None]:
    """Rows from a file of `ellipsum learn`, and the columns they are for."""
    from ...learning.result import Learned

    rows = Learned.from_json(read_text(Path(path), "--rows")).rows
    if columns is not None and rows.columns is not None and columns != rows.columns:
        raise UsageError("--columns differs from the columns that the --rows file was learned for. Leave it out.")
    return rows, columns or rows.columns


def read_plan(path: str) -> Any:
    """A saved plan, of one release, of groups or of learning rounds."""
    return plan_of(read_text(Path(path), "plan"))


def plan_of(text: str) -> Any:
    """The plan in a text, of any kind."""
    plan = from_json(text)
    if not isinstance(plan, Runnable):
        raise UsageError("not a plan. Create one with ellipsum plan.")
    return plan


def _zipf_rows(alpha: float, d: int | None) -> Rows:
    from ..reproduce import zipf_stds

    if d is None:
        raise UsageError("--zipf needs --d, the number of columns.")
    return Normal(0.0, std=zipf_stds(non_negative("--zipf", alpha), whole("--d", d)))


def budget_of(epsilon: float | None, delta: float | None) -> Budget:
    """--epsilon and --delta, which have no defaults."""
    if epsilon is None or delta is None:
        missing = "--epsilon" if epsilon is None else "--delta"
        raise UsageError(f"{missing} is missing. State the privacy budget, for example --epsilon 1 --delta 1e-6.")
    return Budget(epsilon=epsilon, delta=delta)


def relation_of(word: str) -> str:
    """`add-remove` is what a shell user types for `add_remove`."""
    return word.replace("-", "_")


def terms_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that every plan shares, as `ellipsum.plan` calls them."""
    return {
        "neighbors": relation_of(given["neighbors"]),
        "weights": weights_of(given["weights"]),
        "noise": given["noise"],
        "missing": missing_of(given["missing"]),
        "check": not given["no_check"],
        "method": given.get("method") or "auto",
    }


def shape_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that choose a shape and a radius."""
    return {
        "shape": given["shape"],
        "clip": clip_of(given["clip"]),
        "clip_probability": given["clip_probability"],
    }


def weights_of(text: str | None) -> str | list[float] | None:
    """A word, or a number per column."""
    if text is None or not _numeric(text.split(",")):
        return text
    return [float(word) for word in text.split(",")]


def missing_of(text: str | None) -> str | float | list[float] | None:
    """A word, a number, or one per column."""
    found = weights_of(text)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def terms_for_people(budget: Budget, given: Mapping[str, Any]) -> str:
    """The budget, and what it protects; which law of noise serves it is told with the forecast."""
    nothing = Privacy(0.0, 0.0, relation_of(given["neighbors"]), "person")
    stated = ", ".join(f"{name} = {value:g}" for name, value in budget.stated)
    return f"{stated}; {describe_neighbors(nothing)}"


def clip_of(word: str) -> str | float:
    """A rule's name, or a radius."""
    try:
        return float(word)
    except ValueError:
        return word


def rows_count(text: str | None) -> int | str | None:
    """--n of a plan: a whole number, or auto."""
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--n must be a whole number, or auto, got {text!r}.") from None
