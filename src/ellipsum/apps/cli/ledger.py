"""`ellipsum ledger init | show | history | verify | export | close`: the budgets of data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .options import (
    PlainCommand,
    PlainGroup,
    argument,
    ledger_option,
    output_option,
    people_option,
    privacy_option,
    with_options,
)

if TYPE_CHECKING:
    from ... import Ledger

ledger_app = typer.Typer(
    name="ledger",
    cls=PlainGroup,
    help="Budgets of data sets. Every release is charged before any value is read.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(kw_only=True)
class LedgerOptions:
    """Every option of the ledger's commands. Options that a command does not accept keep their defaults."""

    ledger: str = argument("LEDGER", "A file (SQLite), or postgresql://user@host/name.", envvar="ELLIPSUM_LEDGER")
    dataset: str | None = ledger_option("NAME", "The name of the data set.")
    epsilon: str | None = privacy_option("DECIMAL", "Total budget: epsilon. No default.")
    delta: str | None = privacy_option("DECIMAL", "Total budget: delta. No default.")
    mu: str | None = privacy_option("DECIMAL", "Total budget in Gaussian DP, instead of epsilon.")
    cap: list[str] | None = privacy_option(
        "NAME=D",
        "mu=M, epsilon=E (may repeat) or delta=D: limits within the budget. Default: set by the first release.",
    )
    neighbors: str | None = privacy_option(
        "replace|add-remove", "Neighboring relation of every release. Default: the relation of the first release."
    )
    privacy_id: str | None = people_option(
        "COLUMN", "Column that identifies people. Default: the column of the first release."
    )
    analyst_cap: list[str] | None = ledger_option(
        "NAME=E", "Limit of an analyst, repeated; *=E for all others together."
    )
    period: str | None = ledger_option("day|week|month|year=E", "Limit for each period, within the budget.")
    anchor: str | None = ledger_option("HASH", "An anchor that show printed earlier, for comparison.")
    as_json: bool = output_option("", "Print only JSON on standard output.", default=False, flags=("--json",))
    last: int = output_option("N", "Number of entries, the last ones. Default: 50.", default=50)
    form: str = output_option(
        "FORMAT", "jsonl (default), dp_accounting (events) or registry (YAML).", default="jsonl", flags=("--format",)
    )
    output: Path | None = output_option("FILE", "Write to this file.", flags=("--output", "-o"))

    @property
    def name(self) -> str:
        """The data set, which must be given."""
        from ... import UsageError

        if self.dataset is None:
            raise UsageError("--dataset is missing. Pass the name of the data set.")
        return self.dataset


_INIT = "ledger dataset epsilon delta mu cap neighbors privacy_id analyst_cap period"


@ledger_app.command("init", cls=PlainCommand)
@with_options(_INIT.split())
def init_command(options: LedgerOptions) -> None:
    """Create the budget of a data set; the ledger is created if there is none.

    Example:

        ellipsum ledger init budget.db --dataset survey --epsilon 1 --delta 1e-6
    """
    account = _open(options.ledger).init(
        options.name,
        epsilon=options.epsilon,
        delta=options.delta,
        mu=options.mu,
        caps=_parse_caps(options.cap or []),
        neighbors=None if options.neighbors is None else options.neighbors.replace("-", "_"),
        privacy_id=options.privacy_id,
        analyst_caps=_parse_amounts("--analyst-cap", options.analyst_cap or []),
        period=_parse_amounts("--period", [options.period] if options.period else []),
    )
    _print(repr(account))


@ledger_app.command("show", cls=PlainCommand)
@with_options(["ledger", "dataset", "as_json"])
def show_command(options: LedgerOptions) -> None:
    """Show the spent and remaining part of each budget, and the checkpoint hash (anchor) of all entries.

    Example:

        ellipsum ledger show budget.db
    """
    from ...ledger.entries import reading_entries

    opened = _open(options.ledger)
    accounts = opened.accounts() if options.dataset is None else [opened.account(options.dataset)]
    with reading_entries():
        if options.as_json:
            print(json.dumps({"accounts": [account.to_dict() for account in accounts], "anchor": opened.anchor}))
        else:
            _print("\n".join([*map(repr, accounts), f"anchor {opened.anchor}"]))


