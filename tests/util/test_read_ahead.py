"""Items are read ahead in order, one at a time; closing, or an error of either side, ends the reading."""

import threading

import pytest

from ellipsum.util.interrupts import read_ahead


def test_one_item_is_read_while_the_caller_has_the_one_before():
    asked = []

    def items():
        for i in range(4):
            asked.append(i)
            yield i

    ahead = read_ahead(items(), lambda: None)
    assert next(ahead) == 0
    assert list(ahead) == [1, 2, 3]
    assert asked == [0, 1, 2, 3]


def test_closing_stops_a_reading_that_waits():
    stopped = threading.Event()

    def items():
        yield 0
        stopped.wait(60)
        yield 1

    ahead = read_ahead(items(), stopped.set)
    assert next(ahead) == 0
    ahead.close()
    assert stopped.is_set()


def test_an_error_of_the_items_reaches_the_caller():
    def items():
        yield 0
        raise ValueError("7")

    ahead = read_ahead(items(), lambda: None)
    assert next(ahead) == 0
    with pytest.raises(ValueError, match="7"):
        next(ahead)
