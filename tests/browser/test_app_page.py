"""The page of `cuspfa app` in a real browser: from a dropped file to what is saved."""

import signal
import time

import numpy as np
import pytest
from selenium.common.exceptions import JavascriptException
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from app_server import Program
from cuspfa import datasets, load

PATIENCE = 180.0
X = datasets.simulate(150, 10, 2, random_state=1).X
NAMES = [f"x{j}" for j in range(10)]
CSV = "\n".join([",".join(NAMES), *(",".join(f"{v:.3f}" for v in row) for row in X)])


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    running = Program(tmp_path_factory.mktemp("temporary"))
    yield running
    running.close()


def until(page, condition, *arguments, patience=PATIENCE):
    """Wait for a condition in JavaScript, and return its value."""
    end, why = time.monotonic() + patience, None
    while time.monotonic() < end:
        try:
            found = page.run(f"return {condition}", *arguments)
        except JavascriptException as error:  # another page, or one that is not complete
            found, why = None, error
        if found:
            return found
        time.sleep(0.05)
    parts = ["#error", "#busy", "#now", "body"]
    seen = page.run(
        "return arguments[0].map(one => document.querySelector(one))"
        ".map(one => one && one.innerText.slice(0, 300))",
        parts,
    )
    raise AssertionError(f"{condition} is not so: {dict(zip(parts, seen, strict=True))}") from why


def entered(chromium, program, **how):
    """A page that can be worked on; one that finds no place comes by itself when there is one."""
    page = chromium.visit(program.address, **how)
    until(page, "document.readyState === 'complete' && Boolean(document.querySelector('#drop'))")
    return page


def drop(page, name, text):
    """Drop a file on the page, as a person does with the mouse."""
    page.run(
        "const files = new DataTransfer();"
        "files.items.add(new File([arguments[1]], arguments[0]));"
        "const how = {dataTransfer: files, bubbles: true, cancelable: true};"
        "const event = new DragEvent('drop', how);"
        "document.querySelector('#drop').dispatchEvent(event)",
        name,
        text,
    )


HAS_TABLE = "document.querySelectorAll('input[name=column]').length"
HAS_ANSWER = (
    "document.querySelector('#now .big') && document.querySelector('#now .big').textContent"
)
HAS_REPORT = "document.querySelector('#report').getAttribute('aria-busy') === 'false'"


def choose(page, name, value):
    page.run(
        "const one = document.querySelector(`#controls [name=${arguments[0]}]`);"
        "one.value = arguments[1]; one.dispatchEvent(new Event('change', {bubbles: true}))",
        name,
        value,
    )


def write(page, selector, text):
    """Write into a field, which is not made anew by an answer once it has the focus."""
    page.run("document.querySelector(arguments[0]).focus()", selector)
    page.driver.switch_to.active_element.send_keys(text + Keys.TAB)


def saved(page, what, name):
    """The bytes of a file that a button saves."""
    page.click(f'[data-get="{what}"]')
    until(page, "document.querySelector('#saved').textContent.startsWith('Saved')")
    path = page.downloads / name
    end = time.monotonic() + PATIENCE
    while not path.exists() or list(page.downloads.glob("*.crdownload")):
        assert time.monotonic() < end, list(page.downloads.iterdir())
        time.sleep(0.05)
    return path.read_bytes()


def errors_of(page, program):
    """Errors of the browser, and what was asked of others than the program."""
    own = program.own["origin"]
    # A page may have waited for its place.
    errors = [
        one["message"] for one in page.logs("browser") if "status of 503" not in one["message"]
    ]
    inside = (own, "data:", f"blob:{own}")
    return errors, [one for one in page.requests() if not one.startswith(inside)]


