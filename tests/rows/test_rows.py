"""What can be known about rows, and how it is refused."""

import numpy as np
import pytest

from ellipsum import Ball, Box, Normal, Unknown, UsageError
from ellipsum.rows import rows_from_dict


@pytest.mark.parametrize(
    "rows",
    [
        Ball(3.0),
        Ball(3.0, center=[1.0, 2.0]),
        Box(0, 1),
        Box([0, 1], [2, 3]),
        Box({"age": (0, 120), "income": (0, 2e5)}),
        Normal(0, std=1),
        Normal([0.0, 1.0], std=[1.0, 2.0], center_error=[0.0, 0.5]),
        Normal([0.0, 1.0], cov=[[2.0, 1.0], [1.0, 2.0]]),
        Normal({"a": (1, 2), "b": (3, 4)}),
        Unknown(1e4),
        Unknown([1.0, 1e4]),
        Unknown({"age": 200, "income": 1e8}),
    ],
)
def test_rows_survive_a_dictionary(rows):
    again = rows_from_dict(rows.to_dict())
    assert again == rows
    assert type(again) is type(rows)
    assert repr(rows).startswith(type(rows).__name__)


def test_scalars_spread_over_columns_and_names_give_the_width():
    assert np.array_equal(Box(0, 1).resolve(3).upper, np.ones(3))
    assert Box({"a": (0, 1), "b": (2, 3)}).d == 2
    assert Ball(1).d is None


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Ball(0), "radius"),
        (lambda: Ball(-1), "radius"),
        (lambda: Ball(float("nan")), "radius"),
        (lambda: Ball("big"), "radius"),
        (lambda: Ball(1, center=[1, float("inf")]), "center"),
        (lambda: Box([0, 2], [1, 1]), "lower"),
        (lambda: Box([0, 0], [1, 1, 1]), "length"),
        (lambda: Box({}), "column"),
        (lambda: Box({"a": 3}), "Box"),
        (lambda: Box(-1.7e308, 1.7e308), "finite"),
        (lambda: Box(0, None), "upper"),
        (lambda: Normal(0), "std"),
        (lambda: Normal(0, std=1, cov=[[1]]), "one of"),
        (lambda: Normal(0, std=-1), "std"),
        (lambda: Normal(0, std=0), "std"),
        (lambda: Normal(0, cov=[[1, 2], [0, 1]]), "symmetric"),
        (lambda: Normal(0, cov=[[1, 2], [2, 1]]), "semidefinite"),
        (lambda: Normal(0, cov=[[1, 2]]), "square"),
        (lambda: Normal(0, std=1, center_error=-1), "center_error"),
        (lambda: Unknown(0), "magnitude"),
        (lambda: Unknown(1, metod=3), r"Unknown has no argument .metod.. Did you mean method\?"),
        (lambda: rows_from_dict({"kind": "sphere"}), "kind"),
        (lambda: rows_from_dict({"kind": "ball", "size": 3}), "fields"),
        (lambda: Ball(1, center=[1, 2]).resolve(3), "columns"),
    ],
)
def test_wrong_knowledge_is_refused_in_one_line(make, word):
    with pytest.raises(UsageError, match=word) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_inputs_are_copied():
    lower = np.zeros(2)
    box = Box(lower, [1, 1])
    lower[0] = 7
    assert box.lower[0] == 0
