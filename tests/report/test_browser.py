"""Pages in a real browser: what it complains of, whether everyone can use them, on screens of all kinds and on paper.

They run where LAKEEVOLVE_BROWSER names a Chromium and chromedriver lies beside it or on the path, as in .ci/run.
LAKEEVOLVE_SCREENSHOTS names a folder that pictures are kept in, for those who want to look.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.applying.past import past_of
from lakeevolve.report import outcome as outcomes
from lakeevolve.report.adoption import of_adoption
from lakeevolve.report.html import html
from lakeevolve.report.past import of_past

pytestmark = pytest.mark.browser

SAMPLES = Path(__file__).resolve().parents[2] / "sample_tables" / "orders"
CONTRACT = {
    "contract": "billing",
    "owner": "finance",
    "fields": [{"path": "order_id", "required": True}, {"path": "total"}],
    "accepts": [1, 2],
}
LOOSE = {"contract": "reports", "owner": "bi", "fields": [{"path": "order_id", "required": True}]}
PAGES = ("check", "plan", "diff", "verify", "history", "adopt", "project", "describe")
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    named = os.environ.get("LAKEEVOLVE_BROWSER")
    if not named:
        pytest.skip("LAKEEVOLVE_BROWSER names no Chromium")
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which(named), shutil.which("chromedriver")
    assert program is not None, f"{named} is no program"
    assert driver is not None, "chromedriver is not on the path"
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    try:
        yield made
    finally:
        made.quit()


@pytest.fixture(scope="module")
def axe() -> str:
    """The program that finds what people with disabilities cannot use."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core is not installed")
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of a page of each kind, of a table that went through versions."""
    from lakeevolve.config.load import parse_project
    from lakeevolve.planning.project import plan_project
    from lakeevolve.report.project import of_project
    from lakeevolve.tables import delta
    from tests.conftest import make_rows

    if not os.environ.get("LAKEEVOLVE_BROWSER"):
        pytest.skip("LAKEEVOLVE_BROWSER names no Chromium")
    place = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("LAKEEVOLVE_STATE", str(place / "state"))
        first, *between = (SAMPLES / f"v{number}.avsc" for number in (1, 2, 3))
        uri = "delta:lake/orders"
        delta.create_table(uri, le.load(first))
        rows: pa.Table = make_rows(le.load(first), 20, 1)
        delta.append(uri, rows)
        for version in between:
            le.apply(le.plan(uri, version, mode="NONE"), ("rewrite", "backfill", "drop"))
        live, newest = le.open_table(uri), le.load(SAMPLES / "v6.avsc")
        history = [SAMPLES / f"v{number}.avsc" for number in range(1, 6)]
        entry = {"source": str(SAMPLES / "v6.avsc"), "tables": [uri], "mode": "NONE"}
        project = parse_project(json.dumps({"version": 1, "subjects": {"orders": entry}}), place / "lakeevolve.yaml")
        replayed = le.verify(live, contracts=[CONTRACT])
        made = {
            "check": outcomes.of_check(le.check(newest, history, mode="FULL_TRANSITIVE", contracts=[CONTRACT]), newest),
            "plan": outcomes.of_plan(le.plan(live, SAMPLES / "v4.avsc", contracts=[LOOSE])),
            "diff": outcomes.of_diff(le.diff(first, newest)),
            "verify": outcomes.of_verify(replayed, uri),
            "history": of_past(past_of(live)),
            "adopt": of_adoption(le.adopt(uri, str(SAMPLES))),
            "project": of_project(plan_project(project), "error"),
            "describe": outcomes.of_description(le.describe(live).to_json()),
        }
        assert made.keys() == set(PAGES)
        found = {}
        for name, outcome in made.items():
            file = place / f"{name}.html"
            file.write_text(html(outcome), encoding="utf-8")
            found[name] = file.as_uri()
        yield found


def show(browser: Any, address: str, scheme: str = "light", width: int = 1280, height: int = 900) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 640}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(address)


def keep(browser: Any, name: str) -> None:
    folder = os.environ.get("LAKEEVOLVE_SCREENSHOTS")
    if folder:
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        Path(folder, f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_used_by_everyone_and_the_browser_has_nothing_to_say(
    page: str, scheme: str, browser: Any, pages: dict[str, str], axe: str
) -> None:
    show(browser, pages[page], scheme)
    keep(browser, f"{page}-{scheme}")
    assert browser.get_log("browser") == []
    asked = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    urls = [each["params"]["request"]["url"] for each in asked if each["method"] == "Network.requestWillBeSent"]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    for details in browser.find_elements("css selector", "details"):
        browser.execute_script("arguments[0].open = true", details)
    browser.execute_script(axe)
    run = "const done = arguments[0]; axe.run(document).then(found => done(found.violations))"
    faults = browser.execute_async_script(run)
    assert [(each["id"], each["help"], [node["target"] for node in each["nodes"]][:3]) for each in faults] == []


def test_the_dark_is_dark_and_the_light_is_light(browser: Any, pages: dict[str, str]) -> None:
    grounds = {}
    for scheme in SCHEMES:
        show(browser, pages["check"], scheme)
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        grounds[scheme] = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(",")))
    assert grounds["light"] > 700
    assert grounds["dark"] < 120


@pytest.mark.parametrize("page", PAGES)
def test_on_a_telephone_the_page_itself_does_not_scroll_sideways(
    page: str, browser: Any, pages: dict[str, str]
) -> None:
    show(browser, pages[page], width=360, height=740)
    keep(browser, f"{page}-narrow")
    wide = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == 360
    # What is wider scrolls by itself, also by keyboard.
    for region in browser.find_elements("css selector", ".scroll"):
        assert region.get_attribute("tabindex") == "0"
        assert region.get_attribute("aria-label")


def test_the_keyboard_reaches_everything(browser: Any, pages: dict[str, str]) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, pages["check"])

    def press(key: str) -> None:
        browser.switch_to.active_element.send_keys(key)

    press(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the result"
    press(Keys.ENTER)
    press(Keys.TAB)
    inside = browser.execute_script("return document.querySelector('main').contains(document.activeElement)")
    assert inside
    seen = []
    for _ in range(60):
        active = browser.switch_to.active_element
        seen.append((active.tag_name, active.get_attribute("aria-label") or active.text))
        if active.tag_name == "summary":
            press(Keys.ENTER)
            assert browser.execute_script("return document.activeElement.parentElement.open")
            outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid"
            break
        press(Keys.TAB)
    assert any(tag == "summary" for tag, _ in seen), seen


def test_on_paper_everything_is_there(browser: Any, pages: dict[str, str]) -> None:
    show(browser, pages["check"])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    folded = browser.find_elements("css selector", "details:not([open]) table")
    assert folded
    for table in folded:
        assert browser.execute_script("return arguments[0].checkVisibility({contentVisibilityAuto: true})", table)
        assert table.size["height"] > 20
    made = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(made["data"])
    assert pdf.startswith(b"%PDF")
    folder = os.environ.get("LAKEEVOLVE_SCREENSHOTS")
    if folder:
        Path(folder, "check.pdf").write_bytes(pdf)
        keep(browser, "check-print")


def test_what_a_report_of_schemas_holds_is_there(browser: Any, pages: dict[str, str]) -> None:
    wanted = {
        "check": ["Findings", "Schema, version 5 and candidate", "Compatibility of versions", "Consumers"],
        "plan": ["Steps", "Cost", "Rollout", "Schema, ", "Compatibility of versions", "Consumers"],
        "verify": ["Rows compared", "Readers asked", "Consumers"],
        "history": ["Versions", "Who reads the rows of each version", "Compatibility of versions"],
    }
    for page, headings in wanted.items():
        show(browser, pages[page])
        found = [each.text for each in browser.find_elements("css selector", "h2")]
        for heading in headings:
            assert any(each.startswith(heading) for each in found), (page, heading, found)
        levels = browser.execute_script(
            "return [...document.querySelectorAll('h1,h2,h3,h4')].map(each => each.tagName)"
        )
        assert levels[0] == "H1"
        assert set(levels[1:]) == {"H2"}


def test_the_tree_shows_what_changed_beside_what_did_not(browser: Any, pages: dict[str, str]) -> None:
    show(browser, pages["diff"])
    rows = [each.text for each in browser.find_elements("css selector", ".tree tbody tr")]
    assert any("total" in row and "total_amount" in row and "renamed" in row for row in rows)
    for kind in ("added", "dropped", "renamed", "changed"):
        assert browser.find_elements("css selector", f".tree td.sign.{kind}")