def test_from_a_dropped_file_to_a_paper(chromium, program, tmp_path):
    """Items with missing values; at most twelve things to do."""
    items = datasets.load_bfi(subset="items")
    lines = [",".join(items.feature_names)]
    lines += [
        ",".join("" if np.isnan(value) else f"{value:.0f}" for value in row)
        for row in items.data[:700]
    ]
    page, done = entered(chromium, program), 0
    assert "key" not in page.run("return location.href")
    assert page.run("return document.referrer") == ""
    assert page.run("return document.cookie") == ""

    drop(page, "items.csv", "\n".join(lines))
    done += 1
    assert until(page, HAS_TABLE) == 25
    assert page.text("#data-title") == "items.csv: 700 rows, 25 columns"
    page.screenshot("app_columns")

    page.click("#fit-button")
    done += 1
    until(page, HAS_ANSWER)
    choose(page, "n_factors", "5")
    done += 1
    until(page, f"({HAS_ANSWER}) === '5'")
    assert not page.run("return document.querySelector('#before').hidden")
    assert page.text("#before .tag") == "Before"

    names = ["Neuroticism", "Extraversion", "Conscientiousness", "Agreeableness", "Openness"]
    for h, name in enumerate(names):
        write(page, f"#names label:nth-child({h + 1}) input", name)
        done += 1
    until(page, "document.querySelector('#map').textContent.includes('Openness')")
    until(page, HAS_REPORT)
    assert "Openness" in page.text("#factors")
    assert "Openness" in page.text("#table")

    assert saved(page, "tables", "items-tables.docx").startswith(b"PK")
    done += 1
    page.click("#copy-methods")
    done += 1
    said = page.text("#methods")
    assert said.startswith("The data are items.csv (CSV): 700 rows, 25 columns")
    assert "700 rows and 25 columns were analysed" in said
    assert done <= 12
    page.screenshot("app_answer")

    report = saved(page, "report", "items-report.html").decode()
    assert report.startswith("<!DOCTYPE html>")
    assert "Openness" in report
    (tmp_path / "fit.cusp").write_bytes(saved(page, "fit", "items.cusp"))
    posterior = load(tmp_path / "fit.cusp")
    assert posterior.factor_names == names
    shown = [row.replace("−", "-") for row in page.texts("#table tbody tr:first-child td b")]
    first = posterior.names.index(page.text("#table tbody tr:first-child th"))
    expected = posterior.rotated_solution.loadings[first]
    np.testing.assert_allclose([float(one) for one in shown[:5]], expected, atol=0.0051)
    assert errors_of(page, program) == ([], [])


def opened(chromium, program, **how):
    page = entered(chromium, program, **how)
    drop(page, "small.csv", CSV)
    until(page, HAS_TABLE)
    return page


def fitted(chromium, program, **how):
    page = opened(chromium, program, **how)
    page.click("#fit-button")
    until(page, HAS_ANSWER)
    until(page, HAS_REPORT)
    return page


def test_each_change_is_answered_with_the_answer_before_beside_it(chromium, program):
    page = fitted(chromium, program)
    assert page.run("return document.querySelector('#before').hidden")
    changes = [("rotation", "varimax"), ("n_factors", "1"), ("model_error", "0.05")]
    for name, value in changes:
        before = page.text("#now .asked")
        choose(page, name, value)
        until(page, "document.querySelector('#now .asked').textContent !== arguments[0]", before)
        assert page.text("#before .asked") == before
        assert (
            page.run("return document.querySelectorAll('#before [id], #before [tabindex]').length")
            == 0
        )
    page.click('input[value="x3"]')
    until(page, "document.querySelector('#now .asked').textContent.startsWith('9 columns')")
    assert page.text("#ticked") == "9 of 10 columns"
    until(page, HAS_REPORT)
    assert "x3" not in page.texts("#table tbody th")
    assert "--exclude x3" in page.text("#done")
    # Every id is there once.
    twice = page.run(
        "const ids = Array.from(document.querySelectorAll('[id]'), e => e.id).filter(i => i);"
        "return ids.filter((one, i) => ids.indexOf(one) !== i)"
    )
    assert [one for one in twice if not one.startswith(("answer", "svg"))] == []
    assert errors_of(page, program) == ([], [])


