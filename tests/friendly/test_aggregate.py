"""Subsample and aggregate: any function, in processes of its own, and nothing but a noisy mean comes out."""

import os
import random
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import ellipsum.friendly.aggregate
from ellipsum.errors import UsageError
from ellipsum.friendly import FriendlyRelease, NoCenter
from ellipsum.friendly.aggregate import deal, subsample_and_aggregate
from ellipsum.friendly.block_runner import make_up_rows, run_blocks
from ellipsum.rows import Normal

SPEND = {"epsilon": 4.0, "delta": 1e-6}
BLOCKS = 80  # enough for the gate at this budget


def people(n=4000, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)) + np.array([1.0, 10.0, 100.0])


def median(block):
    return np.median(block, axis=0)


def ask(function, rows, **how):
    """With a fixed generator, so that what passes once passes always, one process and no dry run."""
    options = {"rng": np.random.default_rng(9), "workers": 1, "dimension": 3, **how}
    return subsample_and_aggregate(function, rows, **options)


def tagged(count):
    """Blocks whose first entry is their number."""
    return [np.full((4, 2), float(number)) for number in range(count)]


# What a function may do ----------------------------------------------------------------------------------


def misbehave(block):
    number = int(block[0, 0])
    if number == 1:
        raise ValueError(f"this row is secret: {block[0]}")
    if number == 2:
        time.sleep(1000)
    if number == 3:
        os.kill(os.getpid(), 9)
    if number == 4:
        print("secret", block)
        print("secret", file=sys.stderr)
        os.write(1, b"secret")
        os.write(2, b"secret")
        warnings.warn("secret", stacklevel=1)
    if number == 5:
        return [1.0]
    if number == 6:
        return [1.0, np.nan]
    if number == 7:
        while True:
            pass
    if number == 8:
        sys.exit("secret")
    if number == 9:
        os._exit(7)
    if number == 10:
        return "text"
    if number == 11:
        return [1 + 2j, 3]
    if number == 12:
        return None
    if number == 13:
        return [1e308 * 10, 0]
    if number == 14:
        os.kill(os.getppid(), 9)
        time.sleep(1000)
    if number == 15:
        threading.Thread(target=time.sleep, args=(1000,)).start()
    if number == 16 and os.fork() == 0:
        time.sleep(1000)
    if number == 17:
        return np.array([[number], [2.0]])
    if number == 18:
        raise KeyboardInterrupt
    return [number, 2.0]


@pytest.mark.slow
def test_every_misbehavior_is_a_row_of_nan_and_nothing_shows(capfd, recwarn):
    started = time.monotonic()
    results = run_blocks(misbehave, tagged(24), 2, workers=2, time_limit=0.5)
    failed = np.isnan(results).any(axis=1)
    assert np.flatnonzero(failed).tolist() == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 18]
    kept = np.flatnonzero(~failed)
    assert np.array_equal(results[kept], np.stack([kept, np.full(kept.size, 2.0)], axis=1))
    assert np.isnan(results[failed]).all()
    assert capfd.readouterr() == ("", "")
    assert len(recwarn) == 0
    assert time.monotonic() - started < 120  # hung children were stopped, not waited for


