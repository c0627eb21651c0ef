"""The report in a real browser, opened from disk."""

import base64
import csv
import time

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from cuspfa import datasets
from support import posterior_of

HOSTILE = [
    "<script>window.ran = 1</script>",
    '</script><img src=x onerror="window.ran = 1">',
    'say "hi", then\nstop',
    "名前の長い列",
    "an item with a very long wording, of which only the end is its own, number 7",
]


@pytest.fixture(scope="session")
def posteriors():
    simulated = datasets.simulate(200, 10, 2, random_state=1).X
    items = datasets.load_bfi(subset="items")
    hundred = datasets.simulate(300, 100, 8, design="sparse", random_state=1).X
    thousand = datasets.simulate(100, 1000, 12, design="sparse", random_state=1).X
    return {
        "p10": posterior_of(simulated, HOSTILE + [f"x{j}" for j in range(5)]),
        "bfi": posterior_of(items.data[:600], items.feature_names, n_factors=5, rotation="oblimin"),
        "p100": posterior_of(
            hundred, [f"gene_{j:03d}_with_a_long_name" for j in range(100)], n_factors=8
        ),
        "p1000": posterior_of(thousand, n_factors=12),
        "none": posterior_of(np.random.default_rng(1).normal(size=(300, 6))),
        "one": posterior_of(simulated, n_factors=1),
        "worded": posterior_of(items.data[:600], items.feature_names, n_factors=5).with_wording(
            {
                name: f"{HOSTILE[j % 5]} asked as number {j}"
                for j, name in enumerate(items.feature_names)
            }
        ),
    }


