"""State of a running studio: opened tables, running releases and finished releases."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

from ... import EllipsumError, UsageError, from_json
from ...api import AnyPlan
from ...errors import shown
from ...noise import secret_name
from ...releases.base import StatisticRelease
from ...request.request import Request
from ...sources import Selection, open_source
from ...sources.paths import Field, schema_of
from ...sources.people import Scratch
from ..demo import BOUNDS, generate_people
from .forms import Filled
from .jobs import Job, Workers
from .orders import Data, Order, check_address

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".feather", ".arrow", ".ipc")
MOST_COLUMNS = 2000
Entry = TypeVar("Entry")
DEMO_ROWS = 20_000
_MOST_KEPT = 200
_PATIENCE_SECONDS = 0.4
_COPY_BYTES = 1 << 20


def short_name() -> str:
    """A name for an address that cannot be guessed."""
    return secret_name()[:24]


@dataclass
class Desk:
    """An opened table: its place, its public schema, and its number of rows once that is needed."""

    number: str
    label: str
    data: Data
    schema: tuple[Field, ...]
    start: Filled = field(default_factory=Filled)
    """The initial contents of the form."""
    uploaded: Path | None = None
    """The studio's own copy of a file that was sent; removed with the table."""
    _count: int | None = None
    _failure: EllipsumError | None = None
    _counting: threading.Thread | None = None

    @property
    def plans_only(self) -> bool:
        return not self.data.is_readable

    def public_rows(self, request: Request, guess: int | None) -> int | None:
        """The n of a forecast: counted where it is public, the typed guess where it is not; None while it is counted.

        How many people there are is known only after their rows were grouped: a guess serves until then.
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
        except Exception:  # its text may quote a cell
            self._failure = UsageError("the rows could not be counted. Type a guess of their number.")


@dataclass(frozen=True)
class Released:
    """A finished release and its request."""

    number: str
    job: Job
    release: StatisticRelease

    @property
    def order(self) -> Order:
        return self.job.order


class Studio:
    """State of one run of the studio. It ends with the process."""

    def __init__(self) -> None:
        self.desks: dict[str, Desk] = {}
        self.jobs: dict[str, Job] = {}
        self.released: dict[str, Released] = {}
        self.plans: dict[str, AnyPlan] = {}
        """Forecasts whose pictures a page may ask for."""
        self.workers = Workers()
        self.first: str | None = None
        """The table that was named when the studio was started."""
        self._scratch: Scratch | None = None
        self._forms: dict[str, str | None] = {}
        """The job that each form began."""
        self._lock = threading.Lock()

    # Opening tables ------------------------------------------------------------------------------------------

    def open_path(self, path: str, header: bool = False) -> Desk:
        """A file, folder or glob at a path of this machine."""
        full = os.path.abspath(os.path.expanduser(path)) if path else path
        return self._open_table(shown(os.path.basename(full)), Data(path=full, header=header))

    def open_database(self, address: str, query: str, table: str) -> Desk:
        """A query over a database, or a whole table of it."""
        check_address(address)
        if bool(query) == bool(table):
            raise UsageError("type a query, or the name of a table: one of the two.")
        text = query or "select * from " + ".".join(_quote_name(part) for part in table.split("."))
        return self._open_table(shown(table or "query"), Data(database=address, query=text))

    def open_names(self, names: list[str]) -> Desk:
        """Column names alone: plans, and no data."""
        if not names or len(set(names)) < len(names):
            raise UsageError("type the names of the columns, one to a line or with commas between them, none twice.")
        return self._keep(Desk(short_name(), "column names", Data(), tuple(map(Field, names))))

    def open_upload(self, name: str, file: BinaryIO, header: bool = False) -> Desk:
        """A file that was sent, kept for this user alone until the studio ends."""
        suffix = max((end for end in SUFFIXES if name.lower().endswith(end)), key=len, default="")
        if not suffix:
            raise UsageError("choose a CSV, Parquet or Feather file: its name says which it is.")
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
        """A table of invented people, with bounds that suit it."""
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
            raise UsageError(f"this table has more than {MOST_COLUMNS} columns. Use the library for it.")
        return self._keep(Desk(short_name(), label, data, schema))

    def _keep(self, desk: Desk) -> Desk:
        with self._lock:
            while len(self.desks) >= _MOST_KEPT and self._forget_oldest_desk():
                pass
            self.desks[desk.number] = desk
        return desk

    def _forget_oldest_desk(self) -> bool:
        """Forget the oldest table that no running release reads, and remove its upload; False where all are read."""
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

    # Forms, which serve once ----------------------------------------------------------------------------------

    def new_form(self) -> str:
        """A token for a form that may make one release."""
        token = secret_name()
        with self._lock:
            _forget_oldest(self._forms, 10 * _MOST_KEPT)
            self._forms[token] = None
        return token

    def knows(self, token: str) -> bool:
        """Whether a form's token is from this run of the studio."""
        return token in self._forms

    def begin(self, token: str, job: Job) -> Job | None:
        """Let a job run for a form's token; the job of before for the same form again; None for a token without use."""
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

    # Releases -------------------------------------------------------------------------------------------------

    def result(self, job: Job) -> Released | None:
        """The release of a job that came."""
        if job.state != "released":
            return None
        with self._lock:
            if job.number not in self.released:
                _forget_oldest(self.released)
                self.released[job.number] = Released(job.number, job, from_json(job.text))
            return self.released[job.number]

    def history(self) -> list[Released]:
        """Every release of this studio, the last one first."""
        released = [self.result(job) for job in reversed(list(self.jobs.values()))]
        return [one for one in released if one is not None]

    def close(self) -> None:
        """End every process, and remove every file of the studio's own."""
        self.workers.close()
        if self._scratch is not None:
            self._scratch.close()


def _forget_oldest(kept: dict[str, Entry], most: int = _MOST_KEPT) -> None:
    while len(kept) >= most:
        kept.pop(next(iter(kept)))


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
