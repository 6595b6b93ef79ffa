"""Documents as HTML, for notebooks and reports. A report has no scripts and no external files; text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Protocol

from ..errors import EllipsumError, UsageError, visible
from ..ledger import AccountState, DatasetAccount, Ledger
from ..util.atomic_files import write_atomically
from ..version import VERSION
from .checklist import checklist, describe_odds, state_definition, tabulate_curve
from .document import Background, Document, Facts, TextTable
from .recipe import shell
from .wording import INSECURE, describe_guarantee, first_upper

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CITE = f"ellipsum {VERSION}: sums and means of vectors under differential privacy. Software."
_WORKS = (
    "Balle and Wang, Improving the Gaussian mechanism for differential privacy, ICML 2018.",
    "Dong, Roth and Su, Gaussian differential privacy, Journal of the Royal Statistical Society B, 2022.",
    "NIST SP 800-226, Guidelines for evaluating differential privacy guarantees, 2025.",
)
_MOST_PAGES = 5  # Pages of a figure.
_NO_PICTURES = "Figures need matplotlib: pip install 'ellipsum[plots]'."
_MOST_LINES = 1000
_CSS = """
:root { color-scheme: light; }
html { font-size: 16px; }
body { margin: 0; background: #fff; color: #1a1a1a; font: 1rem/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main, footer { max-width: 56rem; margin: 0 auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 1.6rem 0 0.6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; padding-top: 0.7rem; border-top: 2px solid #1a1a1a; }
h3 { font-size: 1rem; margin: 1.1rem 0 0.3rem; }
p { margin: 0.4rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1.2rem; margin: 0.6rem 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.92rem; max-width: 100%; display: block;
  overflow-x: auto; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #4a4a4a; padding-bottom: 0.2rem; }
th, td { text-align: left; vertical-align: top; padding: 0.28rem 0.9rem 0.28rem 0; border-bottom: 1px solid #ccc;
  overflow-wrap: anywhere; unicode-bidi: isolate; }
td { min-width: 4.5rem; }
td:first-child { min-width: 7rem; }
.wide th, .wide td { width: 33%; min-width: 9rem; }
thead th { border-bottom: 2px solid #1a1a1a; overflow-wrap: normal; }
.warning { border-left: 4px solid #1a1a1a; background: #f3f3f3; padding: 0.5rem 0.8rem; }
figure { margin: 1rem 0; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: #4a4a4a; font-size: 0.9rem; }
pre { background: #f3f3f3; padding: 0.7rem 0.9rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font: 0.85rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
footer { color: #4a4a4a; font-size: 0.9rem; border-top: 1px solid #ccc; margin-top: 2rem; padding-bottom: 2rem; }
@page { margin: 16mm; }
@media print {
  html { font-size: 9.5pt; }
  thead th { overflow-wrap: anywhere; }
  main, footer { max-width: none; padding: 0; }
  h2, h3, caption { break-after: avoid; }
  tr, figure, .warning, dl { break-inside: avoid; }
  table { display: table; overflow: visible; }
  thead { display: table-header-group; }
  pre { background: none; border: 1px solid #ccc; }
  .warning { background: none; }
}
"""


class Reported(Protocol):
    """A result that has a report."""

    def document(self, most: int | None = None) -> Document: ...
    def background(self) -> Background: ...


def fragment(document: Document) -> str:
    """A document for a notebook."""
    tables = "".join(map(_table, document.tables))
    warnings = _paragraphs([f"Warning: {text}" for text in document.warnings])
    return f"<div><p><b>{_text(document.title)}</b></p>{tables}{_facts(document.facts)}{warnings}</div>"


def write_report(
    result: Reported,
    path: str | Path,
    *,
    ledger: DatasetAccount | Ledger | str | None = None,
    dataset: str | None = None,
    command: Sequence[str] | None = None,
) -> None:
    """Write the report of a result to a file, atomically."""
    write_atomically(Path(path), html(result, ledger=ledger, dataset=dataset, command=command))


def html(
    result: Reported,
    *,
    ledger: DatasetAccount | Ledger | str | None = None,
    dataset: str | None = None,
    command: Sequence[str] | None = None,
) -> str:
    """The report of a result as a page.

    ledger, dataset: the account that was charged. command: the arguments of the command line, if it made the result.
    """
    document, background = result.document(_MOST_LINES), result.background()
    balance = _balance(ledger, dataset)
    sections = [
        _results_section(document, background),
        _guarantee(background),
        _origin(background),
        _pictures(document.title, background),
        _ledger(balance),
        _checklist(background, bool(document.warnings), balance),
        _again(background, command),
        _citation_section(),
    ]
    return _page(document.title, "".join(sections))


def _results_section(document: Document, background: Background) -> str:
    insecure = "" if background.secure else f'<p class="warning"><strong>{_text(INSECURE)}</strong></p>'
    warnings = "".join(f'<p class="warning">Warning: {_text(text)}</p>' for text in document.warnings)
    tables = "".join(map(_table, document.tables))
    return _section("Results", f"{insecure}{warnings}{tables}{_facts(document.facts)}")


def _guarantee(background: Background) -> str:
    privacy, stated = background.privacy, background.stated
    symbols = _paragraphs([f"{first_upper(describe_guarantee(privacy, stated))}.", *state_definition(privacy)])
    text = f"<h3>In plain language</h3>{_paragraphs(describe_odds(privacy))}"
    return _section(
        "Privacy guarantee", f"{text}<h3>Formal definition</h3>{symbols}{_table(tabulate_curve(privacy, stated))}"
    )


def _origin(background: Background) -> str:
    tables = "".join(map(_table, background.origin_tables))
    return _section("Source of the bounds", f"{_paragraphs(background.origin)}{tables}")


def _pictures(title: str, background: Background) -> str:
    from .plots.drawing import available

    if background.sheet is None and background.forecast is None and background.picture is None:
        return ""
    if not available():
        return _section("Figures", _paragraphs([_NO_PICTURES]))
    return _section("Figures", "".join(_figures(title, background)))


def _figures(title: str, background: Background) -> Iterable[str]:
    from .plots.strips import on_paper, sheet_svgs

    if background.sheet is not None:
        sheet = on_paper(background.sheet)
        for drawing in sheet_svgs(sheet, "values", _MOST_PAGES):
            yield _figure(drawing, f"{title}: values and their intervals")
        if len(sheet.pages) > _MOST_PAGES:
            yield _paragraphs([f"The first {_MOST_PAGES} of {len(sheet.pages)} pages; the table has all values."])
    picture = None if background.picture is None else background.picture("picture")
    if picture is not None:
        yield _figure(picture, title)
    forecast = None if background.forecast is None else background.forecast("forecast")
    if forecast is not None:
        yield _figure(forecast, "Expected error of the plan, made without data")


def _ledger(balance: str) -> str:
    return _section("Budget of the data set", _paragraphs([balance])) if balance else ""


def _balance(ledger: DatasetAccount | Ledger | str | None, dataset: str | None) -> str:
    """Spent and remaining budget of a data set, without the names of analysts."""
    if ledger is None:
        return ""
    if dataset is None and not isinstance(ledger, DatasetAccount):
        raise UsageError("ledger must be the account of a data set, as in es.Ledger(address).dataset(name).")
    try:
        if isinstance(ledger, DatasetAccount):
            return _account(ledger.state)
        book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        return _account(book.account(str(dataset).partition("@")[0]))
    except EllipsumError:
        return "The ledger could not be read when this report was made."


def _account(account: AccountState) -> str:
    from ..ledger.charging import describe_remaining, describe_spent, short_text

    budget = ", ".join(f"{name} {short_text(value)}" for name, value in account.budget.items())
    text = f"The ledger allows {budget} for all releases of this data set together"
    if account.caps is None:
        return f"{text}; nothing is spent."
    many = f"{account.released} release{'s' * (account.released != 1)} made"
    return f"{text}. Spent: {describe_spent(account.caps)}; left: {describe_remaining(account.caps)}; {many}."


def _checklist(background: Background, warned: bool, balance: str) -> str:
    lines = "".join(
        f"<tr><th scope='row'>{_text(item.question)}</th><td>{_text(item.answer)}</td><td>{_text(item.open)}</td></tr>"
        for item in checklist(background, warned, balance)
    )
    head = "<thead><tr><th>Question</th><th>Answer</th><th>To be completed by the publisher</th></tr></thead>"
    lead = _paragraphs(["The questions follow NIST SP 800-226."])
    return _section("Checklist", f"{lead}<table class='wide'>{head}<tbody>{lines}</tbody></table>")


def _again(background: Background, command: Sequence[str] | None) -> str:
    line = background.recipe.command if command is None else shell(command)
    shown = f"<h3>On the command line</h3>{_code(line)}" if line else ""
    lead = _paragraphs(["Every run draws new noise and spends the budget again."])
    return _section("Reproduce", f"{lead}{shown}<h3>In Python</h3>{_code(background.recipe.python)}")


def _citation_section() -> str:
    works = "".join(f"<li>{_text(work)}</li>" for work in _WORKS)
    return _section("How to cite", f"{_paragraphs([_CITE])}<ul>{works}</ul>")


def _page(title: str, body: str) -> str:
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="generator" content="ellipsum {VERSION}"><title>{_text(title)}</title><style>{_CSS}</style>'
    )
    foot = f"<footer><p>Made with ellipsum {VERSION}. Everything on this page may be published.</p></footer>"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main><h1>{_text(title)}</h1>{body}</main>'
        f"{foot}</body></html>\n"
    )


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{inside}</section>\n"


def _facts(facts: Facts) -> str:
    pairs = "".join(f"<dt>{_text(title)}</dt><dd>{_text(text)}</dd>" for title, text in facts)
    return f"<dl>{pairs}</dl>" if pairs else ""


def _table(table: TextTable) -> str:
    heads = "".join(f"<th scope='col'>{_text(head)}</th>" for head in table.heads)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in line) + "</tr>" for line in table.lines)
    caption = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    rest = _paragraphs([table.rest] if table.rest else [])
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{rest}"


def _figure(drawing: str, text: str) -> str:
    return f'<figure role="img" aria-label="{_text(text)}">{drawing}<figcaption>{_text(text)}.</figcaption></figure>'


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def _code(text: str) -> str:
    return "<pre><code>" + "\n".join(map(_text, text.split("\n"))) + "</code></pre>"


def _text(text: str) -> str:
    """Escape markup and spell out control characters, so that a browser shows the text literally."""
    return escape(visible(text))