@pytest.fixture(scope="session")
def pages(posteriors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for key, one in posteriors.items():
        draws = one.draw(60, random_state=0, sweeps=0)
        one.report(folder / f"{key}.html", title=f"Report {key}", draws=draws)
    return folder


KEYS = ["p10", "bfi", "p100", "p1000", "none", "one", "worded"]


def clean(page):
    """No error, and nothing asked for but the file itself and what is inside it."""
    errors = [one["message"] for one in page.logs("browser")]
    outside = [one for one in page.requests() if not one.startswith(("file:", "data:", "blob:"))]
    return errors, outside


@pytest.mark.parametrize("key", KEYS)
def test_it_opens_from_disk_without_an_error_or_a_request(chromium, pages, key):
    page = chromium.open(pages / f"{key}.html")
    asked = page.requests()
    assert sum(one.startswith("file:") for one in asked) == 1
    assert all(one.startswith(("file:", "data:")) for one in asked)
    assert clean(page) == ([], [])
    assert page.run("return window.ran") is None
    page.screenshot(f"{key}_light")


def test_errors_and_requests_would_be_seen(chromium, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<meta charset=utf-8><img src='http://127.0.0.1:9/a.png'><script>nothing()</script>"
    )
    errors, outside = clean(chromium.open(path))
    assert any("nothing is not defined" in one for one in errors)
    assert outside == ["http://127.0.0.1:9/a.png"]


def test_the_policy_keeps_foreign_scripts_and_addresses_out(chromium, pages, tmp_path):
    text = (pages / "p10.html").read_text(encoding="utf-8")
    path = tmp_path / "changed.html"
    added = "<script>window.ran = 1</script><img src='http://127.0.0.1:9/a.png'>"
    path.write_text(text.replace("</main>", f"{added}</main>"), encoding="utf-8")
    page = chromium.open(path)
    assert page.run("return window.ran") is None
    assert sum("violates the following Content Security" in one for one in clean(page)[0]) == 2
    asked = chromium.open(path).requests(blocked=False)
    assert [one for one in asked if not one.startswith("data:")] == [path.as_uri()]


@pytest.mark.parametrize("key", ["p10", "bfi", "p100", "p1000", "one", "worded"])
def test_figures_are_drawn_and_can_be_read(chromium, posteriors, pages, key):
    page = chromium.open(pages / f"{key}.html")
    posterior = posteriors[key]
    p, k = posterior.rotated_solution.loadings.shape
    drawn = page.run(
        "return Array.from(document.querySelectorAll('figure svg'), e => {"
        "const b = e.getBoundingClientRect(); return [b.width, b.height, e.childElementCount]})"
    )
    assert len(drawn) >= 5 + k
    assert all(width > 100 and height > 60 and marks for width, height, marks in drawn)
    assert page.run("return document.querySelectorAll('#forest figure').length") == k
    names = page.run("return document.querySelectorAll('#map svg text.label').length")
    assert names == (p if p <= 120 else 0)
    # Words do not leave their pictures.
    outside = page.run(
        "const words = document.querySelectorAll('svg.figure text, #forest text');"
        "return Array.from(words).filter(t => {"
        "const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();"
        "return a.left < b.left - 3 || a.right > b.right + 3 || a.top < b.top - 3 ||"
        "a.bottom > b.bottom + 3}).map(t => t.textContent)"
    )
    assert outside == []


def test_names_are_shown_as_they_are(chromium, pages):
    page = chromium.open(pages / "p10.html")
    shown = page.texts("#table tbody th")
    assert set(HOSTILE) <= set(shown)
    assert page.run("return document.images.length") == 0


def test_the_wording_stands_wherever_names_do(chromium, pages):
    page = chromium.open(pages / "worded.html")
    assert len(page.texts("#map text.wording")) == 25
    assert all("asked as" in one for one in page.texts("#map text.wording"))
    assert all(" " in one.strip() for one in page.texts("#forest text.label"))
    assert all("number" in one for one in page.texts(".items .item"))
    outside = page.run(
        "const box = document.querySelector('#map svg').getBoundingClientRect();"
        "return Array.from(document.querySelectorAll('#map text.wording'))"
        ".filter(t => t.getBoundingClientRect().right > box.right + 3).length"
    )
    assert outside == 0
    bare = chromium.open(pages / "bfi.html")
    assert bare.texts("#map text.wording") == []


def column(page, number):
    return page.texts(f"#table tbody td:nth-child({number + 1}) b")


def numbers(texts):
    return [float(text.replace("−", "-")) for text in texts]


def test_the_table_sorts(chromium, pages):
    page = chromium.open(pages / "bfi.html")
    page.click("#table thead th:nth-child(2) button")
    found = numbers(column(page, 1))
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 5
    page.click("#table thead th:nth-child(2) button")
    found = numbers(column(page, 1))
    assert found == sorted(found)
    heading = "return document.querySelector('#table thead th:nth-child(2)').ariaSort"
    assert page.run(heading) == "ascending"
    page.click("#table thead th:first-child button")
    names = page.texts("#table tbody th")
    assert names == sorted(names)
    page.click("#table thead th:last-child button")
    found = numbers(column(page, 6))
    assert found == sorted(found, reverse=True)


def test_the_table_filters(chromium, pages):
    page = chromium.open(pages / "bfi.html")
    assert len(page.texts("#table tbody tr")) == 25
    page.driver.find_element("id", "find").send_keys("n")
    assert sorted(page.texts("#table tbody th")) == ["N1", "N2", "N3", "N4", "N5"]
    assert page.text("#count") == "5 of 25 variables"
    page.driver.find_element("id", "find").send_keys("othing")
    assert page.texts("#table tbody tr") == []
    page.driver.find_element("id", "find").send_keys(Keys.BACKSPACE * 10)
    assert len(page.texts("#table tbody tr")) == 25
    shown = "return getComputedStyle(document.querySelector('#table td small')).display"
    assert page.run(shown) == "block"
    page.click("#intervals")
    assert page.run(shown) == "none"


def test_long_tables_begin_with_a_hundred_rows(chromium, pages):
    page = chromium.open(pages / "p1000.html")
    assert len(page.texts("#table tbody th")) == 100
    page.click("#more")
    assert len(page.texts("#table tbody th")) == 1000
    page.driver.find_element("id", "find").send_keys("x99")
    assert len(page.texts("#table tbody th")) == 11


def test_the_switch_turns_the_loadings(chromium, posteriors, pages):
    page = chromium.open(pages / "bfi.html")
    assert "Correlations of the factors" in page.text("#phi")
    maps = {}
    for key in ("oblimin", "principal", "varimax"):
        if key != "oblimin":
            page.click(f'input[value="{key}"] + span')
        word = None if key == "principal" else key
        loadings = posteriors["bfi"].align(word, n_draws=2).reference.loadings
        names = posteriors["bfi"].names
        for h in range(5):
            shown = dict(
                zip(page.texts("#table tbody th"), numbers(column(page, h + 1)), strict=True)
            )
            found = [shown[name] for name in names]
            np.testing.assert_allclose(found, loadings[:, h], atol=0.0051)
        maps[key] = page.run("return document.querySelector('#map').innerHTML")
    assert len(set(maps.values())) == 3
    assert page.text("#phi") == ""
    assert "rotated to few large loadings" in page.text("#axes-note")


def downloaded(page, selector, name):
    page.click(selector)
    path = page.downloads / name
    for _ in range(100):
        if path.exists() and path.stat().st_size and not list(page.downloads.glob("*.crdownload")):
            break
        time.sleep(0.1)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_downloads(chromium, posteriors, pages):
    page = chromium.open(pages / "p10.html")
    posterior = posteriors["p10"]
    table = downloaded(page, '#downloads [data-download="loadings"]', "loadings_principal.csv")
    assert table[0][:3] == ["variable", "factor1", "factor1_lower"]
    assert [row[0] for row in table[1:]] == posterior.names
    found = np.array([[float(row[1]), float(row[5])] for row in table[1:]])
    np.testing.assert_allclose(found, posterior.rotated_solution.loadings, atol=6e-5)
    pairs = downloaded(page, '[data-download="correlations"]', "correlations.csv")
    sample = posterior.sample_correlation
    assert len(pairs) == 1 + 45
    assert float(pairs[1][2]) == pytest.approx(sample[0, 1], abs=6e-5)
    assert pairs[-1][:2] == [posterior.names[8], posterior.names[9]]
    assert float(pairs[-1][2]) == pytest.approx(sample[8, 9], abs=6e-5)
    for kind in ("communalities", "factors", "rules", "search", "fit"):
        rows = downloaded(page, f'[data-download="{kind}"]', f"{kind}.csv")
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1
    assert clean(page) == ([], [])


def background(page):
    return page.run("return getComputedStyle(document.body).backgroundColor")


def brightness(colour):
    return np.mean([float(part) for part in colour[4:-1].split(",")])


def test_dark_and_light(chromium, pages):
    page = chromium.open(pages / "bfi.html", dark=True)
    assert brightness(background(page)) < 60
    page.screenshot("bfi_dark")
    assert page.text("#theme") == "Light"
    page.click("#theme")
    assert brightness(background(page)) > 200
    page = chromium.open(pages / "bfi.html")
    assert brightness(background(page)) > 200


CONTRAST = """
const parse = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = element => {
  for (let at = element; at; at = at.parentElement) {
    const found = parse(getComputedStyle(at).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found;
  }
};
const bad = [];
const words = 'p, li, h1, h2, h3, dt, dd, th, .item, button, a';
for (const element of document.querySelectorAll(words)) {
  if (!element.checkVisibility() || !element.textContent.trim()) continue;
  if (element.closest('#table')) continue;
  const a = light(parse(getComputedStyle(element).color)), b = light(ground(element));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.push([element.textContent.trim().slice(0, 40), ratio]);
}
return bad;
"""


@pytest.mark.parametrize("dark", [False, True])
def test_words_have_contrast(chromium, pages, dark):
    page = chromium.open(pages / "bfi.html", dark=dark)
    assert page.run(CONTRAST) == []
    page.run("document.querySelector('.lead').style.color = '#777'")
    assert len(page.run(CONTRAST)) == 1  # the test can fail


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("width", [360, 820])
def test_a_narrow_screen_does_not_scroll_sideways(chromium, pages, key, width):
    page = chromium.open(pages / f"{key}.html", width=width, height=780)
    found = page.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert found[0] <= found[1] == width
    if width == 360:
        page.screenshot(f"{key}_phone")


def test_keys_reach_everything(chromium, pages):
    page = chromium.open(pages / "bfi.html")
    body = page.driver.find_element("tag name", "body")
    body.send_keys(Keys.TAB)
    assert page.run("return document.activeElement.className") == "skip"
    reached = set()
    for _ in range(90):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        at = "const e = document.activeElement; return e.id || e.dataset.download || e.name"
        reached.add(page.run(at))
    assert {"theme", "axes", "map", "find", "intervals", "loadings", "all-pairs"} <= reached


def test_arrow_keys_read_the_map(chromium, posteriors, pages):
    page = chromium.open(pages / "bfi.html")
    page.run("document.querySelector('#map').focus()")
    place = page.driver.switch_to.active_element
    place.send_keys(Keys.ARROW_DOWN)
    place.send_keys(Keys.ARROW_RIGHT)
    said = page.text("#tip")
    assert "factor 2:" in said
    name = said.splitlines()[0]
    posterior = posteriors["bfi"]
    value = posterior.rotated_solution.loadings[posterior.names.index(name), 1]
    assert f"factor 2: {value:.2f}".replace("-", "−") in said
    assert "95 %" in said
    place.send_keys(Keys.ESCAPE)
    assert page.run("return document.querySelector('#tip').hidden")


def test_pointing_at_a_cell_tells_its_numbers(chromium, posteriors, pages):
    from selenium.webdriver import ActionChains

    page = chromium.open(pages / "bfi.html")
    for selector, words in (("#map svg", "factor"), ('[data-matrix="residual"] svg', "residual")):
        element = page.driver.find_element("css selector", selector)
        page.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        aside = -element.size["width"] // 4
        ActionChains(page.driver).move_to_element_with_offset(element, aside, 0).perform()
        assert not page.run("return document.querySelector('#tip').hidden")
        assert words in page.text("#tip")


def test_axes_are_switched_by_keys(chromium, pages):
    page = chromium.open(pages / "bfi.html")
    page.run("document.querySelector('input[name=axes]:checked').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    checked = "return document.querySelector('input[name=axes]:checked').value"
    assert page.run(checked) == "principal"
    assert "after those before it" in page.text("#axes-note")


@pytest.mark.parametrize("key", ["bfi", "p1000", "none"])
def test_it_prints(chromium, pages, key):
    page = chromium.open(pages / f"{key}.html", dark=True)
    made = page.command("Page.printToPDF", printBackground=True)
    data = base64.b64decode(made["data"])
    assert data.startswith(b"%PDF")
    sheets = data.count(b"/Type /Page\n") + data.count(b"/Type /Page ")
    assert sheets < 40
    page.command("Emulation.setEmulatedMedia", media="print")
    assert brightness(background(page)) > 250
    hidden = "return getComputedStyle(document.querySelector('.top')).display"
    assert page.run(hidden) == "none"
    page.command("Emulation.setEmulatedMedia", media="")
    assert clean(page) == ([], [])
