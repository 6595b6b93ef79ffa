"""For two data sets that differ in one row or person, and the same noise, only noisy numbers may differ."""

import gzip
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from counting import count_cases
from neighbor_calls import CALLS, COMMANDS, TERMS, aggregate, columns_of, run_command, same_bits, watch
from neighbor_sources import (
    CHANGES,
    HERS,
    IDENTITIES,
    LINES,
    NAN,
    ODD_ROWS,
    PERSON_LINES,
    PERSON_NAMES,
    PLACE,
    SOURCES,
    N,
    base,
    people,
)
from neighbors import Place, check, said

import ellipsum as es
from ellipsum.request.people import parse_people
from ellipsum.session import Session
from ellipsum.sources import Selection

pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.ProjectionWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("neighbors"))


@pytest.fixture(scope="module")
def seen(place):
    """Record a call on the left data set of a pair, once for each kind of left data set."""
    return cache(lambda source, call, kind, left: watch(place, SOURCES[source], CALLS[call], left(started(kind))))


@pytest.fixture(scope="module")
def heard(place):
    """Record a command in the same way."""
    return cache(
        lambda source, words, kind, left: run_command(place, SOURCES[source], COMMANDS[words], left(started(kind)))
    )


@pytest.fixture
def counted(request):
    """Add the number of compared pairs to the summary."""

    def count(pairs=1):
        count_cases(request, "neighbor pairs", pairs)

    return count


def started(kind):
    return base() if kind == "rows" else people(kind)


def change_of(kind, name):
    return CHANGES[name] if kind == "rows" else IDENTITIES[name][0]


def fits(source, change):
    if change.needs == "cuts" and not source.cuts:
        return False
    if change.needs == "lake" and not source.name.startswith("lake"):
        return False
    return source.cells in change.cells


def pairs_of(source):
    """(kind of rows, change) for every change that a source can show."""
    for change in CHANGES.values():
        if fits(source, change):
            yield "rows", change
    for change, kinds in IDENTITIES.values():
        for kind in kinds:
            if kind in source.who and fits(source, change):
                yield kind, change


def takes(call, kind, change):
    """Whether a call or command accepts both data sets of a pair: with a public n they have equally many rows."""
    if kind == "rows" and getattr(call, "personal", False):
        return False
    return (change.count == 0 or call.relation == "add_remove") and (kind == "rows" or getattr(call, "people", True))


def some(calls, often, kinds, rare=6):
    """One case in `often` (fewer of slow calls). Every pair of source, call and change still occurs."""
    chosen = []
    for s, source in enumerate(SOURCES.values()):
        for h, (kind, change) in enumerate(pairs_of(source)):
            for c, call in enumerate(calls):
                one_in = often * (rare if call.slow else 1)
                if (s + h + c) % one_in == 0 and takes(call, kind, change) and (kind != "rows") == kinds:
                    chosen.append((source.name, call.name, kind, change.name))
    return [pytest.param(*values, id="-".join(values)) for values in chosen]


COMMAND_SOURCES = {name: source for name, source in SOURCES.items() if source.words}
PERSONAL = (
    "mean box replace",
    "capped sum",
    "learn coinpress replace",
    "project normal rows",
    "mean box of people's rows",
    "quantiles box of people's rows",
    "mean box add_remove in private groups",
    "sum ball replace in listed groups",
    "rows per person",
)
QUICK = [CALLS[name] for name in PERSONAL]


# --- calls --------------------------------------------------------------------------------------


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("source", "call", "kind", "change"), some(CALLS.values(), 29, False) + some(QUICK, 19, True))
def test_a_call_on_two_neighbors(source, call, kind, change, seen, place, counted):
    compare_calls(source, call, kind, change, seen, place)
    counted()


def compare_calls(source, call, kind, name, seen, place):
    change, data = change_of(kind, name), started(kind)
    left = seen(source, call, kind, change.left)
    right = watch(place, SOURCES[source], CALLS[call], change.right(data))
    check(left, right, same_bits(change, CALLS[call], SOURCES[source], data))


def everything():
    return [
        pytest.param(name, kind, change.name, id=f"{name}-{kind}-{change.name}")
        for name, source in SOURCES.items()
        for kind, change in pairs_of(source)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "kind", "change"), everything())
