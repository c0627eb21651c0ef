"""Pictures of the page of `cuspfa app` for docs/app.md: `python -m docs.figures.app`.

It needs Chromium, as `make test-browser` does.
"""

import base64
from pathlib import Path

from benchmarks.browser import (
    CHOOSE,
    DESKTOP,
    HAS_REPORT,
    PHONE,
    Browser,
    bfi_as_csv,
    page,
)

HERE = Path(__file__).parent
TRAITS = {
    "A": "Agreeableness",
    "C": "Conscientiousness",
    "E": "Extraversion",
    "N": "Neuroticism",
    "O": "Openness",
}
MARGIN, LOWEST = 12, 1500
"""Pixels around a picture, and the height at which it is cut."""


def picture(browser: Browser, name: str, place: str, height: int = 0) -> None:
    """The part of the page from an element on; all of the element without a height."""
    top, own = browser.run(
        "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
        "return [box.top + scrollY, box.height]",
        place,
    )
    width = browser.run("return document.documentElement.clientWidth")
    high = height or min(own + 2 * MARGIN, LOWEST)
    clip = {"x": 0, "y": top - MARGIN, "width": width, "height": high, "scale": 1}
    taken = browser.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    (HERE / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


def on_a_phone(browser: Browser, name: str, place: str, scheme: str = "light") -> None:
    """The same part at the width of a phone."""
    browser.show_as(PHONE, scheme)
    picture(browser, name, place)
    browser.show_as(DESKTOP)


def walk(browser: Browser) -> None:
    """The path of the page, with a picture of each part."""
    browser.drop(bfi_as_csv())
    picture(browser, "app_columns", "#data-section", 1000)
    on_a_phone(browser, "app_phone_columns", "#data-section")
    browser.fit()
    browser.run(CHOOSE, "n_factors", "5")
    browser.until("return document.querySelector('#now .big').textContent === '5'")
    browser.until("return document.querySelector('#now .lead').textContent.includes('RMSEA')")
    browser.until(HAS_REPORT)
    picture(browser, "app_answer", "#live", 1000)
    first = browser.run(
        "return Array.from(document.querySelectorAll('#factors .items'), e =>"
        "Array.from(e.querySelectorAll('.item b:first-child'), b => b.textContent[0])[0])"
    )
    browser.run(
        "const inputs = document.querySelectorAll('#names input');"
        "inputs.forEach((one, h) => { one.value = arguments[0][h]; });"
        "inputs[0].dispatchEvent(new Event('change'))",
        [TRAITS[letter] for letter in first],
    )
    browser.until("return document.querySelector('#map').textContent.includes('Openness')")
    browser.until(HAS_REPORT)
    picture(browser, "app_names", "#naming")
    picture(browser, "app_report", "#answer", 900)
    picture(browser, "app_save", "#save")
    on_a_phone(browser, "app_phone", "#now", "dark")
    on_a_phone(browser, "app_phone_names", "#naming")
    on_a_phone(browser, "app_phone_report", "#answer")
    on_a_phone(browser, "app_phone_save", "#save")


if __name__ == "__main__":
    with page() as (browser, _):
        walk(browser)
