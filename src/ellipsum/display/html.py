"""Documents as HTML: for notebooks, and as a report, one file without scripts that loads nothing; words escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol

from ..errors import EllipsumError, UsageError, visible
from ..ledger import AccountState, Ledger
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
_MOST_PAGES = 5  # of pictures
_NO_PICTURES = "Pictures need matplotlib: pip install 'ellipsum[plots]'."
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
    warnings = _paragraphs([f"Warning: {words}" for words in document.warnings])
    return f"<div><p><b>{_text(document.title)}</b></p>{tables}{_facts(document.facts)}{warnings}</div>"


def write_report(
    result: Reported,
    path: str | Path,
    *,
    ledger: Any = None,
    dataset: str | None = None,
    command: Sequence[str] | None = None,
) -> None:
    """Write the report of a result to a file, atomically."""
    write_atomically(Path(path), html(result, ledger=ledger, dataset=dataset, command=command))


def html(
    result: Reported, *, ledger: Any = None, dataset: str | None = None, command: Sequence[str] | None = None
) -> str:
    """The report of a result as a page.

    ledger, dataset: where it was charged. command: the words of the command line that made it, where one did.
    """
    document, background = result.document(_MOST_LINES), result.background()
    balance = _balance(ledger, dataset)
    sections = [
        _released(document, background),
        _guarantee(background),
        _origin(background),
        _pictures(document.title, background),
        _ledger(balance),
        _checklist(background, bool(document.warnings), balance),
        _again(background, command),
        _cited(),
    ]
    return _page(document.title, "".join(sections))


# Sections -----------------------------------------------------------------------------------------------


def _released(document: Document, background: Background) -> str:
    insecure = "" if background.secure else f'<p class="warning"><strong>{_text(INSECURE)}</strong></p>'
    warnings = "".join(f'<p class="warning">Warning: {_text(words)}</p>' for words in document.warnings)
    tables = "".join(map(_table, document.tables))
    return _section("What was released", f"{insecure}{warnings}{tables}{_facts(document.facts)}")


def _guarantee(background: Background) -> str:
    privacy, stated = background.privacy, background.stated
    symbols = _paragraphs([f"{first_upper(describe_guarantee(privacy, stated))}.", *state_definition(privacy)])
    words = f"<h3>In words</h3>{_paragraphs(describe_odds(privacy))}"
    return _section(
        "What is guaranteed", f"{words}<h3>In symbols</h3>{symbols}{_table(tabulate_curve(privacy, stated))}"
    )


def _origin(background: Background) -> str:
    tables = "".join(map(_table, background.origin_tables))
    return _section("Where bounds came from", f"{_paragraphs(background.origin)}{tables}")


def _pictures(title: str, background: Background) -> str:
    from .plots.style import available

    if background.sheet is None and background.forecast is None:
        return ""
    if not available():
        return _section("Pictures", _paragraphs([_NO_PICTURES]))
    return _section("Pictures", "".join(_figures(title, background)))


def _figures(title: str, background: Background) -> Iterable[str]:
    from .plots.strips import on_paper, sheet_svgs

    if background.sheet is not None:
        sheet = on_paper(background.sheet)
        for drawing in sheet_svgs(sheet, "values", _MOST_PAGES):
            yield _figure(drawing, f"{title}: values and their intervals")
        if len(sheet.pages) > _MOST_PAGES:
            yield _paragraphs([f"The first {_MOST_PAGES} of {len(sheet.pages)} pages; the table has all values."])
    forecast = None if background.forecast is None else background.forecast("forecast")
    if forecast is not None:
        yield _figure(forecast, "Forecast of the plan, made before any value was read")


def _ledger(balance: str) -> str:
    return _section("The budget of the data set", _paragraphs([balance])) if balance else ""


def _balance(ledger: Any, dataset: str | None) -> str:
    """What is spent and left of a data set's budget; who spent it is not told."""
    if ledger is None:
        return ""
    if dataset is None:
        raise UsageError("dataset is missing. State the name under which the ledger keeps this data's budget.")
    try:
        book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        return _account(book.account(dataset.partition("@")[0]))
    except EllipsumError:
        return "The ledger could not be read when this report was made."


def _account(account: AccountState) -> str:
    from ..ledger.amounts import brief
    from ..ledger.refusal import left_of, spent_of

    budget = ", ".join(f"{name} {brief(value)}" for name, value in account.budget.items())
    words = f"The ledger allows {budget} for all releases of this data set together"
    if account.caps is None:
        return f"{words}; nothing is spent."
    many = f"{account.released} release{'s' * (account.released != 1)} made"
    return f"{words}. Spent: {spent_of(account.caps)}; left: {left_of(account.caps)}; {many}."


def _checklist(background: Background, warned: bool, balance: str) -> str:
    lines = "".join(
        f"<tr><th scope='row'>{_text(item.question)}</th><td>{_text(item.answer)}</td><td>{_text(item.open)}</td></tr>"
        for item in checklist(background, warned, balance)
    )
    head = "<thead><tr><th>question</th><th>this release</th><th>its publisher</th></tr></thead>"
    lead = _paragraphs(["The questions follow NIST SP 800-226, in other words."])
    return _section("Checklist", f"{lead}<table class='wide'>{head}<tbody>{lines}</tbody></table>")


def _again(background: Background, command: Sequence[str] | None) -> str:
    line = background.recipe.command if command is None else shell(command)
    shown = f"<h3>On the command line</h3>{_code(line)}" if line else ""
    lead = _paragraphs(["Fresh noise is drawn each time, and the budget is spent each time."])
    return _section("How to make it again", f"{lead}{shown}<h3>In Python</h3>{_code(background.recipe.python)}")


def _cited() -> str:
    works = "".join(f"<li>{_text(work)}</li>" for work in _WORKS)
    return _section("How to cite", f"{_paragraphs([_CITE])}<ul>{works}</ul>")


# Pieces -------------------------------------------------------------------------------------------------


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
    pairs = "".join(f"<dt>{_text(title)}</dt><dd>{_text(words)}</dd>" for title, words in facts)
    return f"<dl>{pairs}</dl>" if pairs else ""


def _table(table: TextTable) -> str:
    heads = "".join(f"<th scope='col'>{_text(head)}</th>" for head in table.heads)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in line) + "</tr>" for line in table.lines)
    caption = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    rest = _paragraphs([table.rest] if table.rest else [])
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{rest}"


def _figure(drawing: str, words: str) -> str:
    return f'<figure role="img" aria-label="{_text(words)}">{drawing}<figcaption>{_text(words)}.</figcaption></figure>'


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def _code(text: str) -> str:
    return "<pre><code>" + "\n".join(map(_text, text.split("\n"))) + "</code></pre>"


def _text(text: str) -> str:
    """Words that a browser shows as they are: markup escaped, control characters spelled out."""
    return escape(visible(text))