def test_many_calls_on_two_neighbors(source, kind, change, seen, place, counted):
    calls = [call for call in CALLS.values() if takes(call, kind, change_of(kind, change)) and not call.slow]
    step = 3 if kind == "rows" else 17
    calls = calls[len(source + change) % step :: step]
    failed = []
    for call in calls:
        try:
            compare_calls(source, call.name, kind, change, seen, place)
        except AssertionError as error:
            failed.append(f"{call.name}: {error}")
    assert not failed, "\n".join(failed)
    counted(len(calls))


def test_the_slow_calls_are_few():
    assert sum(call.slow for call in CALLS.values()) < len(CALLS) / 4


# --- sensitivity --------------------------------------------------------------------------------


KINDS = {
    "box": (es.Box(-1.0, 1.0), {"count_clipped": True}),
    "box, gaps at the center": (es.Box(-1.0, 1.0), {"missing": "none"}),
    "box, described": (
        es.Box(-1.0, 1.0),
        {"statistic": "describe", "quantiles": None, "noise": "gaussian", "count_clipped": True},
    ),
    "ball": (es.Ball(2.0), {"count_clipped": True}),
    "normal": (es.Normal(0.0, std=0.6, shape="ball", clip=2.0), {}),
    "normal, whole rows": (es.Normal(0.0, std=0.6, shape="ball", clip=2.0), {"missing": "drop_row"}),
}


@cache
def plan_for(relation, kind="box"):
    rows, how = KINDS[kind]
    return es.plan(bounds=rows, n=N, d=3, neighbors=relation, **{"statistic": "mean", **how}, **TERMS)


def integer_sums(plan, source, data, folder):
    """The exact sums before noise with their count, and the number of rows."""
    chosen = columns_of(source, data)
    whose = parse_people(chosen.pop("privacy_id", None))
    with Session.open(source.make(folder, data), Selection(chosen.get("columns")), whose) as session:
        partial = session.source.total(plan.row_map)
    sums = [partial.sums[j] for j in range(len(partial.sums))]
    return [*sums, partial.rows * plan.count_units], partial.rows


def one_in(often, found, always=()):
    return [
        pytest.param(
            *each.values, id=each.id, marks=() if i % often == 0 or each.values[2] in always else pytest.mark.slow
        )
        for i, each in enumerate(found)
    ]


ALWAYS = ("next number", "lost identity")
BY_ROWS = [each for each in everything() if each.values[1] == "rows"]
BY_PEOPLE = [each for each in everything() if each.values[1] != "rows"]


