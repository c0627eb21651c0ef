"""Pictures of a report for docs/report.md: needs Chromium, as `make test-browser` does."""

import base64
import shutil
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from cuspfa import CuspFactorAnalysis, datasets

HERE = Path(__file__).parent
WIDTH, HEIGHT = 1180, 1240


def main() -> None:
    """The answer in the light, the loadings in the dark."""
    items = datasets.load_bfi(subset="items", as_frame=True).data
    model = CuspFactorAnalysis(rotation="oblimin", random_state=0).fit(items)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        model.posterior_.report(path, title="Factor analysis of 25 personality items")
        for name, scheme, place in (
            ("report_answer", "light", "body"),
            ("report_loadings", "dark", "#loadings"),
        ):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.get(path.as_uri())
            top = driver.execute_script(
                "return document.querySelector(arguments[0]).getBoundingClientRect().top", place
            )
            clip = {"x": 0, "y": max(top, 0), "width": WIDTH, "height": HEIGHT, "scale": 1}
            shot = {"captureBeyondViewport": True, "clip": clip}
            taken = driver.execute_cdp_cmd("Page.captureScreenshot", shot)
            (HERE / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))
    driver.quit()


if __name__ == "__main__":
    main()
