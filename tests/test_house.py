"""Rules of the house: labels exist, entropy stays in one module, imports stay cheap, dependencies point upwards."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ellipsum"
MODULES = sorted(SOURCE.rglob("*.py"))
LABEL = re.compile(r"\[([A-Z]\d+)\]")
# The house, from its foundation upwards; a module may import only modules that stand before it.
ORDER = [
    "version",
    "errors",
    "interrupts",
    "compiled",
    "codec",
    "integers",
    "blocks",
    "balls",
    "curves",
    "privacy",
    "composition",
    "laws",
    "rows",
    "contour",
    "clipping",
    "chisquare",
    "shape",
    "shape_normal",
    "row_maps",
    "kernels",
    "accumulate",
    "grid",
    "plans",
    "plan_files",
    "noise",
    "files",
    "texts",
    "release",
    "postprocess",
    "tables",
    "engines",
    "run",
    "projection",
    "friendly",
    "learning",
    "plots",
    "demo",
    "reproduce",
    "cli",
    "__main__",
]


def test_every_cited_label_is_proved():
    stated = set()
    for page in (ROOT / "docs" / "proofs").glob("*.md"):
        found = re.findall(r"^## \[([A-Z]\d+)\]", page.read_text(), flags=re.MULTILINE)
        assert len(found) == len(set(found)), page
        assert not stated & set(found), page
        stated |= set(found)
    cited = {
        label: path
        for path in [*MODULES, *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.py")]
        for label in LABEL.findall(path.read_text())
    }
    missing = {label: str(path.relative_to(ROOT)) for label, path in cited.items() if label not in stated}
    assert not missing
    assert stated


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_entropy_is_drawn_in_one_module(path):
    if path.parent.name == "noise" or path.name in ("demo.py", "reproduce.py"):
        return
    text = path.read_text()
    for word in ("urandom", "default_rng", "import random", "import secrets", "np.random.normal", "uuid4"):
        assert word not in text, f"{path.name} uses {word}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_kernels_are_compiled_in_one_way(path):
    """Anything else fails where no cache can be written."""
    if path.name != "compiled.py":
        assert "njit" not in path.read_text(), f"{path.name} compiles by itself: use compiled.py"


def test_importing_the_package_is_cheap():
    code = (
        "import sys, ellipsum; heavy = {'numba', 'scipy', 'pyarrow', 'matplotlib', 'flint', 'typer', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_resolves():
    import ellipsum

    for name in ellipsum.__all__:
        assert getattr(ellipsum, name) is not None
    with pytest.raises(AttributeError):
        ellipsum.nonsense  # noqa: B018


def _top_level_imports(path: Path) -> set[str]:
    """Modules of the house that importing this one imports (deferred imports do not count)."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            inside = len(path.relative_to(SOURCE).parts) - 1
            if node.level > inside:
                found.add((node.module or "").split(".")[0])
    return found - {""}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_dependencies_point_upwards(path):
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if name == "__init__":
        return
    assert name in ORDER, f"give {name} its place in the house"
    for used in _top_level_imports(path):
        assert ORDER.index(used) < ORDER.index(name), f"{name} imports {used}, which stands below it"
