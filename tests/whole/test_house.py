"""Rules of the code: labels exist, entropy stays in one package, imports stay cheap and point one way."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.house import cycles, graph

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ellipsum"
MODULES = sorted(SOURCE.rglob("*.py"))
LABEL = re.compile(r"\[([A-Z]\d+)\]")


def order() -> list[str]:
    """The packages and root modules, lowest first, as ARCHITECTURE.md lists them."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    table = page[page.index("## Packages") :]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name.removesuffix(".py").rstrip("/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


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


def test_entropy_is_drawn_in_one_package():
    for path in MODULES:
        if path.parent.name == "noise" or path.name in ("demo.py", "reproduce.py"):
            continue
        text = path.read_text()
        for word in ("urandom", "default_rng", "import random", "import secrets", "np.random.normal", "uuid4"):
            assert word not in text, f"{path.name} uses {word}"


def test_kernels_are_compiled_in_one_way():
    """Anything else fails where no cache can be written."""
    for path in MODULES:
        assert "njit" not in path.read_text() or path.name == "compile.py", f"{path.name} compiles by itself"


def test_importing_the_package_is_cheap():
    code = (
        "import sys, ellipsum; heavy = {'numba', 'scipy', 'pyarrow', 'matplotlib', 'flint', 'typer', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_can_be_imported_where_there_is_no_posix():
    """What Windows lacks is looked up inside functions, or within try."""
    lacking = {"fcntl", "resource", "pwd", "grp", "termios", "os.fork", "os.getuid", "os.killpg", "os.O_NOFOLLOW"}
    lacking |= {f"signal.SIG{name}" for name in ("HUP", "QUIT", "KILL", "ALRM", "CHLD")}

    def at_import(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Try)):
                yield child
                yield from at_import(child)

    for path in MODULES:
        for node in at_import(ast.parse(path.read_text())):
            used = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            used += [node.module] if isinstance(node, ast.ImportFrom) else []
            used += [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
            assert not lacking & set(used), f"{path.name}: {used}"


def test_a_first_release_imports_no_scipy_functions_nor_what_it_does_not_use():
    code = (
        "import sys, numpy, ellipsum as es; es.sum(numpy.zeros((50, 10)), es.Box(0, 1), epsilon=1, delta=1e-6);"
        "heavy = {'scipy.special', 'scipy.linalg', 'pyarrow', 'ellipsum.learning', 'ellipsum.friendly'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    for _ in range(2):  # The first may compile, for which numba imports scipy.linalg.
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_resolves():
    import ellipsum

    for name in ellipsum.__all__:
        assert getattr(ellipsum, name) is not None
    with pytest.raises(AttributeError):
        ellipsum.nonsense  # noqa: B018


GRAPH = graph(SOURCE)


def package(module: str) -> str:
    """The package or root module that a module belongs to."""
    return module.split(".")[0]


def test_no_import_goes_in_a_circle():
    """Every import counts, those inside functions and for type checkers too."""
    assert cycles(GRAPH) == []


def test_every_package_has_its_place():
    assert len(order()) == len(set(order()))
    assert set(order()) == {package(module) for module in GRAPH} - {"__main__"}


def test_imports_point_to_packages_that_stand_before():
    places = {name: place for place, name in enumerate(order())}
    for module, imported in GRAPH.items():
        for name in imported - {"__init__"}:
            below = module == "__main__" or places[package(name)] <= places[package(module)]
            assert below, f"{module} imports {name}, which stands above it"


def test_apps_take_public_names_from_the_package_itself():
    """`from ... import Box` is public and `from ...rows import Rows` is not, so imports tell how far an app reaches."""
    import ellipsum

    for path in (SOURCE / "apps").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level > 1:
                assert not {name.name for name in node.names} & set(ellipsum.__all__), f"{path}:{node.lineno}"


def test_noise_is_opened_in_one_place():
    """[U5] A stream is opened by a session, and by nobody else."""
    for path in MODULES:
        opens = "Stream.open(" in path.read_text() or "Stream(" in path.read_text().replace("class Stream(", "")
        inside = path.parent.name == "noise"
        assert not opens or inside or path.name == "session.py", path


def test_class_names_are_unique():
    """A name in an error or a traceback says which class is meant."""
    trees = [ast.parse(path.read_text()) for path in MODULES]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []


def test_test_modules_have_different_names():
    """If two modules have the same name, pytest collects only one of them."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


def test_a_plain_release_imports_nothing_of_pictures_and_reports():
    code = (
        "import sys, numpy, ellipsum as es, ellipsum.apps.cli.output;"
        "es.mean(numpy.ones((50, 1)), es.Ball(2.0), epsilon=50, delta=1e-6);"
        "heavy = 'matplotlib', 'ellipsum.display.plots', 'ellipsum.display.html';"
        "print(sorted(m for m in sys.modules if m.startswith(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
