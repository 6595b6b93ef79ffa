"""State of a running studio: opened tables, running releases and finished releases."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

from ... import EllipsumError, UsageError
from ...api import AnyPlan
from ...errors import shown
from ...noise import secret_name
from ...request.request import Request
from ...sources import Selection, open_source
from ...sources.paths import Field, schema_of
from ...sources.people import Scratch
from ..demo import BOUNDS, generate_people
from .forms import Filled
from .jobs import Job, Workers
from .orders import Data, check_address

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".feather", ".arrow", ".ipc")
MOST_COLUMNS = 2000
Entry = TypeVar("Entry")
DEMO_ROWS = 20_000
_MOST_KEPT = 200
_PATIENCE_SECONDS = 0.4
_COPY_BYTES = 1 << 20


def short_name() -> str:
    """A name for an address, which cannot be guessed."""
    return secret_name()[:24]


@dataclass
class Desk:
    """An opened table: its data, its public schema, and its number of rows once it was counted."""

    number: str
    label: str
    data: Data
    schema: tuple[Field, ...]
    start: Filled = field(default_factory=Filled)
    """The initial contents of the form."""
    uploaded: Path | None = None
    """The copy of an uploaded file, which is removed with the table."""
    _count: int | None = None
    _failure: EllipsumError | None = None
    _counting: threading.Thread | None = None

    @property
    def plans_only(self) -> bool:
        return self.data.path is None and self.data.database is None

    def public_rows(self, request: Request, guess: int | None) -> int | None:
        """The n of a forecast: the count if it is public, otherwise the typed guess; None until it is counted.

        The number of people is known only after their rows were grouped, so a guess is used before.
        """
        if self.plans_only or request.neighbors != "replace" or request.people is not None:
            return guess
        if self._counting is None:
            self._counting = threading.Thread(target=self._run_count, daemon=True)
            self._counting.start()
        self._counting.join(_PATIENCE_SECONDS)
        if self._failure is not None:
            raise self._failure
        return self._count

    def _run_count(self) -> None:
        try:
            column = next((one.name for one in self.schema if one.numeric), None)
            chosen = Selection(None if column is None else [column])
            self._count = open_source(self.data.open(), chosen).count()
        except EllipsumError as error:
            self._failure = error
        except Exception:  # Its text may quote a cell.
            self._failure = UsageError("The rows could not be counted. Type a guess of their number.")


class Studio:
    """The state of one run of the studio, which ends with the process."""

    def __init__(self) -> None:
        self.desks: dict[str, Desk] = {}
        self.jobs: dict[str, Job] = {}
        self.plans: dict[str, AnyPlan] = {}
        """Forecasts whose pictures a page may ask for."""
        self.workers = Workers()
        self.first: str | None = None
        """The table in the command that started the studio."""
        self._scratch: Scratch | None = None
        self._forms: dict[str, str | None] = {}
        """The job that each form started."""
        self._lock = threading.Lock()

    # Opening tables ------------------------------------------------------------------------------------------

    def open_path(self, path: str, header: bool = False) -> Desk:
        """Open a file, a folder or a pattern on this machine."""
        full = os.path.abspath(os.path.expanduser(path)) if path else path
        return self._open_table(shown(os.path.basename(full)), Data(path=full, header=header))

    def open_database(self, address: str, query: str, table: str) -> Desk:
        """Open a query of a database, or a whole table."""
        check_address(address)
        if bool(query) == bool(table):
            raise UsageError("Type either a query or the name of a table.")
        text = query or "select * from " + ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
        return self._open_table(shown(table or "query"), Data(database=address, query=text))

    def open_names(self, names: list[str]) -> Desk:
        """Open column names without data, for plans only."""
        if not names or len(set(names)) < len(names):
            raise UsageError("Type the names of the columns, one per line or with commas between them, each name once.")
        return self._keep(Desk(short_name(), "column names", Data(), tuple(map(Field, names))))

    def open_upload(self, name: str, file: BinaryIO, header: bool = False) -> Desk:
        """Open an uploaded file, which only this user can read until the studio ends."""
        suffix = max((end for end in SUFFIXES if name.lower().endswith(end)), key=len, default="")
        if not suffix:
            raise UsageError("Choose a file whose name ends in .csv, .tsv, .parquet or .feather.")
        path = self._folder() / f"{short_name()}{suffix}"
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            while part := file.read(_COPY_BYTES):
                out.write(part)
        own = shown(Path(name.replace("\\", "/")).name)
        data = Data(path=str(path), shown_path=own, header=header)
        try:
            desk = self._open_table(own, data)
        except EllipsumError as error:
            path.unlink()
            raise type(error)(data.replace_path(str(error))) from None
        desk.uploaded = path
        return desk

    def open_demo(self) -> Desk:
        """Open a table of invented people, with suitable bounds."""
        path = self._folder() / "demo.csv"
        if not path.exists():
            lines = [",".join(f"{cell:.6g}" for cell in row) for row in generate_people(DEMO_ROWS).tolist()]
            path.write_text("\n".join([",".join(BOUNDS), *lines]) + "\n")
        ends = {f"{end}-{i}": f"{pair[k]:g}" for i, pair in enumerate(BOUNDS.values()) for k, end in enumerate("ab")}
        desk = self._open_table("demo table of invented people", Data(path=str(path), shown_path="demo.csv"))
        desk.start = Filled(ends, frozenset(range(len(BOUNDS))))
        return desk

    def _open_table(self, label: str, data: Data) -> Desk:
        schema = schema_of(data.open() if data.path is None else data.path, data.header or None)
        if len(schema) > MOST_COLUMNS:
            raise UsageError(f"This table has more than {MOST_COLUMNS} columns. Use the library for it.")
        return self._keep(Desk(short_name(), label, data, schema))

    def _keep(self, desk: Desk) -> Desk:
        with self._lock:
            while len(self.desks) >= _MOST_KEPT and self._forget_oldest_desk():
                pass
            self.desks[desk.number] = desk
        return desk

    def _forget_oldest_desk(self) -> bool:
        """Forget the oldest table that no running release reads, and remove its upload; False if there is none."""
        busy = {job.desk for job in self.jobs.values() if not job.ended}
        number = next((number for number in self.desks if number not in busy), None)
        if number is None:
            return False
        desk = self.desks.pop(number)
        if desk.uploaded is not None:
            desk.uploaded.unlink(missing_ok=True)
        return True

    def _folder(self) -> Path:
        with self._lock:
            if self._scratch is None:
                self._scratch = Scratch()
            return self._scratch.path

    # Forms, which can be used once ----------------------------------------------------------------------------------

    def new_form(self) -> str:
        """A token for a form, which can make one release."""
        token = secret_name()
        with self._lock:
            _forget_oldest(self._forms, 10 * _MOST_KEPT)
            self._forms[token] = None
        return token

    def knows(self, token: str) -> bool:
        """Whether a form's token is from this run of the studio."""
        return token in self._forms

    def begin(self, token: str, job: Job) -> Job | None:
        """Start a job for the token of a form, or return its earlier job; None if the token is invalid."""
        with self._lock:
            if token not in self._forms:
                return None
            if self._forms[token] is not None:
                earlier = self.jobs.get(self._forms[token] or "")
                return earlier if earlier is not None and earlier.is_for(job) else None
            self._forms[token] = job.number
            _forget_oldest(self.jobs)
            self.jobs[job.number] = job
        try:
            self.workers.start(job)
        except UsageError:
            with self._lock:
                self._forms[token] = None
                del self.jobs[job.number]
            raise
        return job

    def keep_plan(self, plan: AnyPlan) -> str:
        """Remember the plan of a forecast until many others have come; return its name."""
        name = short_name()
        with self._lock:
            _forget_oldest(self.plans)
            self.plans[name] = plan
        return name

    def history(self) -> list[Job]:
        """Every finished release, the last one first."""
        return [job for job in reversed(list(self.jobs.values())) if job.state == "released"]

    def close(self) -> None:
        """End every process, and remove the files of the studio."""
        self.workers.close()
        if self._scratch is not None:
            self._scratch.close()


def _forget_oldest(kept: dict[str, Entry], most: int = _MOST_KEPT) -> None:
    while len(kept) >= most:
        kept.pop(next(iter(kept)))
