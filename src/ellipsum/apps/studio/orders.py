"""An order from a form: a request, its data, and the account that is charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ... import Ledger, csv, sql
from ...display.document import Recipe
from ...display.recipe import DataPlace, request_recipe
from ...ledger import DatasetAccount
from ...request.request import Request, request_from_dict


@dataclass(frozen=True)
class Data:
    """Where the rows are: a path, or a database's address and a query; neither where names alone are known."""

    path: str | None = None
    database: str | None = None
    query: str = ""
    shown_path: str | None = None
    """The name to show, where the file lies in the studio's own folder."""
    header: bool = False
    """Whether the first line of a CSV file names the columns although it holds numbers."""

    @property
    def is_readable(self) -> bool:
        return self.path is not None or self.database is not None

    @property
    def name(self) -> str:
        return self.shown_path or self.path or self.database or "table"

    def open(self) -> object:
        """The data, as the library's calls take it."""
        if self.database is not None:
            return sql(self.query, self.database)
        return csv(self.path, header=True) if self.header and self.path else self.path

    def replace_path(self, text: str) -> str:
        """A message in which the file goes by the name that is shown."""
        return text.replace(self.path, self.shown_path) if self.path and self.shown_path else text

    def typed(self) -> tuple[str, tuple[str, ...]]:
        """The data as a Python expression, and as arguments of a command."""
        if self.database is not None:
            return f"es.sql({self.query!r}, {self.database!r})", (self.database, "--sql", self.query)
        code = f"es.csv({self.name!r}, header=True)" if self.header else repr(self.name)
        return code, (self.name, "--header") if self.header else (self.name,)


@dataclass(frozen=True)
class Order:
    """One release as a form orders it. accepted: although the plan warns that the result may be useless."""

    request: Request
    data: Data
    ledger: str | None = None
    dataset: str | None = None
    accepted: bool = False

    @property
    def account(self) -> DatasetAccount | None:
        """The account that the release is charged to."""
        return None if self.ledger is None else Ledger(self.ledger).dataset(str(self.dataset))

    @property
    def recipe(self) -> Recipe:
        """The same order as a program and as a command."""
        code, arguments = self.data.typed()
        recipe = request_recipe(self.request, DataPlace(code, arguments, self.ledger, self.dataset))
        accepted = " --yes" if self.accepted and recipe.command else ""
        return Recipe(f"{recipe.python}\nprint(release)\n", recipe.command + accepted)

    def to_dict(self) -> dict[str, object]:
        own = {"ledger": self.ledger, "dataset": self.dataset, "accepted": self.accepted}
        return {"request": self.request.to_dict(), "data": asdict(self.data), **own}

    @staticmethod
    def from_dict(saved: Mapping[str, object]) -> Order:
        """Inverse of `to_dict`, after JSON."""
        data: Mapping[str, object] = saved["data"]  # type: ignore[assignment]
        own = {name: saved[name] for name in ("ledger", "dataset", "accepted")}
        return Order(request_from_dict(saved["request"]), Data(**data), **own)  # type: ignore[arg-type]