@ledger_app.command("history", cls=PlainCommand)
@with_options(["ledger", "dataset", "as_json", "last"])
def history_command(options: LedgerOptions) -> None:
    """List the entries, the last one at the end.

    Example:

        ellipsum ledger history budget.db --last 10
    """
    from ...errors import whole
    from ...ledger.entries import reading_entries

    entries = _open(options.ledger).history(options.dataset, whole("--last", options.last))
    with reading_entries():
        lines = list(map(json.dumps if options.as_json else _describe_entry, entries))
    for line in lines:
        print(line) if options.as_json else _print(line)


@ledger_app.command("verify", cls=PlainCommand)
@with_options(["ledger", "anchor"])
def verify_command(options: LedgerOptions) -> None:
    """Check every entry and the chain of hashes; name the first bad entry.

    Example:

        ellipsum ledger verify budget.db
    """
    _print(f"Ledger is intact: all entries verified.\nanchor {_open(options.ledger).verify(options.anchor)}")


@ledger_app.command("export", cls=PlainCommand)
@with_options(["ledger", "form", "output"])
def export_command(options: LedgerOptions) -> None:
    """Export the entries, the events for dp_accounting, or drafts for the public registry of deployments.

    Example:

        ellipsum ledger export budget.db --format registry
    """
    from ...errors import choice
    from ...ledger.export import KINDS
    from ...util.atomic_files import check_writable, write_atomically

    choice("--format", options.form, KINDS)
    check_writable(options.output)
    text = _open(options.ledger).export(options.form)
    if options.output is None:
        print(text)
    else:
        write_atomically(options.output, text + "\n")


@ledger_app.command("close", cls=PlainCommand)
@with_options(["ledger", "dataset"])
def close_command(options: LedgerOptions) -> None:
    """Refuse all further releases of a data set, even if budget remains.

    Example:

        ellipsum ledger close budget.db --dataset survey
    """
    opened = _open(options.ledger)
    opened.close(options.name)
    _print(repr(opened.account(options.name)))


def _open(address: str) -> Ledger:
    from ... import Ledger
    from .requests import warn_of_password

    warn_of_password(address)
    return Ledger(address)


def _parse_amounts(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse `NAME=AMOUNT` for several names."""
    from ... import UsageError

    amounts: dict[str, str] = {}
    for text in texts:
        name, separator, amount = text.rpartition("=")
        if not separator or not name:
            raise UsageError(f"{option} {text!r} is not understood. Write {option} name=0.5.")
        if name in amounts:
            raise UsageError(f"{option} names {name!r} twice. Give one amount for each name.")
        amounts[name] = amount
    return amounts


def _parse_caps(texts: Sequence[str]) -> dict[str, str | list[str]]:
    """Parse limits by name; epsilon may have several."""
    several = [text.partition("=")[2] for text in texts if text.startswith("epsilon=")]
    single = _parse_amounts("--cap", [text for text in texts if not text.startswith("epsilon=")])
    return {**single, **({"epsilon": several} if several else {})}


def _describe_entry(entry: Mapping[str, Any]) -> str:
    """Describe one entry as a line of text."""
    parts = [f"{entry['number']:>7}  {entry['at'][:19]}  {entry['dataset']}  {entry['what']}"]
    parts += [f"entry {entry['of']}"] if "of" in entry else []
    parts += [f"{entry['note']} for {_describe_budget(entry['stated'])}"] if "note" in entry else []
    parts += [f"{name} {entry[name]}" for name in ("version", "analyst", "by", "key") if name in entry]
    return ", ".join(parts)


def _describe_budget(stated: Mapping[str, float]) -> str:
    order = [name for name in ("epsilon", "delta", "mu", "rho") if name in stated]
    return ", ".join(f"{name} {stated[name]:g}" for name in order) or "a guarantee"


def _print(text: str) -> None:
    from ...errors import visible

    for line in text.splitlines():
        print(visible(line))
