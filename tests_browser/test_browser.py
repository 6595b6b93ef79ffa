"""The studio in a real browser: the whole path, without a mouse, on a phone, with wrong input, restarts and races."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import PATIENCE_SECONDS, Server
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import ellipsum as es

BOUNDS = "age=0:120\nincome 0 200000"


def open_file(page, server, path):
    page.enter(server)
    page.open(f"{server.pages}/open")
    page.type("path", str(path))
    page.find("path").send_keys(Keys.ENTER)
    page.titled(path.name)


def fill(page, bounds=BOUNDS, epsilon="1", delta="1e-6"):
    page.unfold("Paste for many columns")
    page.paste("paste", bounds)
    page.type("epsilon", epsilon)
    page.type("delta", delta)
    page.forecast()


def charge(page, ledger, epsilon="1"):
    """A new ledger with a budget for the table of a page."""
    page.type("ledger", str(ledger))
    page.type("dataset", "survey")
    page.unfold("Open a budget for this data set")
    page.type("whole_epsilon", epsilon)
    page.type("whole_delta", "1e-6")
    page.click(page.button("Open the budget"))
    page.wait(lambda: "all of it" in page.find("balance").text, "the balance")


def downloaded(folder, name):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if (folder / name).exists() and not list(folder.glob("*.crdownload")):
            return (folder / name).read_text()
        time.sleep(0.1)
    raise AssertionError(f"{name} was not downloaded")


def test_from_a_file_to_a_report_in_six_clicks(page, people, downloads):
    """The file is named in the command; every field is clicked before it is typed into."""
    server = Server(people, "--port", 0)
    try:
        page.enter(server)
        page.titled("people.csv")
        page.check("desk")
        page.click(page.driver.find_element(By.XPATH, "//summary[normalize-space()='Paste for many columns']"))
        page.click(page.find("paste"))
        page.find("paste").send_keys(BOUNDS)
        page.click(page.find("epsilon"))
        page.find("epsilon").send_keys("1")
        page.click(page.find("delta"))
        page.find("delta").send_keys("1e-6")
        assert "5,000 rows" in page.forecast()
        page.wait(lambda: drawn(page, "#curve"), "the curve")
        page.check("desk with a forecast")
        page.whole_picture("desk")
        page.click(page.find("release"))
        page.released()
        print(f"\nfrom a file to a release: {page.clicks} clicks")
        assert page.clicks <= 6
        assert "age" in page.text()
        page.wait(lambda: drawn(page, ".picture"), "the picture of the values")
        page.check("release")
        page.whole_picture("release")
        for title in ("JSON", "CSV", "Report", "Command line", "Python"):
            page.click(page.driver.find_element(By.LINK_TEXT, title))
        release = es.from_json(downloaded(downloads, "release.json"))
        assert release.names() == ("age", "income")
        assert "age" in downloaded(downloads, "report.html")
        for name in ("release.csv", "release.sh", "release.py"):
            assert downloaded(downloads, name)
        page.click(page.driver.find_element(By.LINK_TEXT, "History"))
        page.titled("History")
        page.check("history")
        page.picture("history")
    finally:
        server.stop()


def test_the_token_is_gone_from_the_address_at_once_and_a_wrong_one_opens_nothing(page, server):
    page.open(f"{server.base}/#{'0' * 64}")
    page.wait(lambda: "not the token" in page.text(), "a refusal")
    page.check("the door")
    page.driver.delete_all_cookies()
    page.open("about:blank")
    page.open(f"{server.base}/open")
    page.titled("Enter")
    page.find("token").send_keys(server.token, Keys.ENTER)
    page.titled("Open a table")
    assert server.token not in page.driver.current_url
    assert server.token not in page.driver.page_source
    assert page.driver.execute_script("return document.cookie") == ""


class Neighbor(BaseHTTPRequestHandler):
    """What another user of the machine may run on a port of their own: it keeps all that browsers send to it."""

    def do_GET(self):
        self.server.received.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(
            b"<title>neighbor</title><img src='/open'><img src='/static/x'><iframe src='/desk/1'></iframe>"
        )

    def log_message(self, *_):
        pass


def test_a_server_on_another_port_learns_nothing_that_opens_the_studio(page, server, people):
    """Browsers send cookies to every port of a host. The session's is scoped to a path that nobody else knows."""
    open_file(page, server, people)
    desk = page.driver.current_url
    (session,) = page.driver.get_cookies()
    assert server.pages.endswith(session["path"].rstrip("/"))
    neighbor = ThreadingHTTPServer(("127.0.0.1", 0), Neighbor)
    neighbor.received = []
    threading.Thread(target=neighbor.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{neighbor.server_port}/"
        page.driver.execute_script("location.href = arguments[0]", address)  # with a referrer, if there were one
        page.titled("neighbor")
        page.wait(lambda: len(neighbor.received) >= 4, "the images and the frame of that page")
        received = "\n".join(neighbor.received)
        assert session["value"] not in received
        assert session["path"].strip("/") not in received
        assert desk.rpartition("/")[2] not in received
    finally:
        neighbor.shutdown()
        neighbor.server_close()
    page.open(desk)
    page.titled(people.name)


def test_every_way_to_open_a_table(page, server, people, tmp_path):
    import sqlite3

    page.enter(server)
    page.open(f"{server.pages}/open")
    page.check("open")
    page.whole_picture("open")
    page.find("file").send_keys(str(people))
    page.click(page.button("Upload"))
    page.titled("people.csv")
    with sqlite3.connect(tmp_path / "d.db") as database:
        database.execute("create table visits (pulse real, who integer)")
    database.close()
    page.open(f"{server.pages}/open")
    page.type("database", f"sqlite:///{tmp_path / 'd.db'}")
    page.type("table", "visits")
    page.find("table").send_keys(Keys.ENTER)
    page.titled("visits")
    assert "pulse" in page.text()
    page.open(f"{server.pages}/open")
    page.type("names", "age\nincome")
    page.click(page.button("Plan"))
    page.titled("column names")
    assert page.driver.find_elements(By.XPATH, "//button[normalize-space()='Release']") == []
    page.check("names alone")
    page.open(f"{server.pages}/desk/nothing")
    page.titled("Not there")
    page.check("not there")


def tab_to(page, name):
    """Press Tab until the focus is there, and see it."""
    for _ in range(120):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        focus = page.driver.switch_to.active_element
        if name in (focus.get_attribute("id"), focus.text):
            style = "const s = getComputedStyle(arguments[0]); return s.outlineStyle + ' ' + s.outlineWidth"
            assert page.driver.execute_script(style, focus) == "solid 3px", f"the focus on {name} cannot be seen"
            return focus
    raise AssertionError(f"Tab does not lead to {name}")


def test_without_a_mouse(page, server):
    """Only Tab, Enter, Space, arrows and letters."""
    page.enter(server)
    page.open(f"{server.pages}/open")
    tab_to(page, "Try it with a demo table").send_keys(Keys.ENTER)
    page.titled("demo table")
    slider = tab_to(page, "slider")
    assert slider.get_attribute("aria-valuetext") == "not chosen"
    for _ in range(5):
        slider.send_keys(Keys.ARROW_RIGHT)
    assert float(page.find("epsilon").get_attribute("value")) == pytest.approx(10**0.05, rel=0.03)
    tab_to(page, "delta").send_keys("1e-6")
    page.forecast()
    before = page.find("error").get_attribute("value")
    page.find("slider").send_keys(Keys.ARROW_LEFT)
    page.wait(lambda: float(page.find("error").get_attribute("value")) > float(before), "a larger error")
    page.find("delta").send_keys(Keys.ENTER)  # Enter in a field spends nothing
    time.sleep(0.3)
    assert "demo table" in page.driver.title
    tab_to(page, "release").send_keys(Keys.SPACE)
    page.released()
    tab_to(page, "Release again").send_keys(Keys.ENTER)  # what it costs is said before it can be done
    assert "costs epsilon" in page.text()
    first = page.driver.current_url
    tab_to(page, "again").send_keys(Keys.ENTER)
    page.wait(lambda: page.driver.current_url != first and "/release/" in page.driver.current_url, "another release")


def test_the_two_ends_of_the_slider(page, server):
    page.enter(server)
    page.open(f"{server.pages}/open")
    page.click(page.button("Try it with a demo table"))
    page.titled("demo table")
    assert page.find("epsilon").get_attribute("value") == ""
    page.click(page.find("release"))
    page.wait(lambda: page.find("epsilon-wrong").text == "Type epsilon: it has no default.", "the error")
    page.type("delta", "1e-6")
    page.find("error_of").send_keys("income")
    page.type("error", "50")
    page.wait(lambda: page.find("epsilon").get_attribute("value"), "the least epsilon")
    epsilon = float(page.find("epsilon").get_attribute("value"))
    names, bounds = demo_bounds()
    target = [50 if name == "income" else 1e300 for name in names]
    plan = es.plan("mean", dict(zip(names, bounds, strict=True)), n=20_000, delta=1e-6, error=target)
    assert epsilon == pytest.approx(plan.stated["epsilon"], rel=1e-3)
    assert not page.find("epsilon-wrong").is_displayed()
    assert not page.find("summary").is_displayed()


def test_the_picture_of_the_readme(page, server):
    """docs/images/studio.png is such a picture."""
    page.enter(server)
    page.open(f"{server.pages}/open")
    page.click(page.button("Try it with a demo table"))
    page.titled("demo table")
    page.type("epsilon", "1")
    page.type("delta", "1e-6")
    page.wait(lambda: drawn(page, "#curve"), "the curve")
    page.size(1280, 1300)
    page.driver.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
    page.picture("readme")


def drawn(page, selector):
    """Whether every such picture is there."""
    sizes = "return [...document.querySelectorAll(arguments[0])].map((one) => !one.hidden && one.naturalWidth)"
    found = page.driver.execute_script(sizes, selector)
    return found and all(found)


def demo_bounds():
    from ellipsum.apps.demo import BOUNDS as known

    return list(known), list(known.values())


@pytest.mark.parametrize("width", [390, 320])
def test_at_the_width_of_a_phone(page, server, people, width):
    page.size(width, 800)
    open_file(page, server, people)
    fill(page)
    assert fits(page, width)
    page.check("desk on a phone")
    page.whole_picture(f"phone-desk-{width}", width)
    page.click(page.find("release"))
    page.released()
    assert fits(page, width)
    page.check("release on a phone")
    page.whole_picture(f"phone-release-{width}", width)
    for path in ("/open", "/history"):
        page.open(server.pages + path)
        assert fits(page, width), path


def fits(page, width):
    return page.driver.execute_script("return document.documentElement.scrollWidth") <= width


WRONG = {
    "a-1": "x",
    "b-2": "1e999",
    "epsilon": "much",
    "delta": "-",
    "n": "some",
    "by": "town",
    "max_groups": "-1",
    "groups": "x",
    "fill": "none",
    "dataset": "survey",
    "max_rows": "0",
}


def test_wrong_input_in_every_field(page, server, people):
    open_file(page, server, people)
    for words in ("A person may have several rows", "One result for each group", "Neighbors, missing values, noise"):
        page.unfold(words)
    page.find("privacy_id").send_keys("who")
    page.find("missing").send_keys("fill in a number")
    page.type("a-1", "1")  # ticks the column
    page.type("b-2", "1")
    for name, text in WRONG.items():
        page.type(name, text)
    page.type("by", "town")
    page.click(page.find("release"))
    page.wait(lambda: page.find("summary"), "the summary")
    assert page.driver.switch_to.active_element.get_attribute("id") == "summary"
    said = set(WRONG) - {"dataset", "max_groups"} | {"ledger", "max_groups"}
    for name in said:
        assert page.find(f"{name}-wrong").text, name
        assert page.find(name).get_attribute("aria-invalid") == "true", name
        assert page.find(name).is_displayed(), name
    assert page.find("b-2").get_attribute("value") == "1e999"
    assert "Nothing was spent" in page.text()
    page.check("errors")
    page.whole_picture("errors")
    page.click(page.driver.find_element(By.CSS_SELECTOR, "#summary a[href='#epsilon']"))
    assert page.driver.switch_to.active_element.get_attribute("id") == "epsilon"
    page.choose("kind", "ball")
    page.type("radius", "far")
    page.type("center", "there")
    page.click(page.find("release"))
    page.wait(lambda: page.find("radius-wrong").text and page.find("center-wrong").text, "errors of the ball")
    page.choose("kind", "learned")
    page.type("magnitude", "-1")
    page.click(page.find("release"))
    page.wait(lambda: page.find("magnitude-wrong").text, "the error of the magnitude")


def test_wrong_input_where_tables_are_opened(page, server, tmp_path):
    page.enter(server)
    page.open(f"{server.pages}/open")
    for name, text, words in (
        ("path", str(tmp_path / "nothing.csv"), "is not a file"),
        ("database", "mysql://x", "database must be"),
        ("names", "a\na", "each name once"),
    ):
        page.type(name, text)
        button = page.find(name).find_element(By.XPATH, "ancestor::form//button[@class='main']")
        page.click(button)
        page.wait(lambda name=name: page.find(f"{name}-wrong"), "the error")
        assert "either a query" in page.text() or words in page.find(f"{name}-wrong").text
        page.check(f"open, wrong {name}")
    page.click(page.button("Upload"))
    page.wait(lambda: page.find("file-wrong").text == "Choose a file.", "the error")


def test_a_double_click_releases_once(page, server, people, tmp_path):
    open_file(page, server, people)
    fill(page, epsilon="0.4")
    charge(page, tmp_path / "budget.db")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", page.find("release"))
    ActionChains(page.driver).double_click(page.find("release")).perform()
    page.released()
    page.driver.refresh()
    page.released()
    page.driver.back()
    assert es.Ledger(tmp_path / "budget.db").account("survey").reserved == 1


def test_two_tabs_race_for_the_ledger(page, server, people, tmp_path):
    open_file(page, server, people)
    fill(page, epsilon="0.7")
    charge(page, tmp_path / "budget.db")
    page.check("desk with a ledger")
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    second = page.driver.current_window_handle
    page.size(1280)
    page.open(f"{server.pages}/history")
    page.click(page.driver.find_elements(By.LINK_TEXT, people.name)[-1])
    page.titled("people.csv")
    fill(page, epsilon="0.7")
    page.type("ledger", str(tmp_path / "budget.db"))
    page.type("dataset", "survey")
    page.wait(lambda: "all of it" in page.find("balance").text, "the balance in the other tab")
    click = "document.getElementById('release').click()"
    page.driver.execute_script(click)
    page.driver.switch_to.window(first)
    page.driver.execute_script(click)
    titles = []
    for window in (first, second):
        page.driver.switch_to.window(window)
        page.wait(lambda: page.driver.title.startswith(("Private", "Not released")), "an end")
        titles.append(page.driver.title.partition(",")[0])
    assert sorted(titles) == ["Not released", "Private mean"]
    page.driver.switch_to.window(first if titles[0] == "Not released" else second)
    assert "The ledger refused" in page.text()
    assert "Remaining: epsilon = 0.3" in page.text()
    page.check("refused")
    page.picture("refused")
    page.click(page.driver.find_element(By.LINK_TEXT, "Back to the form"))
    page.titled("people.csv")
    page.wait(lambda: "epsilon = 0.3" in page.find("balance").text, "what is left")
    page.type("epsilon", "0.3")
    page.click(page.find("release"))
    page.released()
    account = es.Ledger(tmp_path / "budget.db").account("survey")
    assert (account.reserved, account.released) == (2, 2)


def test_a_table_of_200_columns(page, server, wide):
    open_file(page, server, wide)
    fill(page, "\n".join(f"question {i + 1}\t0\t5" for i in range(200)))
    assert page.find("ticked").text == "200 of 200 ticked"
    assert page.find("paste-said").text == "200 columns filled in."
    times = [forecast_seconds(page, epsilon) for epsilon in (0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7)]
    print(
        f"\nforecast at 200 columns: {1000 * sorted(times)[3]:.0f} ms at the median, {1000 * min(times):.0f} at least"
    )
    page.check("200 columns")
    page.whole_picture("wide")
    page.paste("paste", "question 1=0:4\nnobody=1:2\nquestion 2=a:b")
    assert "line 2, 3" in page.find("paste-said").text
    page.type("filter", "question 19")
    shown = page.driver.find_elements(By.CSS_SELECTOR, "table.columns tbody tr:not([hidden])")
    assert len(shown) == 11
    page.click(page.find("release"))
    page.released()
    lines = page.driver.find_elements(By.CSS_SELECTOR, "table.numbers tbody tr")
    assert len(lines) == 200
    page.check("200 columns released")
    page.whole_picture("wide-release")


def forecast_seconds(page, epsilon):
    """How long the browser waits for the answer."""
    seconds = page.driver.execute_async_script(
        """const done = arguments[arguments.length - 1];
        const words = readForm({ epsilon: String(arguments[0]), goal: "epsilon" });
        words.epsilon = String(arguments[0]);
        const begin = performance.now();
        post(`/desk/${desk}/forecast`, words).then(() => done((performance.now() - begin) / 1000));""",
        epsilon,
    )
    return float(seconds)


def test_the_first_page_comes_at_once(page, server):
    page.enter(server)
    seconds = []
    timing = "return performance.getEntriesByType('navigation')[0].duration / 1000"
    for _ in range(5):
        page.open(f"{server.pages}/open")
        seconds.append(page.wait(lambda: page.driver.execute_script(timing), "the page to be complete"))
    print(f"\nfirst page: {1000 * sorted(seconds)[2]:.0f} ms at the median")
    assert min(seconds) < 1


def test_a_studio_that_is_started_again(page, people, tmp_path):
    """What was charged stays in the ledger, and a form of before releases nothing."""
    server = Server(people, "--port", 0)
    port = server.base.rpartition(":")[2]
    page.enter(server)
    page.titled("people.csv")
    fill(page, epsilon="0.4")
    charge(page, tmp_path / "budget.db")
    server.stop()
    page.type("epsilon", "0.5")
    page.wait(lambda: "does not answer" in page.find("forecast").text, "word of the end")
    server = Server(people, "--port", port)
    try:
        page.type("epsilon", "0.4")
        page.wait(lambda: "started again" in page.find("forecast").text, "word of the new start")
        page.click(page.find("release"))
        page.titled("Enter")
        assert "needs its token" in page.text()
        page.enter(server)
        page.titled("people.csv")
        fill(page, epsilon="0.4")
        page.type("ledger", str(tmp_path / "budget.db"))
        page.type("dataset", "survey")
        page.wait(lambda: "all of it" in page.find("balance").text, "the balance")
        page.click(page.find("release"))
        page.released()
        assert es.Ledger(tmp_path / "budget.db").account("survey").reserved == 1
    finally:
        server.stop()


def test_long_work_shows_progress_and_can_be_canceled(page, server, tmp_path):
    import sqlite3

    sqlite3.connect(tmp_path / "d.db").close()
    page.enter(server)
    page.open(f"{server.pages}/open")
    page.type("database", f"sqlite:///{tmp_path / 'd.db'}")
    many = (
        "with recursive c(i) as (select 1 union all select i + 1 from c where i < 60000000) select i * 1.0 as x from c"
    )
    page.type("query", many)
    page.click(page.find("query").find_element(By.XPATH, "ancestor::form//button[@class='main']"))
    page.titled("query")
    page.unfold("Neighbors, missing values, noise")
    page.choose("neighbors", "add_remove")
    page.type("n", "60000000")
    fill(page, "x 0 1e8")
    charge(page, tmp_path / "budget.db")
    page.click(page.find("release"))
    page.titled("Computing")
    page.check("on its way")
    page.picture("job")
    ledger = es.Ledger(tmp_path / "budget.db")
    page.wait(lambda: ledger.account("survey").reserved == 1, "the charge")
    page.click(page.button("Cancel"))
    page.wait(lambda: "The charge stays" in page.text(), "the end")
    page.check("canceled")
    assert ledger.account("survey").released == 0


def test_groups_and_people_and_other_statistics(page, server, people):
    open_file(page, server, people)
    fill(page)
    page.unfold("One result for each group")
    page.type("by", "city")
    page.type("keys", "Oslo\nRome")
    page.forecast()
    page.click(page.find("release"))
    page.released()
    assert "Oslo" in page.text()
    page.check("groups")
    page.whole_picture("groups")
    for statistic, more in (("describe", {}), ("quantiles", {}), ("histogram", {"bins": "4"}), ("count", {})):
        open_file(page, server, people)
        fill(page)
        page.choose("statistic", statistic)
        for name, text in more.items():
            page.type(name, text)
        if statistic == "count":
            page.unfold("Neighbors, missing values, noise")
            page.choose("neighbors", "add_remove")
            page.type("n", "5000")
        page.forecast()
        page.click(page.find("release"))
        page.released()
        page.wait(lambda: drawn(page, ".picture"), "the picture of the values")
        page.check(statistic)
        page.whole_picture(statistic)
    page.dark()
    page.whole_picture("dark")
    page.dark(False)
