"""Other libraries' code, commands and notebooks of the documentation run, and the built site needs no other host."""

import html
import re
import runpy
import subprocess
import warnings

import nbformat
import numpy as np
import pytest
from conftest import DOCS, ROOT, blocks
from nbclient import NotebookClient

COMPARISON = DOCS / "concepts" / "comparison.md"
FIGURES = runpy.run_path(str(DOCS / "pictures" / "figures.py"))
SHELL = [page for page in sorted(DOCS.rglob("*.md")) if blocks(page, "sh")]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
SITE = ROOT / "site"
GENERATED = ("<!-- commands -->", "<!-- names -->", "<!-- statements -->", "<!-- citation -->")
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name != "dev" and not any(mark in page.read_text() for mark in GENERATED)
]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"?(https?:)?//|<link[^>]+(?:stylesheet|preconnect|icon)[^>]+https?://"
)


@pytest.mark.parametrize("library", ["OpenDP", "diffprivlib"])
def test_the_same_task_runs_in_other_libraries(library, folder, capsys):
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for code in blocks(COMPARISON, "python", section="The task") + blocks(COMPARISON, "py", section=library):
            exec(compile(code, COMPARISON.name, "exec"), namespace)
    assert "private mean of 3 columns" in capsys.readouterr().out


def _tolerance(runs, runs_of_page):
    """Of the ratio of two root mean square errors of Laplace noise: 6.2 standard errors, a false alarm of 1e-9."""
    return 6.2 * np.sqrt((6 - 1) / 4 * (1 / runs + 1 / runs_of_page))


def test_the_errors_of_the_comparison_are_those_of_its_command():
    from benchmarks import peer_means

    table = re.findall(
        r"^\| (?:OpenDP|diffprivlib|ellipsum)[^|]*\|((?: \d\.\d\d \|){3})$", COMPARISON.read_text(), re.M
    )
    assert len(table) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cells, release in zip(table, peer_means.releases().values(), strict=True):
            errors = np.array(cells.strip(" |").split("|"), dtype=float)
            np.testing.assert_allclose(
                peer_means.error(release, 2_000), errors, rtol=_tolerance(2_000, peer_means.RUNS)
            )


def test_the_errors_of_medians_and_counts_are_those_of_their_command():
    from benchmarks import peer_medians

    rows = re.findall(r"^\| (?:OpenDP|diffprivlib|ellipsum)[^|]*\|((?:[ \d.]*\|){4})$", COMPARISON.read_text(), re.M)
    cells = np.array([[float(cell or "nan") for cell in row.replace(" ", "").split("|")[:4]] for row in rows])
    medians, counts = cells[~np.isnan(cells[:, 0]), :3], cells[~np.isnan(cells[:, 3]), 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for errors, release in zip(medians, peer_medians.medians().values(), strict=True):
            near = {"rtol": _tolerance(300, peer_medians.RUNS), "atol": 0.005}
            np.testing.assert_allclose(peer_medians.median_errors(release, 300), errors, **near)
        for error, release in zip(counts, peer_medians.counts().values(), strict=True):
            near = {"rtol": _tolerance(24 * 50, 24 * peer_medians.RUNS // 10), "atol": 0.05}  # 24 counts a release
            np.testing.assert_allclose(peer_medians.count_error(release, 50), error, **near)


@pytest.mark.parametrize("name", sorted(FIGURES["FIGURES"]))
def test_figures_show_what_the_library_says(name, tmp_path):
    """Numbers and words of a figure: `python docs/pictures/figures.py` draws all of them again."""
    drawn = FIGURES["draw"](name, tmp_path)
    assert _texts(drawn) == _texts(DOCS / "pictures" / f"{name}.svg")


def _texts(path):
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


@pytest.mark.parametrize("page", SHELL, ids=lambda page: page.stem)
def test_commands_run(page, tables, environment):
    text = "set -e\n" + "\n".join(blocks(page, "sh"))
    done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, folder):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are left out of the repository"
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_example_programs_run(path, folder, environment):
    done = subprocess.run(["python", path], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_there_are_notebooks_and_commands():
    assert len(NOTEBOOKS) == 3
    assert len(SHELL) > 5


def test_the_site_loads_nothing_from_other_hosts():
    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        assert not LOADED.search(page.read_text()), page
    for sheet in SITE.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text()), sheet


def test_labels_lead_to_their_statements():
    """Checked here, since the builder checks links of Markdown alone."""
    for page in sorted(SITE.rglob("*.html")):
        for target, label in re.findall(r'href="([^"#]*)#[a-z]\d+">\[([A-Z]\d+)\]</a>', page.read_text()):
            assert f'id="{label.lower()}"' in (page.parent / target).read_text(), (page, label)


def _plain(text):
    """Letters and signs alone: layout, and what Markdown and tables use for it, left out."""
    return re.sub(r"[\s`*#|\\-]", "", text)


def _written(page):
    text = re.sub(r"^```\w*$|^\|[\s:|-]+\|$|^ *\d+\. |!\[.*?\]\(.*?\)", "", page.read_text(), flags=re.MULTILINE)
    return _plain(re.sub(r"\[([^\]]*)\]\((?:[^)]*\.md[^)]*|https?:[^)]*)\)", r"\1", text))


def _shown(page):
    text = (SITE / page.relative_to(DOCS).with_suffix(".html")).read_text()
    article = text[text.index("<article") : text.index("</article>")]
    without = re.sub(r'<a class="headerlink".*?</a>|<svg.*?</svg>|<[^>]+>', "", article, flags=re.DOTALL)
    return _plain(html.unescape(without))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_sign_of_a_formula_is_lost(page):
    """Underscores are no emphasis, brackets no tags, labels no links that swallow what follows."""
    assert _shown(page) == _written(page)
