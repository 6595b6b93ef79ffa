"""How far ahead rows are asked for: what is asked for is what the same row's place reads that many bytes later."""

import pytest

from ellipsum.kernels import blocks
from ellipsum.kernels.blocks import ROWS, first_cache
from ellipsum.kernels.codegen import _lead


@pytest.mark.parametrize("gap", [0, 24])
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("width", [8, 10, 100, 320, 1000, 10_000])
def test_what_is_asked_for_is_read_so_many_bytes_later(width, size, gap):
    length = size * width
    group = ROWS * (length + gap)
    for ahead in (0, size, 1280, 2560, length, 3 * length + size):
        near, turn, far = _lead.py_func(ahead - ahead % size, group, length, size)
        for j in range(width):
            asked = size * j + (near if j < turn else far)
            groups, place = divmod(size * j + ahead - ahead % size, length)
            assert asked == groups * group + place, (ahead, j)


@pytest.mark.parametrize(("says", "size"), [("48K\n", 48), ("32K", 32), ("many", 32), (None, 32)])
def test_the_first_cache_is_as_large_as_the_system_says(tmp_path, monkeypatch, says, size):
    file = tmp_path / "size"
    if says is not None:
        file.write_text(says)
    monkeypatch.setattr(blocks, "_FIRST_CACHE", file)
    assert first_cache() == size << 10