def test_a_bad_file_is_told_and_the_page_goes_on(chromium, program):
    page = entered(chromium, program)
    drop(page, "<img src=x onerror=window.ran=1>.csv", "a,b\n1,2\n")
    said = until(
        page,
        "!document.querySelector('#error').hidden && document.querySelector('#error').textContent",
    )
    assert "1 row" in said
    assert page.run("return document.querySelector('#error').getAttribute('role')") == "alert"
    assert page.run("return window.ran") is None
    assert page.run("return document.querySelector('#progress').hidden")
    drop(page, "small.csv", CSV)
    assert until(page, HAS_TABLE) == 10
    assert page.run("return document.querySelector('#error').hidden")


def test_a_long_fit_is_stopped(chromium, program):
    page = entered(chromium, program)
    page.click("#example")
    until(page, HAS_TABLE)
    choose(page, "likelihood", "ordinal")
    page.click("#fit-button")
    until(page, "document.querySelector('#busy').textContent.startsWith('Fitting')")
    assert not page.run("return document.querySelector('#stop').hidden")
    page.run("document.querySelector('#stop').click()")
    said = until(
        page,
        "!document.querySelector('#error').hidden && document.querySelector('#error').textContent",
    )
    assert said.startswith("Stopped.")
    choose(page, "likelihood", "gaussian")
    page.click("#fit-button")
    assert int(until(page, HAS_ANSWER)) > 2


def test_two_pages_at_once(chromium, program):
    page = opened(chromium, program)
    first, address = page.driver.current_window_handle, page.run("return location.href")
    page.driver.switch_to.new_window("tab")
    try:
        entered(chromium, program)
        assert page.run("return location.href") != address
        page.click("#example")
        assert until(page, HAS_TABLE) == 25
        page.click("#fit-button")
        page.driver.switch_to.window(first)
        assert page.run(f"return {HAS_TABLE}") == 10
        page.click("#fit-button")
        assert until(page, HAS_ANSWER) == "2"
        assert "small.csv" in page.text("#data-title")
    finally:
        for handle in page.driver.window_handles:
            if handle != first:
                page.driver.switch_to.window(handle)
                page.driver.close()
        page.driver.switch_to.window(first)


def test_pages_can_be_opened_one_after_another_and_not_too_many_at_once(chromium, program):
    for _ in range(10):  # quicker than closed pages give their places back by themselves
        page = opened(chromium, program)
    first = page.driver.current_window_handle
    try:
        for _ in range(3):
            page.driver.switch_to.new_window("tab")
            opened(chromium, program)
        fourth = page.driver.current_window_handle
        page.driver.switch_to.new_window("tab")
        chromium.visit(program.address)
        assert "The largest number of pages is open" in page.text("body")
        fifth = page.driver.current_window_handle
        page.driver.switch_to.window(first)
        page.click("#fit-button")
        assert until(page, HAS_ANSWER) == "2"
        page.driver.switch_to.window(fourth)
        page.driver.close()
        page.driver.switch_to.window(fifth)
        until(page, "Boolean(document.querySelector('#drop'))")  # it has come by itself
    finally:
        for handle in page.driver.window_handles:
            if handle != first:
                page.driver.switch_to.window(handle)
                page.driver.close()
        page.driver.switch_to.window(first)


def test_a_page_that_is_loaded_again_goes_on(chromium, program):
    page = fitted(chromium, program)
    page.driver.refresh()
    assert until(page, HAS_ANSWER) == "2"
    until(page, HAS_REPORT)
    assert "small.csv" in page.text("#data-title")
    choose(page, "n_factors", "1")
    until(page, f"({HAS_ANSWER}) === '1'")


def test_a_killed_server_is_told(chromium, tmp_path):
    program = Program(tmp_path)
    page = opened(chromium, program)
    program.process.send_signal(signal.SIGKILL)
    said = until(
        page,
        "!document.querySelector('#error').hidden && document.querySelector('#error').textContent",
    )
    assert "Start it again: cuspfa app" in said
    assert page.run(f"return {HAS_TABLE}") == 10  # what was shown is still there
    page.driver.get("about:blank")  # or it asks for its program while the next page is opened
    program.close()


