"""What the applications may use: the command line and the studio ask the library, and compute nothing themselves."""

import ast
from pathlib import Path

import pytest

import ellipsum as es
from ellipsum.apps.cli.options import name_options

APPS = Path(es.__file__).parent / "apps"
NOT_THEIRS = {"kernels", "row_maps", "numerics", "regions", "friendly", "projection"}
PUBLIC_RANDOMNESS = {"secret_name"}


def imported(path):
    """(package of the library, name) of every import."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 3:
            for alias in node.names:
                yield (node.module or "").partition(".")[0], alias.name


@pytest.mark.parametrize("app", ["cli", "studio"])
def test_an_application_computes_nothing_itself(app):
    for path in (APPS / app).rglob("*.py"):
        for package, name in imported(path):
            assert package not in NOT_THEIRS, f"{path.name} imports {package}"
            assert package != "noise" or name in PUBLIC_RANDOMNESS, f"{path.name} imports {name}"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("error_weights must be 'relative'", "--error-weights must be 'relative'"),
        ("n='auto' needs error=, the error", "--n auto needs --error, the error"),
        ('with noise="gaussian", to 3.5 (delta = 1e-06)', "with --noise gaussian, to 3.5 (delta = 1e-06)"),
        ("count_clipped=False avoids it", "--no-count-clipped avoids it"),
        ("max_per_person needs a column", "--max-per-person needs a column"),
        ("by many means, n was 3", "by many means, n was 3"),
        ("Run: ellipsum plan --n=3", "Run: ellipsum plan --n=3"),
    ],
)
def test_arguments_are_named_as_they_are_typed(text, typed):
    assert name_options(text) == typed
