"""What the outside sees of a call or a command, and when two sights are the same."""

import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq

import ellipsum as es
from ellipsum.apps import cli

_NUMBER = re.compile(r"[-+−]?\d[\d,._]*(?:e[-+]?\d+)?")
_DRAWN = re.compile(r"[\s─━│┃┏┓┗┛┡┩┌┐└┘├┤┬┴┼╇╈╋┳┻╭╮╰╯]+")
_COUNTED = re.compile(
    r"^ *warning: (About \S+ of the |1 group has |[\d,]+ groups have |Some rows are more than |Columns? .*: too few)"
    r".*\n?",
    re.MULTILINE,
)
"""Lines that noisy counts decide, of a release that is told in words."""
_PEOPLE = re.compile(r"^ +(1|up to \d+|more) +\S+ people\n", re.MULTILINE)
_NOTED = re.compile(r" *at its (upper|lower) bound")
_ROUNDS = re.compile(r"^ +\S.*? +[\d.]+% of the budget", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """One call, seen from outside.

    shape: what was published, with a sign in place of every noisy number; exact: all of it
    files: the same for every file that appeared; schedule: the rounds taken, which noisy numbers decide
    accuracy: warnings that noisy counts decide; they are those that the published counts give
    """

    error: tuple[str, str] | None
    warnings: tuple[tuple[str, str], ...]
    accuracy: tuple[str, ...]
    progress: tuple[float, ...]
    shape: Any
    exact: Any
    err: str
    files: dict[str, Any] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    schedule: Any = None


def check(left: Seen, right: Seen, same: bool) -> None:
    """Fails where the difference between two neighbors shows in more than noisy numbers and what they decide."""
    everything = ["exact", "contents", "accuracy"] if same else []
    shapes = ["shape", "files", "progress"] if same or right.schedule == left.schedule else []
    for name in ("error", "warnings", "err", "left", *everything, *shapes):
        found = difference(getattr(left, name), getattr(right, name), name)
        assert not found, found
    assert left.left == (), f"temporary files stay behind: {left.left}"
    assert list(left.files) == list(right.files)


def difference(left: Any, right: Any, where: str) -> str:
    """The first place where two structures differ, or nothing."""
    if isinstance(left, dict) and isinstance(right, dict) and sorted(left) == sorted(right):
        return next(filter(None, (difference(left[key], right[key], f"{where}.{key}") for key in left)), "")
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return next(filter(None, (difference(one, other, f"{where}[{i}]") for i, (one, other) in pairs)), "")
    return "" if left == right else f"{where}: {left!r:.300} against {right!r:.300}"


# --- watching -----------------------------------------------------------------------------------


class Place:
    """A folder for both sides of a pair, emptied before each, and one for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary = folder / "here", folder / "temporary"

    def clear(self) -> Path:
        for path in (self.folder, self.temporary):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        return self.folder

    def names(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}


@contextmanager
def _within(place: Place) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place.folder)
    try:
        with mock.patch.object(tempfile, "tempdir", str(place.temporary)):
            yield
    finally:
        os.chdir(before)


def _unheard(*_: Any) -> None:
    """In place of signal.signal: this process keeps its own handlers."""


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined]


def watch_call(place: Place, call: Callable[[Callable[[float], None]], Any]) -> Seen:
    """call(progress), with everything that it lets out."""
    before = place.names()
    told: list[float] = []
    out, err = _stream(), _stream()
    result, error = None, None
    with warnings.catch_warnings(record=True) as warned, _within(place), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("always")
        try:
            result = call(told.append)
        except Exception as raised:
            error = (type(raised).__qualname__, str(raised))
    shape, exact, schedule = published(result)
    said = _text(out) + _text(err)
    follow(result, warned)
    return Seen(
        error,
        *_sorted(warned),
        tuple(told),
        shape,
        exact,
        said,
        schedule=schedule,
        **_appeared(place, before),
    )


def _sorted(warned: list[warnings.WarningMessage]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """What public things decide, and what noisy counts do."""
    noisy = [each for each in warned if getattr(each.message, "release", None) is not None]
    plain = [each for each in warned if each not in noisy]
    counted = tuple(str(each.message) for each in noisy)
    return tuple(sorted((each.category.__name__, str(each.message)) for each in plain)), counted


def follow(result: Any, warned: list[warnings.WarningMessage]) -> None:
    """Fails unless warnings of accuracy are a function of what is published, as a reader of the JSON finds them."""
    _, counted = _sorted(warned)
    if not hasattr(result, "warnings"):
        assert not counted, counted
        return
    assert counted == result.warnings
    assert es.from_json(result.to_json()).warnings == result.warnings


def watch_command(place: Place, words: list[str], seed: int = 5) -> Seen:
    """`ellipsum ...` in this process, with secret noise from a seed."""
    before = place.names()
    out, err = _stream(), _stream()
    with warnings.catch_warnings(record=True) as warned, _within(place), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("always")
        with _as_process(words, seed):
            code = _ending()
    shape, schedule = said(_text(out))
    return Seen(
        None if code == 0 else ("exit", str(code)),
        *_sorted(warned),
        (),
        shape,
        (code, _text(out)),
        _COUNTED.sub("", _text(err)),
        schedule=schedule,
        **_appeared(place, before),
    )


@contextmanager
def _as_process(words: list[str], seed: int) -> Iterator[None]:
    """The words, a keyed stream in place of the operating system's entropy, and this process's own handlers."""
    with (
        mock.patch.object(sys, "argv", ["ellipsum", *words]),
        mock.patch.object(signal, "signal", _unheard),
        mock.patch.object(sys, "unraisablehook", sys.unraisablehook),
        mock.patch("os.urandom", np.random.default_rng(seed).bytes),
    ):
        yield


def _ending() -> Any:
    try:
        cli.main()
    except SystemExit as ending:
        return ending.code or 0
    except BaseException as raised:
        return f"{type(raised).__qualname__}: {raised}"


def _appeared(place: Place, before: set[str]) -> dict[str, Any]:
    found = sorted(place.names() - before)
    contents = {name: (place.folder / name).read_bytes() for name in found}
    files = {name: (os.stat(place.folder / name).st_mode, file_shape(place.folder / name)) for name in found}
    left = tuple(sorted(path.name for path in place.temporary.iterdir()))
    return {"files": files, "contents": contents, "left": left}


# --- shapes -------------------------------------------------------------------------------------

_NOISY = {
    "value",
    "count",
    "noise",
    "noise_std",
    "core_fraction",
    "weight_lower",
    "standard_error",
    "counts",
    "interval",
}
_NOISY |= {"describe", "noisy", "quantiles", "quantile_sums"}
_FIXED = {"format", "version", "statistic", "columns", "stated", "secure", "method", "name", "options", "people"}


def published(result: Any) -> tuple[Any, Any, Any]:
    """(shape, all bits, rounds taken) of whatever a call returned."""
    if result is None:
        return None, None, None
    text = result.to_json() if hasattr(result, "to_json") else str(result)
    shape, schedule = said(text)
    value = getattr(result, "value", ())
    values = np.hstack(list(value.values())) if isinstance(value, dict) else np.asarray(value, float)
    words = text_shape(str(result))
    for warning in getattr(result, "warnings", ()):  # what noisy counts decide, see `follow`
        words = words.replace(f" Warning {text_shape(warning)}", "")
    seen = (type(result).__name__, values.shape, np.isfinite(values).all(), words, shape)
    return seen, (text, str(result), values.tobytes()), schedule


def said(text: str) -> tuple[Any, Any]:
    """(shape, rounds taken) of a JSON text, or of words for people."""
    try:
        fields = json.loads(text)
    except ValueError:
        return text_shape(text), _ROUNDS.findall(text)
    return masked(fields), _schedule(fields)


def text_shape(text: str) -> str:
    """The words, with one sign for every number and for every stretch of blanks and lines."""
    return _NUMBER.sub("#", _DRAWN.sub(" ", _NOTED.sub("", _COUNTED.sub("", _PEOPLE.sub("", text))))).strip()


def _schedule(fields: dict[str, Any]) -> Any:
    rounds = (fields.get("learned") or fields).get("steps", ())
    return [(each["name"], each.get("width"), each.get("privacy")) for each in rounds]


def masked(fields: dict[str, Any]) -> Any:
    """The fields, with a sign for every number that noise decided: the values, and whatever was learned."""
    learned = "learned" in fields or any("width" in each for each in fields.get("steps", ()))
    searched = bool((fields.get("plan") or {}).get("radii"))
    if str(fields.get("format", "")).startswith("ellipsum.rows-per-person/"):
        return {**fields, "people": ["#" for _ in fields["people"]], "max_rows": "#"}
    shape = {}
    for name, value in fields.items():
        if name == "warnings":  # what the counts say, see `follow`
            continue
        noisy = name in _NOISY and not (name == "noise_std" and "k" in fields)
        if noisy or (learned and name in ("plan", "learned", "steps", "bounds")):
            shape[name] = _signs(value)
        elif searched and name == "plan":
            shape[name] = {**value, "radius": "#"}
        else:
            shape[name] = value
    return shape


def _signs(value: Any, name: str = "") -> Any:
    if name in _FIXED:
        return value
    if name in ("warnings", "found"):  # noisy counts decide these
        return "#"
    if isinstance(value, dict):
        return {key: _signs(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_signs(each) for each in value]
    if isinstance(value, float | int) and not isinstance(value, bool):
        return "#"
    return value


def file_shape(path: Path) -> Any:
    """Of a Parquet file its layout and the note inside; of JSON its fields."""
    if path.suffix != ".parquet":
        return said(path.read_text())[0]
    with pq.ParquetFile(path) as file:
        found = file.metadata
        groups = [found.row_group(g) for g in range(found.num_row_groups)]
        layout = [_group_layout(group) for group in groups]
        notes = {key: said(note.decode())[0] for key, note in (found.metadata or {}).items() if key != b"ARROW:schema"}
        return str(file.schema_arrow), layout, notes, path.stat().st_size


def _group_layout(group: Any) -> Any:
    columns = [group.column(j) for j in range(group.num_columns)]
    return group.num_rows, [(c.file_offset, c.encodings, c.compression, c.total_compressed_size) for c in columns]