def test_no_process_is_left_behind(tmp_path):
    def record(block):
        (tmp_path / f"{int(block[0, 0])}").write_text(f"{os.getpid()} {os.getppid()}")
        if block[0, 0] == 1:
            time.sleep(1000)
        return block[0]

    run_blocks(record, tagged(6), 2, workers=2, time_limit=0.3)
    pids = {int(pid) for path in tmp_path.iterdir() for pid in path.read_text().split()}
    assert len(pids) > 6
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def ends_soon(pid):
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="other systems end such a child at no time")
def test_a_child_ends_with_its_helper(tmp_path):
    """It slept on after its helper was killed, with the rows of its block in memory."""

    def deadly(block):
        (tmp_path / "pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), 9)
        time.sleep(1000)

    run_blocks(deadly, tagged(1), 2, workers=1, time_limit=60)
    assert ends_soon(int((tmp_path / "pid").read_text()))


def test_helper_and_child_end_with_their_caller(tmp_path):
    code = (
        "import os, sys, time; from ellipsum.friendly.block_runner import run_blocks; import numpy as np\n"
        "def hang(block):\n"
        "    open('pids', 'w').write(f'{os.getpid()} {os.getppid()}')\n"
        "    os.rename('pids', 'done')\n"
        "    time.sleep(1000)\n"
        "run_blocks(hang, [np.ones((2, 2))], 1)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    while not (tmp_path / "done").exists():
        assert caller.poll() is None
        time.sleep(0.05)
    caller.kill()
    caller.wait()
    assert all(ends_soon(int(pid)) for pid in (tmp_path / "done").read_text().split())


def test_lambdas_closures_and_partials_work():
    factor = 3.0
    results = run_blocks(lambda block: factor * block[0], tagged(5), 2, workers=1)
    assert np.array_equal(results, factor * np.arange(5.0)[:, None] * np.ones(2))
    bound = np.full(2, 7.0)
    assert np.array_equal(run_blocks(bound.__add__, [np.ones((1, 2))], 2, workers=1), [[8.0, 8.0]])


_STATE = {"calls": 0}


def test_blocks_share_no_state():
    """[F10] A function that counts its own calls sees each block as its first."""

    def counting(block):
        _STATE["calls"] += 1
        return [_STATE["calls"], block[0, 0]]

    results = run_blocks(counting, tagged(12), 2, workers=1)
    assert (results[:, 0] == 1).all()
    assert np.array_equal(results[:, 1], np.arange(12.0))
    assert _STATE["calls"] == 0


def test_later_children_never_see_earlier_rows():
    """[F10] The process that children are forked from never holds a block in its memory."""
    marker = 123456789.987654321

    def look_back(block):
        if block[0, 0] == 0:
            return [0.0, 0.0]
        # fresh memory of a block's size, as a careless function might read it
        leftovers = [np.empty(block.shape) for _ in range(50)]
        return [float(any((part == marker).any() for part in leftovers)), 1.0]

    blocks = [np.full((200, 2), marker), *[np.full((200, 2), float(k)) for k in range(6)]]
    results = run_blocks(look_back, blocks, 2, workers=1)
    # only the child that held the marker itself may find it
    assert (results[2:, 0] == 0).all()


def drawing(block):
    """Random numbers of every kind that a process shares; block 1 is slow, and draws more."""
    slow = block[0, 0] == 1
    if slow:
        time.sleep(0.5)
    drawn = [np.random.random(7 if slow else 1)[0], random.random(), sum(map(hash, ("some", "words"))) % 9973]
    return [*drawn, *np.random.permutation(5)[:2], block[0, 0]]


def test_random_numbers_follow_from_the_blocks_number_alone():
    """[F10] Not from the helper that serves it, nor from what other blocks draw, or how long they take."""
    slow, fast = tagged(9), tagged(9)
    fast[1] = np.full((4, 2), -1.0)
    runs = [(slow, 1), (slow, 2), (fast, 2)]
    first, *others = (run_blocks(drawing, blocks, 6, workers=w, seed=bytes(32)) for blocks, w in runs)
    assert np.isfinite(first).all()
    for other in others:
        assert np.array_equal(np.delete(other, 1, axis=0), np.delete(first, 1, axis=0))
    assert len(np.unique(first[:, 0])) == len(np.unique(first[:, 1])) == 9  # blocks draw independently
    assert len(np.unique(first[:, 2])) == 1  # sets of texts have one order in all of them


def test_random_numbers_are_fresh_for_every_call_and_repeat_with_rng(monkeypatch):
    one, other = (run_blocks(drawing, tagged(1), 6, workers=1) for _ in range(2))
    assert (one[:, :3] != other[:, :3]).any(axis=1).all()
    kept = []
    monkeypatch.setattr(ellipsum.friendly.aggregate, "run_friendly", lambda plan, results, stream: kept.append(results))
    rows = people(400)
    for data in (rows, rows, np.where(rows == rows[7], 1.0, rows)):  # the last has one other row, in one block
        ask(drawing, data, blocks=40, radius=1.5, dimension=6, epsilon=50, delta=1e-3)
    assert np.array_equal(kept[0], kept[1])
    assert (kept[0][:, :5] == kept[2][:, :5]).all(axis=1).sum() >= 39


def test_a_helper_that_is_lost_changes_no_other_block():
    def fatal(block):
        if block[0, 0] == 2:
            os.kill(os.getppid(), 9)
            time.sleep(1000)
        return drawing(block)

    sound = run_blocks(drawing, tagged(6), 6, workers=1, seed=bytes(32))
    lost = run_blocks(fatal, tagged(6), 6, workers=1, seed=bytes(32), time_limit=5)
    assert np.isnan(lost[2]).all()
    assert np.array_equal(np.delete(lost, 2, axis=0), np.delete(sound, 2, axis=0))


def test_the_function_cannot_change_the_callers_rows():
    def spoil(block):
        block[:] = -1
        return block[0]

    blocks = tagged(3)
    run_blocks(spoil, blocks, 2, workers=1)
    assert np.array_equal(np.stack(blocks)[:, 0, 0], np.arange(3.0))


def test_functions_that_cannot_travel_are_refused_before_any_row_is_read():
    lock = threading.Lock()

    def holding(block):
        with lock:
            return block[0]

    with pytest.raises(UsageError, match="could not be sent"):
        run_blocks(holding, tagged(2), 2)
    with pytest.raises(UsageError, match="callable"):
        run_blocks(3, tagged(2), 2)


class _Unloadable:
    def __call__(self, block):
        return block[0]

    def __reduce__(self):
        return (_explode, ())


def _explode():
    if sys.argv[0] == "-c":
        raise RuntimeError("only in a worker")
    return _Unloadable()


def test_functions_that_cannot_be_loaded_are_refused(capfd):
    with pytest.raises(UsageError, match="could not be loaded"):
        run_blocks(_Unloadable(), tagged(2), 2, workers=1)
    assert capfd.readouterr() == ("", "")


def test_progress_reaches_one():
    seen = []
    run_blocks(misbehave, tagged(2), 2, progress=seen.append, time_limit=1.0)
    assert seen == [0.5, 1.0]


# The release ---------------------------------------------------------------------------------------------


def test_private_medians():
    rows = people()
    release = ask(median, rows, blocks=BLOCKS, radius=1.5, dimension=None, workers=2, names=["a", "b", "c"], **SPEND)
    assert isinstance(release, FriendlyRelease)
    assert release.columns == ("a", "b", "c")
    assert release.plan.n == BLOCKS
    assert "blocks" in repr(release.plan)
    assert (np.abs(release.value - np.median(rows, axis=0)) < 6 * release.noise_std + 0.1).all()
    assert release.privacy.delta(4.0) <= 1e-6


def test_failing_blocks_are_outliers_whichever_they_are():
    """Which blocks fail changes neither whether the call succeeds nor what is charged."""

    def fragile(block):
        if block[0, 0] > 1.9:  # about a fifth of all blocks
            raise ValueError("secret")
        return np.median(block, axis=0)

    outcomes = [ask(fragile, people(seed=seed), blocks=BLOCKS, radius=1.5, **SPEND) for seed in (0, 1)]
    sound = ask(median, people(), blocks=BLOCKS, radius=1.5, **SPEND)
    assert all(outcome.privacy == sound.privacy for outcome in outcomes)
    assert all(type(outcome) in (FriendlyRelease, NoCenter) for outcome in outcomes)


def test_a_function_that_always_fails_finds_no_center():
    def hopeless(block):
        if block.max() > 1:  # never on made-up rows
            raise ValueError("secret")
        return block[0]

    result = ask(hopeless, people(), blocks=BLOCKS, radius=1.5, **SPEND)
    assert isinstance(result, NoCenter)
    assert not result
    assert "blocks" in repr(result)


def test_blocks_that_disagree_find_no_center():
    rows = people()
    result = ask(lambda block: 1e3 * block[0], rows, blocks=BLOCKS, radius=1.5, **SPEND)
    assert isinstance(result, NoCenter)


def test_different_lengths_are_outliers_not_errors():
    def ragged(block):
        return block[0] if block[0, 0] < 1 or block.max() <= 1 else block[0, :2]

    result = ask(ragged, people(), blocks=BLOCKS, radius=10.0, **SPEND)
    assert isinstance(result, NoCenter)


@pytest.mark.slow
def test_dimension_is_stated_or_learned_from_made_up_rows():
    rows = people()
    scalar = ask(lambda block: np.median(block[:, 1]), rows, blocks=BLOCKS, radius=2.0, dimension=None, **SPEND)
    assert scalar.value.shape == (1,)

    def needs_real_rows(block):
        if block.max() <= 1:
            raise ValueError
        return np.median(block, axis=0)

    with pytest.raises(UsageError, match="Missing argument dimension"):
        ask(needs_real_rows, rows, blocks=BLOCKS, radius=1.5, dimension=None, **SPEND)
    stated = ask(needs_real_rows, rows, blocks=BLOCKS, radius=1.5, **SPEND)
    assert stated.value.shape == (3,)
    wrong = ask(median, rows, blocks=BLOCKS, radius=1.5, dimension=2, **SPEND)
    assert isinstance(wrong, NoCenter)


def test_missing_entries_reach_the_function_as_nan():
    rows = people()
    rows[::7, 0] = np.nan
    result = ask(lambda block: np.nanmedian(block, axis=0), rows, blocks=BLOCKS, radius=1.5, **SPEND)
    assert result
    assert np.abs(result.value - [1, 10, 100]).max() < 3


@pytest.mark.slow
def test_radius_may_be_a_law_or_a_search():
    rows = people(12_000)
    spread = Normal(0, std=1.2533 / np.sqrt(12_000 / 200))
    for radius in (spread, (0.01, 100.0)):
        result = ask(median, rows, blocks=200, radius=radius, rng=np.random.default_rng(2), epsilon=6.0, delta=1e-6)
        assert np.abs(result.value - [1, 10, 100]).max() < 0.5


def test_blocks_are_dealt_publicly():
    """[F10] Every row lies in one block, sizes differ by one at most, and no data is looked at."""
    for seed in (None, b"\x01" * 32):
        parts = deal(1003, 10, seed)
        assert sorted(np.concatenate(parts).tolist()) == list(range(1003))
        assert {len(part) for part in parts} == {100, 101}
    assert np.array_equal(deal(50, 5, None)[0], np.arange(10))
    assert not np.array_equal(deal(50, 5, b"\x01" * 32)[0], np.arange(10))


def test_rows_stand_in_a_block_in_random_order():
    """[T9] In the order of the source, one row's value could change how every block begins."""
    rises = [np.all(np.diff(part) > 0) for part in deal(1000, 10, b"\x03" * 32)]
    assert not any(rises)


def test_one_replaced_row_changes_one_result():
    rows = people(400)
    other = rows.copy()
    other[123] = 1e9
    parts = deal(400, 20, b"\x02" * 32)
    first, second = (run_blocks(median, [data[part] for part in parts], 3, workers=1) for data in (rows, other))
    assert (first != second).any(axis=1).sum() <= 1


def test_made_up_rows_are_zeros_and_ones_of_any_shape():
    block = make_up_rows(50, 3)
    assert block.shape == (50, 3)
    assert set(np.unique(block)) == {0.0, 1.0}
    assert all(0 < column.mean() < 1 for column in block.T)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"blocks": 5000}, "blocks must be at most"),
        ({"blocks": 0}, "blocks must be a whole number"),
        ({"blocks": 10}, "too few"),
        ({"radius": 0.0}, "radius"),
        ({"neighbors": "add_remove"}, "replace"),
        ({"dimension": 0}, "dimension"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"names": ["a"]}, "names must have 3"),
        ({"epsilon": None}, "epsilon"),
    ],
)
def test_bad_arguments_are_refused(arguments, word):
    call = {"blocks": BLOCKS, "radius": 1.5, "dimension": 3, **SPEND, **arguments}
    with pytest.raises(UsageError, match=word):
        subsample_and_aggregate(median, people(), **call)