def test_an_analysis_is_saved_opened_again_and_shared_without_its_rows(chromium, program, tmp_path):
    page = fitted(chromium, program)
    choose(page, "n_factors", "1")
    until(page, f"({HAS_ANSWER}) === '1'")
    whole = saved(page, "analysis", "small.cuspa")
    page.click("#no-rows")
    (page.downloads / "small.cuspa").unlink()
    shared = saved(page, "analysis", "small.cuspa")
    assert CSV.encode() in whole
    assert CSV.encode()[:40] not in shared
    for content, n_columns in ((whole, 10), (shared, 0)):
        path = tmp_path / "again.cuspa"
        path.write_bytes(content)
        page = entered(chromium, program)
        page.driver.find_element("css selector", "#file").send_keys(str(path))
        assert until(page, HAS_ANSWER) == "1"
        assert page.run(f"return {HAS_TABLE}") == n_columns
        disabled = "return document.querySelector('#controls [name=n_factors]').disabled"
        assert page.run(disabled) == (n_columns == 0)
        choose(page, "rotation", "varimax")
        until(page, "document.querySelector('#now .asked').textContent.includes('varimax')")


@pytest.mark.parametrize(("width", "dark"), [(360, False), (390, True), (820, False), (1200, True)])
def test_it_fits_the_screen_in_both_colours(chromium, program, width, dark):
    page = fitted(chromium, program, width=width, height=780, dark=dark)
    choose(page, "rotation", "varimax")
    until(page, "document.querySelector('#now .asked').textContent.includes('varimax')")
    found = page.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert found[0] <= found[1] == width
    ground = page.run("return getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([float(part) for part in ground[4:-1].split(",")])
    assert brightness < 60 if dark else brightness > 200
    page.screenshot(f"app_{width}_{'dark' if dark else 'light'}")


def test_keys_reach_everything_and_all_fields_have_names(chromium, program):
    page = fitted(chromium, program)
    nameless = page.run(
        "return Array.from(document.querySelectorAll('input, select, button')).filter(e =>"
        "!(e.labels && e.labels.length) && !e.textContent.trim() && !e.getAttribute('aria-label'))"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []
    page.run("document.querySelector('.skip').focus()")
    reached = set()
    for _ in range(90):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        at = "const e = document.activeElement; return e.id || e.dataset.get || e.name"
        reached.add(page.run(at))
    wanted = {"theme", "file", "example", "missing", "tick-all", "find-column", "column"}
    assert (
        wanted | {"rotation", "n_factors", "model_error", "likelihood", "fit-button", "map"}
        <= reached
    )
    page.run("document.querySelector('[data-get]').focus()")
    for _ in range(12):
        reached.add(page.run(at))
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
    assert {"report", "tables", "fit", "analysis", "scores", "kind", "copy-methods"} <= reached


def test_a_list_is_changed_by_keys_and_the_focus_stays(chromium, program):
    page = fitted(chromium, program)
    page.run("document.querySelector('[name=rotation]').focus()")
    wanted = page.run("return document.activeElement.selectedOptions[0].nextElementSibling.value")
    assert wanted
    ActionChains(page.driver).send_keys(Keys.ARROW_DOWN).perform()
    until(page, "document.querySelector('#now .asked').textContent.includes(arguments[0])", wanted)
    until(page, HAS_REPORT)
    assert page.run("return document.activeElement.name") == "rotation"


def test_the_policy_refuses_foreign_addresses_and_inline_scripts(chromium, program):
    page = entered(chromium, program)
    refused = page.driver.execute_async_script(
        "const done = arguments[0];"
        "fetch('http://127.0.0.1:9/').then(() => done(false), () => done(true))"
    )
    assert refused
    page.run(
        "window.refused = [];"
        "addEventListener('securitypolicyviolation',"
        "e => window.refused.push(e.violatedDirective));"
        "const one = document.createElement('script'); one.textContent = 'window.ran = 1';"
        "document.body.append(one); const two = document.createElement('div');"
        'two.innerHTML = \'<img src="data:x" onerror="window.ran = 2">\'; document.body.append(two)'
    )
    until(page, "window.refused.length >= 2")
    assert set(page.run("return window.refused")) == {"script-src-elem", "script-src-attr"}
    assert page.run("return window.ran") is None
    errors, _ = errors_of(page, program)
    assert sum("violates the following Content Security" in one for one in errors) == 3
