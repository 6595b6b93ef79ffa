"""Pictures: nothing collides or leaves the page, nothing in a name is obeyed, the same bytes every time."""

import re

import numpy as np
import pytest
from legible import boxes, check_legible

import ellipsum as es
from ellipsum.apps.audit.bounds import audit_plot
from ellipsum.display.plots import drawing, strips
from ellipsum.display.plots.drawing import inches, label, ticks
from ellipsum.releases.pictures import MOST_ROWS

ODD = (
    "$x^2$", "$", r"\$5", "a" * 200, "tab\there", "\u202eevil", "收入（每个家庭的年收入，单位是元人民币）", "שלום עולם",
    "<script>alert(1)</script>", "a_b{c}^d", "e\u0301t\u00e9", "\ud800half",
)  # fmt: skip
BOUNDS = {"age": (0, 110), "income": (0, 250_000), "sleep": (0, 16)}
SPEND = {"epsilon": 2.0, "delta": 1e-6}
BIG = {"epsilon": 2.0, "delta": 1e-6, "noise": "gaussian"}
RNG = np.random.default_rng(5)


def release(d, columns=None, statistic="mean"):
    rows = es.Box(-1.0, 1.0, columns=columns) if d > 1 or columns else es.Box(-1.0, 1.0)
    call = {"mean": es.mean, "sum": es.sum}[statistic]
    return call(RNG.uniform(-1, 1, (400, d)), rows, epsilon=2.0, delta=1e-6, rng=np.random.default_rng(1))


def people(n=400):
    return RNG.uniform([0] * 3, [high for _, high in BOUNDS.values()], (n, 3))


def test_two_texts_that_touch_are_found():
    picture, axis = drawing.figure(4, 3)
    axis.text(0.2, 0.5, "one long word")
    axis.text(0.22, 0.5, "another")
    with pytest.raises(AssertionError, match="touches"):
        check_legible(picture)


@pytest.mark.parametrize("d", [1, 2, 31, 61])
def test_values_are_legible(d):
    made = release(d)
    texts = [text for text, _ in check_legible(made.plot())]
    assert all(name in texts for name in made.names())
    assert sum(" to " in text and "(" in text for text in texts) == d


def test_a_thousand_columns_are_paged():
    made = release(1000)
    pages = made.sheet().pages
    blocks = [block for page in pages for block in page]
    assert [name for block in blocks for name in block.labels] == list(made.names())
    assert max(len(block.labels) for block in blocks) <= strips.ROWS
    assert len(made.sheet().labels) == MOST_ROWS
    check_legible(strips.sheet_pages(made.sheet(), 1)[0])


def test_more_columns_than_fit_are_said():
    sheet = release(1200).sheet()
    assert len(sheet.labels) == 1000
    assert "1000 of 1200 columns are shown; columns= picks others" in sheet.notes
    assert release(1200).sheet(columns=["x1200"]).labels == ["x1200"]


def test_odd_names_are_drawn_letter_by_letter():
    made = release(len(ODD), ODD)
    check_legible(made.plot())
    drawn = drawing.content(made.plot(), "svg").decode()
    assert ">$x^2$<" in drawn
    assert ">\\$5<" in drawn
    assert "&lt;script&gt;" in drawn
    assert "<script" not in drawn
    assert "\u202e" not in drawn
    assert "\\u202eevil" in drawn
    assert "שלום עולם" in drawn
    assert "a" * 30 not in drawn


def test_names_are_cut_in_their_middle():
    assert label("a" * 100 + "_last").endswith("_last")
    assert len(label("a" * 100)) <= 26
    assert inches(label("收" * 100)) <= 1.05 * inches("x" * 26)
    assert label("short") == "short"


def test_the_order_and_the_columns_can_be_chosen():
    made = release(5)
    by_value = [made.names()[j] for j in np.argsort(-made.value)]
    assert made.sheet("value").labels == by_value
    assert made.sheet(columns=["x3", "x1"]).labels == ["x3", "x1"]
    with pytest.raises(es.UsageError, match="no column 'x9'"):
        made.plot(columns=["x9"])
    with pytest.raises(es.UsageError, match="order"):
        made.plot(order="size")


def test_columns_of_different_units_have_scales_of_their_own():
    made = es.mean(people(), es.Box(BOUNDS), epsilon=5.0, delta=1e-6, rng=np.random.default_rng(2))
    (strip,) = made.sheet().strips
    widths = np.array([high for _, high in BOUNDS.values()])
    assert np.allclose(strip.middle, made.value / widths)
    low, high = made.confidence_interval(0.95).T
    assert np.allclose(strip.low, low / widths)
    assert np.allclose(strip.high, high / widths)
    (alike,) = release(3).sheet().strips
    assert alike.unit == "the data's units"


def test_learned_columns_of_different_units_have_scales_of_their_own():
    """One magnitude for all of them says nothing of their units."""
    rows = np.random.default_rng(0).normal([40, 3e4], [10, 8e3], (3000, 2))
    release = es.mean(rows, es.Unknown(1e6), epsilon=2.0, delta=1e-6, rng=np.random.default_rng(1))
    strip = release.sheet().strips[0]
    assert strip.unit == "position between learned lower (0) and upper (1) bound"
    assert 0 < strip.middle.min() <= strip.middle.max() < 1
    alike = es.mean(rows / [1, 800], es.Unknown(1e6), epsilon=2.0, delta=1e-6, rng=np.random.default_rng(1))
    assert alike.sheet().strips[0].unit == "the data's units"


