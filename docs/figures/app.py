"""Pictures of the page of `cuspfa app` for docs/app.md; needs Chromium, as `make test-browser`.

With `--times` it prints how many milliseconds changes take until they are drawn.
"""

import base64
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from cuspfa import datasets

HERE = Path(__file__).parent
TRAITS = {
    "A": "Agreeableness",
    "C": "Conscientiousness",
    "E": "Extraversion",
    "N": "Neuroticism",
    "O": "Openness",
}
DESKTOP, PHONE = (1180, 900), (390, 844)
PATIENCE = 600.0
DROP = """
const files = new DataTransfer();
files.items.add(new File([arguments[0]], "bfi.csv"));
const how = {dataTransfer: files, bubbles: true, cancelable: true};
document.querySelector("#drop").dispatchEvent(new DragEvent("drop", how));
"""
CHOOSE = """
const one = document.querySelector(`#controls [name=${arguments[0]}]`);
delete document.documentElement.dataset.drawn;
one.value = arguments[1];
one.dispatchEvent(new Event("change", {bubbles: true}));
"""
TICK = """
delete document.documentElement.dataset.drawn;
document.querySelector(`input[value=${arguments[0]}]`).click();
"""
DRAWN = "return document.documentElement.dataset.drawn"
HAS_REPORT = "return document.querySelector('#report').getAttribute('aria-busy') === 'false'"
IDLE = "return document.querySelector('#progress').hidden"


class Browser:
    """Chromium at the page."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(word)
        self.driver = webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver"))
        )

    def show_as(self, size: tuple[int, int], scheme: str = "light") -> None:
        """The size of the screen and its colours."""
        width, height = size
        how = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", how)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        time.sleep(0.5)

    def run(self, code: str, *arguments: object) -> object:
        """Run JavaScript."""
        return self.driver.execute_script(code, *arguments)

    def until(self, condition: str) -> object:
        """Wait for a condition in JavaScript."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.run(condition)
            if found:
                return found
            time.sleep(0.02)
        raise TimeoutError(condition)

    def picture(self, name: str, place: str, height: int) -> None:
        """The part of the page from an element on."""
        top = self.run(
            "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY",
            place,
        )
        width = self.run("return document.documentElement.clientWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        shot = {"captureBeyondViewport": True, "clip": clip}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", shot)
        (HERE / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


def as_csv(complete: bool) -> str:
    """The items as a file."""
    items = datasets.load_bfi(subset="items")
    rows = items.data[~(items.data != items.data).any(axis=1)] if complete else items.data
    lines = [",".join("" if one != one else f"{one:.0f}" for one in row) for row in rows]
    return "\n".join([",".join(items.feature_names), *lines])


def walk(browser: Browser) -> None:
    """The path of the page, with a picture of each part."""
    browser.run(DROP, as_csv(complete=False))
    browser.until("return document.querySelectorAll('input[name=column]').length")
    browser.picture("app_columns", "#data-section", 960)
    browser.run("document.querySelector('#fit-button').click()")
    browser.until("return document.querySelector('#map svg')")
    browser.until(HAS_REPORT)
    browser.run(CHOOSE, "n_factors", "5")
    browser.until("return document.querySelector('#now .big').textContent === '5'")
    browser.until("return document.querySelector('#now .lead').textContent.includes('RMSEA')")
    browser.picture("app_answer", "#live", 1000)
    browser.until(HAS_REPORT)
    first = browser.run(
        "return Array.from(document.querySelectorAll('#factors .items'), e =>"
        "Array.from(e.querySelectorAll('.item b:first-child'), b => b.textContent[0])[0])"
    )
    assert isinstance(first, list)
    browser.run(
        "const inputs = document.querySelectorAll('#names input');"
        "inputs.forEach((one, h) => { one.value = arguments[0][h]; });"
        "inputs[0].dispatchEvent(new Event('change'))",
        [TRAITS[letter] for letter in first],
    )
    browser.until("return document.querySelector('#map').textContent.includes('Openness')")
    browser.until(HAS_REPORT)
    browser.picture("app_save", "#save", 560)
    browser.show_as(PHONE, "dark")
    browser.picture("app_phone", "#live", 1100)
    browser.show_as(DESKTOP)


def measure(browser: Browser, *, complete: bool) -> None:
    """Milliseconds from a change to the frame after it was drawn."""
    browser.run(DROP, as_csv(complete))
    browser.until("return document.querySelector('#result').hidden")
    browser.until("return document.querySelectorAll('input[name=column]').length")
    browser.run("document.querySelector('#fit-button').click()")
    browser.until("return document.querySelector('#map svg')")
    browser.until(HAS_REPORT)
    what = "complete rows" if complete else "rows with missing values"
    for wait, when in ((0.0, "at once"), (40.0, "after the next fits were made in advance")):
        time.sleep(wait)
        for name, value in (
            ("rotation", "varimax"),
            ("rotation", "oblimin"),
            ("n_factors", "11"),
            ("n_factors", ""),
            ("model_error", "0.05"),
            ("model_error", "0.0"),
        ):
            browser.run(CHOOSE, name, value)
            print(f"{what}, {when}, {name} {value or 'found'}: {browser.until(DRAWN)} ms")
    for column in ("O4", "O4"):
        browser.run(TICK, column)
        print(f"{what}, columns: {browser.until(DRAWN)} ms, with the wait for further ticks")


def main() -> None:
    """Serve the page, walk through it and measure."""
    command = [sys.executable, "-u", "-m", "cuspfa", "app", "--no-browser"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as program,
    ):
        assert program.stdout is not None
        said = program.stdout.readline() + program.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found is not None
        browser = Browser()
        browser.show_as(DESKTOP)
        browser.driver.get(found[0])
        if "--times" not in sys.argv:
            walk(browser)
        else:
            for complete in (False, True):
                measure(browser, complete=complete)
        browser.driver.quit()
        program.terminate()


if __name__ == "__main__":
    main()
