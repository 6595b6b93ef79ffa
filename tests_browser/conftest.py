"""The studio as its command runs it, and Chromium, driven as a person would use it."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).parents[1]
SCREENSHOTS = ROOT / "out" / "screenshots"
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
PATIENCE_SECONDS = 60.0
_MISSING = "Chromium and its driver are not here. As root: apt-get install chromium chromium-driver"


class Server:
    """`ellipsum studio ... --no-open`, and the address that it printed."""

    def __init__(self, *words, cwd=None):
        environment = {name: text for name, text in os.environ.items() if name != "ELLIPSUM_LEDGER"}
        command = [sys.executable, "-m", "ellipsum", "studio", *map(str, words), "--no-open"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=environment
        )
        self.address = self.process.stdout.readline().strip()
        self.base, _, self.token = self.address.partition("/#")
        assert re.fullmatch(r"[0-9a-f]{64}", self.token), self.process.stderr.read()
        self.pages = ""
        """The address that all pages stand below, once a browser has entered."""

    def stop(self):
        self.process.terminate()
        out, errors = self.process.communicate(timeout=30)
        return out, errors


class Page:
    """A browser, and what a person does with it; clicks are counted."""

    def __init__(self, driver):
        self.driver = driver
        self.clicks = 0

    def open(self, address):
        self.driver.get(address)

    def wait(self, condition, what="something to happen"):
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            try:
                found = condition()
            except Exception:  # a page that is being replaced
                found = None
            if found:
                return found
            time.sleep(0.05)
        self.picture("failure")
        raise AssertionError(f"waited in vain for {what}: {self.driver.title}, {self.text()[:2000]}")

    def titled(self, words):
        ready = "return document.readyState === 'complete'"  # a title comes before its page
        return self.wait(lambda: words in self.driver.title and self.driver.execute_script(ready), f"the page {words}")

    def find(self, name):
        return self.driver.find_element(By.ID, name)

    def button(self, words):
        return self.driver.find_element(By.XPATH, f"//button[normalize-space()='{words}']")

    def click(self, element):
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.clicks += 1

    def type(self, name, text):
        """Into a field, in place of what it says."""
        field = self.find(name)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        field.send_keys(text)

    def paste(self, name, text):
        """All at once, tabs and line ends too."""
        put = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
        self.driver.execute_script(put, self.find(name), text)

    def choose(self, name, word):
        self.click(self.driver.find_element(By.CSS_SELECTOR, f"input[name={name}][value={word}]"))

    def unfold(self, words):
        """Click until it is open: what is above may grow meanwhile."""
        found = self.driver.find_element(By.XPATH, f"//summary[normalize-space()='{words}']")
        folded = found.find_element(By.XPATH, "..")
        self.wait(lambda: folded.get_attribute("open") or self.click(found), f"{words} to open")

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "body").text

    def forecast(self):
        return self.wait(lambda: "±" in self.find("forecast").text and self.find("forecast").text, "a forecast")

    def released(self):
        return self.titled("Private ")

    def enter(self, server):
        self.open(server.address)
        self.wait(lambda: server.token not in self.driver.current_url and "Enter" not in self.driver.title, "the door")
        server.pages = re.match(rf"{re.escape(server.base)}/[0-9a-f]{{64}}(?=/)", self.driver.current_url)[0]

    def picture(self, name):
        """The whole page, as it is."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def whole_picture(self, name, width=1280):
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.size(width, height)
        self.picture(name)
        self.size(width, 900)

    def size(self, width, height=900):
        metrics = {"width": width, "height": int(height), "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, on=True):
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def check(self, name):
        """No violation that axe knows of, in light and in dark, and no message of the browser about our own policy."""
        for dark in (False, True):
            self.dark(dark)
            self.driver.execute_script(AXE)
            found = self.driver.execute_async_script(
                "const done = arguments[arguments.length - 1]; axe.run(document).then(done, (e) => done(String(e)))"
            )
            problems = [(v["id"], [node["html"][:200] for node in v["nodes"]][:3]) for v in found["violations"]]
            assert problems == [], f"{name}, dark={dark}: {json.dumps(problems, indent=1)}"
        self.dark(False)
        logged = [entry["message"] for entry in self.driver.get_log("browser")]
        assert not [text for text in logged if "Security Policy" in text or "Uncaught" in text], logged


def _driver(downloads):
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.exit(_MISSING, 1)
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--disable-dev-shm-usage", "--window-size=1280,900", "--force-color-profile=srgb"):
        options.add_argument(word)
    if os.getuid() == 0:  # as root Chromium has no sandbox
        options.add_argument("--no-sandbox")
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    return driver


@pytest.fixture(scope="session")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def driver(downloads):
    driver = _driver(downloads)
    yield driver
    driver.quit()


@pytest.fixture
def page(driver):
    page = Page(driver)
    page.size(1280)
    page.dark(False)
    yield page
    for window in driver.window_handles[1:]:
        driver.switch_to.window(window)
        driver.close()
    driver.switch_to.window(driver.window_handles[0])
    driver.get("about:blank")


@pytest.fixture(scope="session")
def server():
    server = Server("--port", 0)
    yield server
    out, errors = server.stop()
    assert out == "", "nothing but the address is printed"
    assert server.token not in errors


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    """A small table with a person's column and groups."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "people.csv"
    columns = rng.uniform(18, 90, 5000), rng.uniform(0, 90_000, 5000), rng.choice(["Oslo", "Rome"], 5000)
    lines = [f"{i % 3000},{a:.0f},{b:.0f},{c}" for i, (a, b, c) in enumerate(zip(*columns, strict=True))]
    path.write_text("who,age,income,city\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """200 columns."""
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    names = [f"question {i + 1}" for i in range(200)]
    rows = [",".join(f"{cell:.3f}" for cell in row) for row in rng.uniform(0, 5, (4000, 200)).tolist()]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")
    return path
