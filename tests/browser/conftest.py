"""A real browser: the system's own Chromium, headless, with nothing downloaded."""

import base64
import json
import os
import shutil
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HOW = "apt-get install chromium chromium-driver"


def found(names):
    place = next((shutil.which(name) for name in names if shutil.which(name)), None)
    if place is None:
        pytest.exit(f"none of {', '.join(names)} is installed. On Debian: {HOW}", returncode=2)
    return place


class Page:
    """A browser with one page in it, and what it asked the network for."""

    def __init__(self, driver, downloads):
        self.driver, self.downloads = driver, downloads

    def open(self, path, **how):
        """Open a file."""
        return self.visit(Path(path).as_uri(), **how)

    def visit(self, address, **how):
        """Open an address."""
        self.show_as(**how)
        self.logs("browser"), self.logs("performance")
        for old in self.downloads.iterdir():
            old.unlink(missing_ok=True)
        self.driver.get(address)
        return self

    def show_as(self, *, width=1200, height=900, dark=False):
        """The size of the screen and its colours."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # what is clicked stays put
        self.command("Emulation.setEmulatedMedia", features=[scheme, still])

    def command(self, name, **settings):
        return self.driver.execute_cdp_cmd(name, settings)

    def logs(self, kind):
        return self.driver.get_log(kind)

    def run(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        return self.run(
            "return Array.from(document.querySelectorAll(arguments[0]), e => e.textContent)",
            selector,
        )

    def click(self, selector):
        element = self.driver.find_element("css selector", selector)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def requests(self, *, blocked=True):
        """Addresses that were asked for since the page was opened, blocked ones or not."""
        messages = [json.loads(one["message"])["message"] for one in self.logs("performance")]
        refused = {
            one["params"]["requestId"]
            for one in messages
            if one["method"] == "Network.loadingFailed"
            and one["params"].get("blockedReason") == "csp"
        }
        return [
            one["params"]["request"]["url"]
            for one in messages
            if one["method"] == "Network.requestWillBeSent"
            and (blocked or one["params"]["requestId"] not in refused)
        ]

    def screenshot(self, name):
        """Into the folder that CUSPFA_SCREENSHOTS names, to be looked at."""
        folder = os.environ.get("CUSPFA_SCREENSHOTS")
        if not folder:
            return
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 9000)}
        taken = self.command(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=clip | {"scale": 1}
        )
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = found(BROWSERS)
    downloads = tmp_path_factory.mktemp("downloads")
    for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    if os.geteuid() == 0:  # as in a container; there is nothing but our own page to be guarded from
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found(("chromedriver",))))
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    yield Page(driver, downloads)
    driver.quit()
