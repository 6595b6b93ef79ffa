"""The house in numbers: lines, modules, import cycles, long functions, arguments that travel.

    python -m benchmarks.house [FOLDER]

FOLDER is a package's folder (default: src/ellipsum); give the one of another checkout to compare.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

LONG = 60


def modules(root: Path) -> dict[str, ast.Module]:
    """Dotted name below the package (its `__init__` is the package's own name) -> its syntax tree."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts)] = ast.parse(path.read_text())
    return found


def imports(name: str, tree: ast.Module, known: set[str]) -> set[str]:
    """Every module of the package that this one imports, at the top or inside a function."""
    here = name.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - (node.level - 1)]
            target = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                found |= _resolve([*target, alias.name], known) or _resolve(target, known)
    return found - {name}


def _resolve(parts: list[str], known: set[str]) -> set[str]:
    plain = ".".join(parts)
    package = ".".join([*parts, "__init__"])
    return {candidate for candidate in (plain, package) if candidate in known}


def graph(root: Path) -> dict[str, set[str]]:
    trees = modules(root)
    return {name: imports(name, tree, set(trees)) for name, tree in trees.items() if name != "__init__"}


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected sets of two modules or more (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def functions(trees: dict[str, ast.Module]) -> Iterator[tuple[str, ast.FunctionDef]]:
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield name, node


def handed_on(function: ast.FunctionDef) -> int:
    """Arguments that a function passes to one call under their own names, unchanged: the most in any call."""
    own = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)} - {"self", "cls"}
    most = 0
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            passed = [a.id for a in node.args if isinstance(a, ast.Name)]
            passed += [k.value.id for k in node.keywords if isinstance(k.value, ast.Name)]
            most = max(most, len(own & set(passed)))
    return most


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src/ellipsum")
    trees = modules(root)
    rings = cycles(graph(root))
    long = [(name, f.name) for name, f in functions(trees) if (f.end_lineno or 0) - f.lineno + 1 > LONG]
    chain = max(((handed_on(f), f"{name}.{f.name}") for name, f in functions(trees)), default=(0, ""))
    print(f"lines                          {sum(len(p.read_text().splitlines()) for p in root.rglob('*.py'))}")
    print(f"modules                        {len(trees)}")
    print(f"import cycles (all imports)    {len(rings)}: {', '.join(str(len(ring)) for ring in rings) or 'none'}")
    for ring in rings:
        print(f"    {' '.join(ring)}")
    print(f"functions over {LONG} lines        {len(long)}: {', '.join(f'{m}.{f}' for m, f in long) or 'none'}")
    print(f"most arguments handed on       {chain[0]} ({chain[1]})")
    print(f"isinstance calls               {_count(trees, 'isinstance')}")
    print(f"getattr with a default         {_count(trees, 'getattr', 3)}")
    print(f"cast calls                     {_count(trees, 'cast')}")


def _count(trees: dict[str, ast.Module], name: str, arguments: int = 0) -> int:
    calls = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sum(1 for c in calls if isinstance(c.func, ast.Name) and c.func.id == name and len(c.args) >= arguments)


if __name__ == "__main__":
    main()
