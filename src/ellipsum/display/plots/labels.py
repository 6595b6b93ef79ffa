"""Names and numbers as they stand in pictures: of bounded width, and nothing in them is obeyed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from unicodedata import combining, east_asian_width

import numpy as np

from ...errors import visible
from .style import FONT_POINTS

_LETTER = 0.64  # width of a common letter in units of the font's size, amply
_MOST = 26.0  # letters of a name
_EM = FONT_POINTS / 72  # inches


def inches(text: str) -> float:
    """About how wide a text is, rather too much."""
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
    """A text of at most so many common letters' width, without its middle where it is longer."""
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
    """Sentences as lines of at most so many inches."""
    letters = max(20, int(width / (_LETTER * points / 72)))
    return [plain(line) for text in texts for line in wrap(visible(text), letters, break_long_words=True)]


def ticks(low: float, high: float, width: float, most: int = 6) -> tuple[list[float], list[str]]:
    """Round numbers between two ends and their texts, so few that they do not touch on an axis of so many inches."""
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
