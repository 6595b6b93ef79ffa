"""Other libraries' code, commands and notebooks of the documentation run, and the built site needs no other host."""

import html
import re
import subprocess
import warnings

import nbformat
import pytest
from conftest import DOCS, ROOT, blocks
from nbclient import NotebookClient

PEERS = [DOCS / "coming-from" / f"{name}.md" for name in ("opendp", "diffprivlib")]
SHELL = [page for page in sorted(DOCS.rglob("*.md")) if blocks(page, "sh")]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
SITE = ROOT / "site"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "reference"]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"?(https?:)?//|<link[^>]+(?:stylesheet|preconnect|icon)[^>]+https?://"
)


@pytest.mark.parametrize("page", PEERS, ids=lambda page: page.stem)
def test_the_same_task_runs_in_both_libraries(page, folder, capsys):
    namespace = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for code in blocks(page, "python", "py"):
            exec(compile(code, page.name, "exec"), namespace)
    assert "private mean of 3 columns" in capsys.readouterr().out


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


def test_there_are_notebooks_and_commands():
    assert len(NOTEBOOKS) == 2
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
