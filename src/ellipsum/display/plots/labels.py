"""Names and numbers for pictures: of bounded width, and without effect as markup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import Any
from unicodedata import combining, east_asian_width

import numpy as np

from ...errors import visible
from .style import FONT_POINTS

_LETTER = 0.64  # width of a common letter in units of the font's size, amply
_MOST = 26.0  # letters of a name
_EM = FONT_POINTS / 72  # inches


def inches(text: str) -> float:
    """Approximate width of a text, rather overestimated."""
    return sum(map(_letters, text)) * _LETTER * _EM


def _letters(character: str) -> float:
    if combining(character):
        return 0.0
    return 1.7 if east_asian_width(character) in "WF" else 1.0


def label(name: object, most: float = _MOST) -> str:
    """A name of bounded width, cut in its middle: names of one table tend to differ at their ends.

    matplotlib takes what stands between dollar signs for mathematics unless they are escaped.
    """
    return plain(cut(visible(str(name)), most))


def plain(text: str) -> str:
    """A text that matplotlib draws letter by letter."""
    return text.replace("$", r"\$")


def cut(text: str, most: float) -> str:
    """A text cut in its middle to a width of `most` common letters."""
    if sum(map(_letters, text)) <= most:
        return text
    head = _within(text, 0.6 * (most - 1))
    tail = _within(text[::-1], 0.4 * (most - 1))[::-1]
    return f"{head}…{tail}"


def _within(text: str, most: float) -> str:
    width = 0.0
    for place, character in enumerate(text):
        width += _letters(character)
        if width > most:
            return text[:place]
    return text


def wrapped(texts: Sequence[str], width: float, points: float = FONT_POINTS) -> list[str]:
    """Sentences as lines of at most `width` inches."""
    letters = max(20, int(width / (_LETTER * points / 72)))
    return [plain(line) for text in texts for line in wrap(visible(text), letters, break_long_words=True)]


def ticks(low: float, high: float, width: float, most: int = 6) -> tuple[list[float], list[str]]:
    """Round numbers between two ends and their texts, which do not touch on an axis of `width` inches."""
    from matplotlib.ticker import MaxNLocator

    for bins in range(most, 0, -1):
        places = np.asarray(MaxNLocator(nbins=bins, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
        inside = [place for place in places.tolist() if low <= place <= high]
        texts = [tick(place, places[1] - places[0]) for place in inside]
        if len(inside) < 2 or sum(map(inches, texts)) + 0.12 * len(texts) <= width * len(texts) / (len(texts) + 1):
            return inside, texts
    return inside, texts


def tick(value: float, step: float) -> str:
    """A number with the digits that tell it from its neighbors."""
    if value == 0 or abs(value) < step * 1e-9:
        return "0"
    if not 1e-4 < step < 1e6 or abs(value) >= 1e7:
        digits = max(0, math.floor(math.log10(abs(value))) - math.floor(math.log10(step) + 1e-9))
        return f"{value:.{min(digits + 1, 15)}g}"
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    text = f"{value:.{places + 1}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_STEPS = {1: (1, 1.5, 2, 3, 5, 7), 2: (1, 2, 5), 3: (1, 3)}
"""Numbers of a decade that have ticks, by the number of decades shown; for more decades, powers of ten."""
_MOST_POWERS = 7  # powers of ten with a tick


def logarithmic(axis: Any, side: str, low: float, high: float) -> None:
    """Make one side of the axes logarithmic, between two ends."""
    across = side == "x"
    (axis.set_xscale if across else axis.set_yscale)("log")
    (axis.set_xlim if across else axis.set_ylim)(low, high)
    places = log_ticks(low, high)
    put = axis.set_xticks if across else axis.set_yticks
    put(places, [tick(place, place) for place in places])
    put([], minor=True)


def log_ticks(low: float, high: float) -> list[float]:
    """Numbers with one digit, or two, between two ends."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = _STEPS.get(math.ceil(math.log10(high / low)), (1,))
    every = max(1, math.ceil((last - first) / _MOST_POWERS))
    places = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    return [place for place in places if low <= place <= high]
