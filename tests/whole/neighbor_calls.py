"""Every public call that reads data, and every command."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from neighbor_sources import NAMES, Change, D, Data, N, Source
from neighbors import Place, Seen, watch_call, watch_command

import ellipsum as es
from ellipsum.releases.learning_record import METHODS

TERMS = {"epsilon": 2.0, "delta": 1e-6}
WIDE = {"epsilon": 60.0, "delta": 1e-3}  # 40 rows are few for a friendly core
ROWS = {
    "ball": es.Ball(2.0),
    "box": es.Box(-1.0, 1.0),
    "normal": es.Normal(0.0, std=0.6, shape="ball", clip=2.0),
    "unknown": es.Unknown(50.0),
}
RELATIONS: dict[str, dict[str, Any]] = {
    "replace": {"neighbors": "replace"},
    "add_remove": {"neighbors": "add_remove", "n": N},
}


@dataclass(frozen=True)
class Call:
    """run(data, **how), where how holds columns, rng, progress and, if rows belong to people, privacy_id.

    centered: the region is fixed before data is read; ordered: the output depends on the positions of rows
    binned: values are also counted in bins, so a tiny change at an edge can change the counts
    filled: a missing value becomes the center and is not counted; personal: only useful with people
    """

    name: str
    run: Callable[..., Any]
    relation: str = "replace"
    centered: bool = False
    ordered: bool = False
    people: bool = True
    slow: bool = False
    filled: bool = False
    personal: bool = False
    binned: bool = False


def _statistic(name: str, kind: str, relation: str, **missing_values: Any) -> Call:
    rows = ROWS[kind]

    def run(data: Any, **how: Any) -> Any:
        return getattr(es, name)(data, rows, **missing_values, **RELATIONS[relation], **TERMS, **how)

    about_zero = name == "sum" and kind in ("box", "normal")  # where a missing entry adds nothing
    filled = missing_values.get("missing") == "none" or about_zero
    words = [f"{word}={value}" for word, value in missing_values.items()]
    called = " ".join([name, kind, relation, *words])
    binned = name == "describe" and "quantiles" not in missing_values
    return Call(called, run, relation, kind != "unknown", slow=_slow(kind, relation), filled=filled, binned=binned)


def _slow(kind: str, relation: str) -> bool:
    return kind == "unknown" and relation == "add_remove"


def _with_people(how: dict[str, Any], per_person: str) -> dict[str, Any]:
    """The arguments of a call. With a person column they use at most two rows of each person."""
    if "privacy_id" in how:
        how["privacy_id"] = es.People(how["privacy_id"], per_person, 2)
    return how


def _capped(data: Any, **how: Any) -> Any:
    """The sum of at most two rows of each person."""
    return es.sum(data, es.Box(-1.0, 1.0), **_with_people(how, "sum"), **RELATIONS["add_remove"], **TERMS)


def _of_peoples_rows(name: str, kind: str, slow: bool = False, **words: Any) -> Call:
    """A statistic over rows, at most two of each person."""

    def run(data: Any, **how: Any) -> Any:
        return getattr(es, name)(data, ROWS[kind], **words, **TERMS, **_with_people(how, "rows"))

    return Call(f"{name} {kind} of people's rows", run, centered=kind != "unknown", personal=True, slow=slow)


def _count(relation: str) -> Call:
    def run(data: Any, **how: Any) -> Any:
        how.pop("columns", None)
        return es.count(data, **RELATIONS[relation], **TERMS, **how)

    return Call(f"count {relation}", run, relation, centered=True, filled=True)


def _histogram(relation: str, **kind: Any) -> Call:
    """kind: bins or categories, the same of each column."""

    def run(data: Any, **how: Any) -> Any:
        columns = how.pop("columns", (0, 1, 2))
        return es.histogram(
            data,
            **{word: dict.fromkeys(columns, each) for word, each in kind.items()},
            **RELATIONS[relation],
            **TERMS,
            **how,
        )

    return Call(f"histogram with by={next(iter(kind))} {relation}", run, relation)


def _quantiles(kind: str, relation: str, method: str) -> Call:
    def run(data: Any, **how: Any) -> Any:
        return es.quantiles(data, ROWS[kind], bins=8, method=method, **RELATIONS[relation], **TERMS, **how)

    return Call(f"quantiles {kind} {method} {relation}", run, relation)


def _rows_per_person(data: Any, **how: Any) -> Any:
    return es.suggest_max_rows(data, **TERMS, **how)


def _grouped(name: str, kind: str, relation: str, keys: Any, **more: Any) -> Call:
    """A statistic of the groups of the first column. At this budget such small groups are published only if listed."""
    rows = ROWS[kind]

    def run(data: Any, **how: Any) -> Any:
        first, *rest = how.pop("columns", (0, 1, 2))
        by = es.Groups(first, keys, 2 if "privacy_id" in how else 1)
        return getattr(es, name)(data, rows, by=by, columns=rest, **RELATIONS[relation], **TERMS, **more, **how)

    listed = "listed" if keys else "private"
    return Call(f"{name} {kind} {relation} in {listed} groups", run, relation, slow=_slow(kind, relation))


def _plan(kind: str, relation: str) -> Call:
    rows = ROWS[kind]

    def run(data: Any, **how: Any) -> Any:
        made = es.plan("mean", rows, n=N, d=D, neighbors=relation, **TERMS)
        return made.release(data, **how)

    grouped = relation == "add_remove"  # else the plan's n would have to be that of the people
    return Call(f"plan {kind} {relation}", run, relation, kind != "unknown", people=grouped, slow=_slow(kind, relation))


def _learn(method: str, relation: str) -> Call:
    terms = WIDE if method == "friendly_core" else TERMS

    def run(data: Any, **how: Any) -> Any:
        return es.learn(data, es.Unknown(50.0, method=method), **RELATIONS[relation], **terms, **how)

    slow = method == "friendly_core" or (method, relation) == ("auto", "add_remove")
    return Call(f"learn {method} {relation}", run, relation, slow=slow)


def _friendly(name: str, radius: Any, gate: str) -> Call:
    def run(data: Any, **how: Any) -> Any:
        return es.friendly_mean(data, radius, gate=es.FriendlyGate(gate), **WIDE, **how)

    return Call(f"friendly {name}", run)


def block_mean(block: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return block.mean(axis=0)


def _in_this_process(function: Any, blocks: Any, *_: Any, **__: Any) -> np.ndarray:
    """Separate processes take a second for each call, so only a few cases use them."""
    return np.array([function(block) for block in blocks])


def _aggregate(data: Any, **how: Any) -> Any:
    with mock.patch("ellipsum.friendly.calls.run_blocks", _in_this_process):
        return aggregate(data, **how)


def aggregate(data: Any, **how: Any) -> Any:
    return es.subsample_and_aggregate(block_mean, data, blocks=20, radius=4.0, dimension=D, **WIDE, **how)


def _aggregate_in_order(data: Any, **how: Any) -> Any:
    return _aggregate(data, shuffle=False, **how)


def _project(data: Any, **how: Any) -> Any:
    return es.project(data, 2, es.Box(-1.0, 1.0), **WIDE, **how)


def _project_normal(data: Any, **how: Any) -> Any:
    return es.project(data, 2, es.Normal(0.0, std=0.6), adversary="adaptive", **WIDE, **how)


def _project_to_file(data: Any, **how: Any) -> None:
    es.project(data, 2, es.Ball(2.0), adversary="adaptive", output="projected.parquet", **WIDE, **how)


_ALL = (
    *(_statistic(name, kind, relation) for name in ("sum", "mean") for kind in ROWS for relation in RELATIONS),
    _statistic("mean", "box", "replace", missing="none"),
    _statistic("mean", "normal", "replace", missing="drop_row"),
    _statistic("sum", "ball", "add_remove", missing=0.25),
    _statistic("mean", "box", "add_remove", count_clipped=False),
    *(_statistic("describe", "box", relation) for relation in RELATIONS),
    _statistic("describe", "box", "replace", missing="drop_row", covariance=True),
    *(_statistic("describe", "box", relation, quantiles=None) for relation in RELATIONS),
    *(_count(relation) for relation in RELATIONS),
    *(_histogram(relation, bins=[-1.0, 0.0, 0.5, 1.0]) for relation in RELATIONS),
    *(_histogram(relation, categories=[0.25, 0.5, 1.0]) for relation in RELATIONS),
    *(_quantiles("box", relation, method) for relation in RELATIONS for method in ("cdf", "exponential")),
    *(_quantiles("unknown", relation, "cdf") for relation in RELATIONS),
    Call("capped sum", _capped, "add_remove", centered=True, filled=True, personal=True),
    _of_peoples_rows("mean", "box"),
    _of_peoples_rows("mean", "unknown", slow=True),
    _of_peoples_rows("describe", "box"),
    _of_peoples_rows("quantiles", "box", bins=8),
    Call("rows per person", _rows_per_person, personal=True),
    _grouped("sum", "ball", "replace", ["0", "1"]),
    _grouped("mean", "box", "add_remove", None),
    _grouped("describe", "box", "replace", None, noise="gaussian"),
    _grouped("describe", "box", "add_remove", ["0", "1", None]),
    _grouped("mean", "unknown", "replace", None),
    _grouped("sum", "unknown", "add_remove", ["0", "1"]),
    *(_plan(kind, relation) for kind in ("box", "unknown") for relation in RELATIONS),
    *(_learn(method, "replace") for method in METHODS),
    *(_learn(method, "add_remove") for method in ("auto", "coinpress", "instance_optimal")),
    _friendly("mean", 4.0, "gaussian"),
    _friendly("mean with a Laplace gate", 4.0, "laplace"),
    _friendly("mean with a search", (0.5, 16.0), "gaussian"),
    Call("aggregate", _aggregate, ordered=True),
    Call("aggregate in order", _aggregate_in_order, ordered=True, people=False),
    Call("project", _project, centered=True, ordered=True, slow=True, filled=True),
    Call("project normal rows", _project_normal, centered=True, ordered=True, filled=True),
    Call("project to a file", _project_to_file, centered=True, ordered=True, filled=True),
)
CALLS = {call.name: call for call in _ALL}


def columns_of(source: Source, data: Data) -> dict[str, Any]:
    """The arguments for the columns and the persons of a data set."""
    if data.who is None:
        return {"columns": NAMES} if source.named else {}
    return {"columns": NAMES, "privacy_id": "who"} if source.named else {"columns": [1, 2, 3], "privacy_id": 0}


def watch(place: Place, source: Source, call: Call, data: Data) -> Seen:
    """Record one call on one source, with a new generator that always has the same seed."""
    made = source.make(place.clear(), data)

    def run(progress: Any) -> Any:
        return call.run(made, rng=np.random.default_rng(11), progress=progress, **columns_of(source, data))

    return watch_call(place, run)


def same_bits(change: Change, call: Any, source: Source, data: Data) -> bool:
    """Whether all published results must have the same bits."""
    if source.sorted and call.ordered and data.who is None:
        return False  # rows read in another order meet other noise
    if change.same == "center":
        return call.centered
    if change.same == "near center":
        return call.centered and not call.binned
    if change.same == "gaps":
        return call.filled
    if change.same == "order":
        return data.who is not None or not call.ordered
    return change.same == "all"


# --- commands -----------------------------------------------------------------------------------

_SPEND = ["--epsilon", "2", "--delta", "1e-6"]
_SPEND_MORE = ["--epsilon", "60", "--delta", "1e-3"]
_COLUMNS = ["--columns", "a,b,c"]
_BOX = ["--bounds", "a=-1:1", "--bounds", "b=-1:1", "--bounds", "c=-1:1"]
_BALL = [*_COLUMNS, "--radius", "2"]
_NORMAL = ["--normal", "a=0:0.6", "--normal", "b=0:0.6", "--normal", "c=0:0.6", "--clip", "2", "--shape", "ball"]
_UNKNOWN = [*_COLUMNS, "--magnitude", "50"]
_PRIVATE_N = ["--neighbors", "add-remove", "--n", str(N)]


@dataclass(frozen=True)
class Command:
    name: str
    words: tuple[str, ...]
    more: tuple[str, ...]
    relation: str = "replace"
    centered: bool = True
    ordered: bool = False
    filled: bool = False
    slow: bool = False
    binned: bool = False

    def on(self, source: Source, data: Data) -> list[str]:
        """The arguments of the command for this source and data."""
        whose = ["--privacy-id", "who"] if data.who is not None else []
        return [self.words[0], *source.words, *self.words[1:], *self.more, *whose, "--yes"]


def _command(name: str, *words: str, more: list[str] = _SPEND, **kind: Any) -> Command:
    return Command(name, words, tuple(more), **kind)


_HIDDEN = {"relation": "add_remove"}
_LEARNED = {"centered": False}
_BOTH = {"relation": "add_remove", "centered": False, "slow": True}
_COMMANDS = (
    _command("sum box", "sum", *_BOX, filled=True),
    _command("sum ball json", "sum", *_BALL, "--json"),
    _command("sum normal, private n", "sum", *_NORMAL, *_PRIVATE_N, "--json", filled=True, **_HIDDEN),
    _command(
        "sum box, private n, files",
        *("sum", *_BOX, *_PRIVATE_N, "-o", "r.json", "--save-plan", "p.json"),
        filled=True,
        **_HIDDEN,
    ),
    _command("sum unknown", "sum", *_UNKNOWN, **_LEARNED),
    _command("mean box json, files", "mean", *_BOX, "--json", "-o", "r.json", "--save-plan", "p.json"),
    _command("describe box, private n, files", "describe", *_BOX, *_PRIVATE_N, "-o", "r.json", binned=True, **_HIDDEN),
    _command(
        "describe groups, files",
        *("describe", *_BOX[2:], "--by", "a", "-o", "r.csv", "--save-plan", "p.json"),
        **_LEARNED,
    ),
    _command("count json", "count", "--json"),
    _command("histogram", "histogram", "--bins", "a=-1,0,1", "--bins", "b=-1,0,1", "-o", "r.json", **_LEARNED),
    _command("quantiles, private n, json", "quantiles", *_BOX, *_PRIVATE_N, "--json", binned=True, **_HIDDEN),
    _command("mean ball, private n", "mean", *_BALL, *_PRIVATE_N, **_HIDDEN),
    _command("mean box, private n, json", "mean", *_BOX, *_PRIVATE_N, "--json", **_HIDDEN),
    _command("mean unknown json, files", "mean", *_UNKNOWN, "--json", "--save-plan", "p.json", **_LEARNED),
    _command("mean unknown groups", "mean", *_UNKNOWN[:1], "b,c", *_UNKNOWN[2:], "--by", "a", "--json", **_LEARNED),
    _command("mean unknown, private n", "mean", *_UNKNOWN, *_PRIVATE_N, "-o", "r.json", **_BOTH),
    _command("learn", "learn", *_UNKNOWN, "-o", "rows.json", **_LEARNED),
    _command("learn json", "learn", *_UNKNOWN, "--method", "coinpress", "--json", **_LEARNED),
    _command("learn, private n", "learn", *_UNKNOWN, *_PRIVATE_N, "--json", **_BOTH),
    _command("project", "project", *_BOX, "--k", "2", "-o", "s.parquet", more=_SPEND_MORE, ordered=True, filled=True),
    _command(
        "project json", "project", *_BALL, "-o", "s.parquet", "--json", more=_SPEND_MORE, ordered=True, filled=True
    ),
)
COMMANDS = {command.name: command for command in _COMMANDS}


def run_command(place: Place, source: Source, command: Command, data: Data) -> Seen:
    """One command on one source, with the same noise every time."""
    source.make(place.clear(), data)
    return watch_command(place, command.on(source, data))