def within(plan, moved):
    """Whether a change of the sums (the count of rows last) is within the sensitivity that the noise covers."""
    law = plan.noise_law
    moved = moved if plan.count_units else moved[:-1]
    squared = sum(part**2 for part in moved)
    if law.kind == "gaussian":
        return squared <= (Fraction(law.units) * Fraction(plan.privacy.mu)) ** 2
    if law.kind == "knorm_l2":
        return squared <= (Fraction(law.scale) * Fraction(plan.privacy.ratio)) ** 2
    parts = zip(law.blocks.blocks, law.scales, strict=True)
    spent = sum(Fraction(max(abs(moved[j]) for j in block.columns)) / Fraction(scale) for block, scale in parts)
    assert all(moved[j] == 0 for j in range(len(moved)) if j not in law.blocks.columns)
    return spent <= Fraction(plan.privacy.pure[0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("source", "kind", "change"), one_in(4, BY_ROWS) + one_in(20, BY_PEOPLE, ALWAYS))
def test_the_sums_of_neighbors_are_as_near_as_the_noise_supposes(source, kind, change, place, counted):
    made, data = change_of(kind, change), started(kind)
    relation = "add_remove" if made.count else "replace"
    kinds = list(KINDS)
    first = (list(SOURCES).index(source) + len(change)) % len(kinds)
    for name in (kinds[first], kinds[first - 1]):  # every kind of plan occurs with every source and every change
        plan = plan_for(relation, name)
        left, n = integer_sums(plan, SOURCES[source], made.left(data), place.clear())
        right, m = integer_sums(plan, SOURCES[source], made.right(data), place.clear())
        assert m - n == made.count
        squared = sum((a - b) ** 2 for a, b in zip(left, right, strict=True))
        assert within(plan, [a - b for a, b in zip(left, right, strict=True)])
        if made.same == "gaps":
            assert (squared == 0) == ("center" in name)
        elif made.same:
            assert squared == 0
        counted()


# --- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_a_replaced_row_changes_its_own_projection_alone(source, place, counted):
    """With a stable row order its position stays the same; without, the published order reveals nothing."""
    kind = SOURCES[source]
    values = []
    for data in (base(), base().with_row((0.5, -1.0, 0.5))):
        made = kind.make(place.clear(), data)
        how = {**columns_of(kind, data), "rng": np.random.default_rng(1), "adversary": "adaptive"}
        found = es.project(made, 2, es.Box(-1.0, 1.0), epsilon=60.0, delta=1e-3, **how)
        assert found.ordered is kind.places
        values.append(found.value)
    if kind.places:
        assert np.flatnonzero((values[0] != values[1]).any(axis=1)).tolist() == [PLACE]
    elif not kind.sorted:  # else rows read in another order meet other noise
        assert len({row.tobytes() for row in values[0]} - {row.tobytes() for row in values[1]}) == 1
    counted()


@pytest.mark.parametrize("source", SOURCES)
def test_blocks_in_order_need_rows_with_places(source, place, counted):
    kind = SOURCES[source]
    seen = watch(place, kind, CALLS["aggregate in order"], base())
    if kind.places:
        assert seen.error is None
    else:
        assert seen.error is not None
        assert seen.error[0] == "UsageError"
    counted()


@pytest.mark.parametrize(
    "change", ["other values", *(pytest.param(c, marks=pytest.mark.slow) for c in ("gap or infinity", "huge", "gap"))]
)
def test_blocks_in_processes_of_their_own(change, place, counted):
    made, real = CHANGES[change], replace(CALLS["aggregate"], run=aggregate)
    left, right = (watch(place, SOURCES["float64"], real, side(base())) for side in (made.left, made.right))
    check(left, right, made.same == "all")
    counted()


# --- lines of text ------------------------------------------------------------------------------

CSV = ("csv", "csv.gz", "csv folder")
READERS = ("mean box replace", "sum ball add_remove", "learn coinpress replace", "friendly mean", "project normal rows")


def line_cases():
    for h, name in enumerate(LINES):
        for p, where in enumerate((0, PLACE, N - 1)):
            yield name, where, CSV[(h + p) % 3], READERS[(h + p) % 5]


@pytest.mark.parametrize(("line", "where", "source", "call"), list(line_cases()))
def test_an_odd_line_is_a_row_like_others(line, where, source, call, seen, place, counted):
    text, reads = LINES[line]
    odd = watch(place, SOURCES[source], CALLS[call], base().with_line(text, where))
    check(seen(source, call, "rows", same), odd, False)
    if reads is not None:
        plain = watch(place, SOURCES[source], CALLS[call], base().with_row(reads, where))
        assert plain.exact == odd.exact
    counted(2)


def same(data):
    return data


@pytest.mark.parametrize(("line", "call"), [(line, PERSONAL[i % len(PERSONAL)]) for i, line in enumerate(PERSON_LINES)])
@pytest.mark.parametrize("source", ["csv", "csv.gz"])
def test_an_odd_line_of_a_person_changes_no_other(line, call, source, seen, place, counted):
    odd = watch(place, SOURCES[source], CALLS[call], people("text").with_line(PERSON_LINES[line], HERS[1]))
    check(seen(source, call, "text", same), odd, False)
    counted()


@pytest.mark.parametrize(("name", "call"), [(name, PERSONAL[i % len(PERSONAL)]) for i, name in enumerate(PERSON_NAMES)])
@pytest.mark.parametrize("source", ["csv", "csv folder"])
def test_an_odd_identity_is_a_person_like_others(name, call, source, seen, place, counted):
    lines = tuple((i, PERSON_NAMES[name] + b",0.5,0.25,1") for i in HERS)
    odd = watch(place, SOURCES[source], CALLS[call], replace(people("text"), lines=lines))
    check(seen(source, call, "text", same), odd, False)
    counted()


@pytest.mark.parametrize("line", LINES)
def test_the_sums_of_odd_lines_are_as_near_as_the_noise_supposes(line, place, counted):
    for kind in KINDS:
        plan = plan_for("replace", kind)
        sides = (base(), base().with_line(LINES[line][0]))
        (left, n), (right, m) = (integer_sums(plan, SOURCES["csv"], side, place.clear()) for side in sides)
        assert n == m
        assert within(plan, [a - b for a, b in zip(left, right, strict=True)])
        counted()


@pytest.mark.parametrize("source", ["records", "list of rows"])
@pytest.mark.parametrize("odd", ODD_ROWS)
def test_an_odd_record_is_a_row_of_gaps(odd, source, place, counted):
    """The output has the same bits for any position except the first: the first row's type and length are public."""
    kind = SOURCES[source]
    for call, where in zip(READERS, (1, PLACE, N - 1, PLACE, 1), strict=True):
        made = replace(kind, make=lambda folder, data, where=where: with_row(kind.make(folder, data), where, odd))
        found = watch(place, made, CALLS[call], base())
        gaps = watch(place, kind, CALLS[call], base().with_row((NAN, NAN, NAN), where))
        check(gaps, found, True)
    counted(len(READERS))


def with_row(rows, where, odd):
    return [*rows[:where], ODD_ROWS[odd], *rows[where + 1 :]]


# --- progress through many blocks ---------------------------------------------------------------

MANY = 150_000


def long_file(folder, name, line):
    lines = [b"a,b,c", *[b"0.123456789012345,-0.5,0.25"] * (MANY // 2)]
    lines[100] = line
    text = b"\n".join(lines) + b"\n"
    (folder / name).write_bytes(gzip.compress(text, 1) if name.endswith("gz") else text)
    return folder / name


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", ["long.csv", "long.csv.gz"])
def test_progress_through_a_long_file_does_not_follow_its_cells(name, relation, place, counted):
    digits = "".join(map(str, np.random.default_rng(0).integers(0, 10, 500_000))).encode()
    told = []
    for line in (b"1,1,1", b"1," + digits + b",1"):
        path = long_file(place.clear(), name, line)
        told.append([])
        es.sum(path, es.Box(-1.0, 1.0), neighbors=relation, progress=told[-1].append, **TERMS)
    assert told[0] == told[1]
    counted()


def _many_lines(folder, table):
    (folder / "many.csv").write_bytes(b"who,a,b,c\n" + b"1,0.12345,0.5,0.25\n" * len(table))
    return folder / "many.csv"


def _many_groups(folder, table):
    pq.write_table(table, folder / "many.parquet", row_group_size=20_000)
    return folder / "many.parquet"


def _many_batches(folder, table):
    feather.write_feather(table, folder / "many.feather", chunksize=20_000)
    return folder / "many.feather"


def _database(folder, table):
    return es.sql(f"select range as who, 0.5 as a, 0.5 as b, 0.5 as c from range({len(table)})", "duckdb://")


BIG = {
    "array": lambda folder, table: np.full((len(table), 3), 0.5),
    "whole numbers": lambda folder, table: np.ones((len(table), 3), np.int8),
    "arrow": lambda folder, table: table,
    "batches": lambda folder, table: table.to_batches(20_000),
    "generator": lambda folder, table: iter(table.to_batches(20_000)),
    "data set": lambda folder, table: ds.dataset(table),
    "csv": _many_lines,
    "parquet": _many_groups,
    "feather": _many_batches,
    "duckdb": _database,
}


@pytest.mark.parametrize(
    ("kind", "fewer", "person"),
    [
        *((kind, fewer, False) for kind in BIG for fewer in (1, 70_000)),
        *((kind, 70_000, True) for kind in ("arrow", "parquet")),
    ],
)
def test_progress_does_not_tell_a_private_number_of_rows(kind, fewer, person, place, counted):
    told = []
    for n in (MANY - fewer, MANY):
        table = pa.table({"who": np.arange(n), **{name: np.full(n, 0.5) for name in "abc"}})
        made = BIG[kind](place.clear(), table)
        told.append([])
        whose = {"privacy_id": "who"} if person else {}
        chosen = {} if isinstance(made, np.ndarray) else {"columns": ["a", "b", "c"]}
        how = {"neighbors": "add_remove", "n": MANY, "progress": told[-1].append, **whose, **chosen}
        es.sum(made, es.Box(-1.0, 1.0), **how, **TERMS)
    assert told[0] == told[1]
    counted()


# --- commands -----------------------------------------------------------------------------------


def some_commands(often):
    chosen = []
    for s, source in enumerate(COMMAND_SOURCES.values()):
        for h, (kind, change) in enumerate(pairs_of(source)):
            for c, command in enumerate(COMMANDS.values()):
                rare = often * (5 if command.slow else 1) * (3 if kind != "rows" else 1)
                if (s + h + c) % rare == 0 and takes(command, kind, change):
                    chosen.append((source.name, command.name, kind, change.name))
    return [pytest.param(*values, id="-".join(values)) for values in chosen]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("source", "command", "kind", "change"), some_commands(23))
def test_a_command_on_two_neighbors(source, command, kind, change, heard, place, counted):
    compare_commands(source, command, kind, change, heard, place)
    counted()


def compare_commands(source, name, kind, changed, heard, place):
    command, change, data = COMMANDS[name], change_of(kind, changed), started(kind)
    left = heard(source, name, kind, change.left)
    right = run_command(place, SOURCES[source], command, change.right(data))
    check(left, right, same_bits(change, command, SOURCES[source], data))


@pytest.mark.slow
@pytest.mark.parametrize(("source", "kind", "change"), [e for e in everything() if e.values[0] in COMMAND_SOURCES])
def test_many_commands_on_two_neighbors(source, kind, change, heard, place, counted):
    commands = [each for each in COMMANDS.values() if takes(each, kind, change_of(kind, change)) and not each.slow]
    step = 3 if kind == "rows" else 11
    commands = commands[len(source + change) % step :: step]
    failed = []
    for command in commands:
        try:
            compare_commands(source, command.name, kind, change, heard, place)
        except AssertionError as error:
            failed.append(f"{command.name}: {error}")
    assert not failed, "\n".join(failed)
    counted(len(commands))


def command_lines():
    names = [name for name, command in COMMANDS.items() if not command.slow]
    return [(line, names[i % len(names)]) for i, line in enumerate(LINES)]


@pytest.mark.parametrize(("line", "command"), command_lines())
def test_a_command_on_an_odd_line(line, command, heard, place, counted):
    odd = run_command(place, SOURCES["csv"], COMMANDS[command], base().with_line(LINES[line][0]))
    check(heard("csv", command, "rows", same), odd, False)
    counted()


SEEDED = """
import os, numpy
os.urandom = numpy.random.default_rng(5).bytes
from ellipsum.apps.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("change", ["other values", "all gaps", "gap or infinity", "far or further", "other order"])
@pytest.mark.parametrize("command", ["sum box", "mean box json, files", "learn", "project"])
def test_a_process_on_two_neighbors(command, change, place, counted):
    made, words = CHANGES[change], COMMANDS[command]
    seen = []
    for side in (made.left, made.right):
        SOURCES["csv"].make(place.clear(), side(base()))
        run = [sys.executable, "-c", SEEDED, *words.on(SOURCES["csv"], base())]
        done = subprocess.run(run, capture_output=True, text=True, cwd=place.folder, timeout=300)
        contents = {name: (place.folder / name).read_bytes() for name in sorted(place.names() - {"t.csv"})}
        seen.append((done.returncode, done.stderr, list(contents), said(done.stdout)[0], done.stdout, contents))
    exact = same_bits(made, words, SOURCES["csv"], base())
    assert seen[0][0] == 0
    assert seen[0][: None if exact else 4] == seen[1][: None if exact else 4]
    counted()


def test_the_same_noise_gives_the_same_bits(place):
    """Without this, pairs that must be the same to the last bit would say nothing."""
    one, two = (watch(place, SOURCES["csv"], CALLS["mean box replace"], base()) for _ in range(2))
    assert one == two
    assert one.exact != watch(place, SOURCES["csv"], CALLS["mean box replace"], base().with_row((1, 1, 1))).exact
    command = COMMANDS["mean box json, files"]
    first, second = (run_command(place, SOURCES["csv"], command, base()) for _ in range(2))
    assert first == second
    assert sorted(first.files) == ["p.json", "r.json"]
    other = run_command(place, SOURCES["csv"], command, base().with_row((1, 1, 1)))
    assert other.contents["r.json"] != first.contents["r.json"]
    check(first, other, False)


@pytest.mark.parametrize("told", ["error", "warnings", "err", "progress", "shape", "files", "left"])
def test_a_difference_is_noticed(told, place):
    found = watch(place, SOURCES["float64"], CALLS["project to a file"], base())
    with pytest.raises(AssertionError, match=told):
        check(found, replace(found, **{told: ("else",)}), False)