def test_reports_have_panels_that_can_be_read_there():
    rows, by = np.random.default_rng(0).uniform(size=(400, 3)), np.arange(400) % 4
    sheet = es.mean(rows, es.Box(0, 1), by=es.Groups(by, keys=[0, 1, 2, 3]), epsilon=5.0, delta=1e-6).sheet()
    assert [len(page[0].strips) for page in sheet.pages] == [3]
    assert [len(page[0].strips) for page in strips.on_paper(sheet).pages] == [2, 1]


def test_descriptions_groups_and_learned_rows_are_legible():
    x, rng = people(), np.random.default_rng(3)
    described = es.describe(x, es.Box(BOUNDS), epsilon=2.0, delta=1e-6, rng=rng)
    texts = [text for text, _ in check_legible(described.plot())]
    assert {"mean", "std"} <= set(texts)
    keys = [f"group {g} $x$" for g in range(35)]
    by = np.array(keys)[np.arange(len(x)) % 35]
    groups = es.mean(x, es.Box(BOUNDS), by=es.Groups(by, keys=keys), epsilon=20.0, delta=1e-6, rng=rng)
    texts = [text for text, _ in check_legible(groups.plot())]
    assert texts.count("age") == 2  # a panel for each block of groups
    assert sum(text.startswith("group ") for text in texts) == 35
    assert groups.sheet().strips[0].limits == groups.sheet().strips[0].rows(slice(0, 3)).limits
    learned = es.learn(x[:, :1], es.Unknown(1e4), epsilon=5.0, delta=1e-6, rng=rng)
    check_legible(learned.plot())


def test_many_groups_of_many_columns_have_pictures_of_bounded_size():
    x, keys = np.ones((900, 14)), [f"g{g}" for g in range(900)]
    made = es.sum(x, es.Box(0, 1), by=es.Groups(np.array(keys), keys=keys), rng=np.random.default_rng(0), **SPEND)
    sheet = made.sheet()
    assert (len(sheet.labels), len(sheet.strips)) == (125, 12)
    assert "125 of 900 groups are shown" in sheet.notes
    assert "12 of 14 columns are shown; columns= picks others" in sheet.notes
    assert len(made.sheet(columns=["x14"]).labels) == 500


def test_no_group_is_a_picture_too():
    by = np.arange(50).astype(str)
    none = es.sum(np.ones((50, 1)), es.Box(0, 1), by=by, epsilon=1.0, delta=1e-6, rng=np.random.default_rng(0))
    assert len(none.keys) == 0
    assert any("no group was published" in text for text, _ in check_legible(none.plot()))


def test_insecure_noise_is_told():
    assert any("NOT PRIVATE" in text for text, _ in boxes(release(2).plot()))


@pytest.mark.parametrize("form", drawing.FORMATS)
def test_the_same_picture_has_the_same_bytes(form, tmp_path):
    made = release(3)
    for name in ("one", "two"):
        made.plot(tmp_path / f"{name}.{form}")
    assert (tmp_path / f"one.{form}").read_bytes() == (tmp_path / f"two.{form}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pdf_has_pages(tmp_path):
    release(61).plot(tmp_path / "values.pdf")
    assert (tmp_path / "values.pdf").read_bytes().count(b"/Type /Page ") == 2


def test_the_callers_settings_change_nothing_and_stay():
    import matplotlib

    made = release(2)
    plain = drawing.content(made.plot(), "svg")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert drawing.content(made.plot(), "svg") == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_lines_differ_by_stroke_and_marker():
    strokes = [drawing.stroke(place) for place in range(6)]
    for name in ("color", "linestyle", "marker"):
        assert len({str(stroke[name]) for stroke in strokes}) == 6
    assert len({drawing.hatch(place)["hatch"] for place in range(6)}) == 6


def test_svg_elements_share_no_names_with_each_other():
    first, second = (drawing.svg(release(2).plot(), prefix) for prefix in ("a", "b"))
    names = [set(re.findall(r'\bid="([^"]*)"', text)) for text in (first, second)]
    assert names[0]
    assert not names[0] & names[1]
    used = set(re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', first))
    assert {one or other for one, other in used} <= names[0]
    assert "http" not in first


def test_ticks_fit_their_axis():
    for low, high in [(0, 1), (-3e-7, 5e-7), (123456.7811, 123456.7832), (-1e12, 3e12), (0, 250_000)]:
        places, texts = ticks(low, high, 2.0)
        assert len(texts) == len(set(texts)) == len(places) >= 2
        assert sum(map(inches, texts)) < 2.0


def test_other_names_of_files_are_refused(tmp_path):
    with pytest.raises(es.UsageError, match="must end in"):
        release(2).plot(tmp_path / "picture.jpg")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(es.UsageError, match=re.escape("pip install 'ellipsum[plots]'")):
        release(2).plot()


def test_notebooks_are_shown_the_figure():
    assert release(2).plot()._repr_svg_().startswith("<?xml")


@pytest.mark.parametrize("scale", [1e-290, 1e140])
def test_numbers_at_both_ends_of_doubles_are_drawn(scale):
    made = es.mean(np.full((60, 2), scale), es.Box([0, 0], [2 * scale, 3 * scale]), rng=np.random.default_rng(0), **BIG)
    check_legible(made.plot())
    check_legible(made.plan.plot())


def test_audits_are_in_the_same_style(tmp_path):
    claim = es.Privacy(1.0)
    picture = audit_plot(lambda delta: 0.8 * claim.epsilon(delta), "audited", claim.delta, "Audit", tmp_path / "a.svg")
    check_legible(picture)
    (axis,) = picture.axes
    claimed, audited = axis.lines
    assert audited.get_linestyle() == "None"
    assert claimed.get_xdata()[-1] < 1e-5  # the whole curve above the points
    assert (tmp_path / "a.svg").exists()
